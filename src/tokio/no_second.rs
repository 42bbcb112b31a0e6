//! Where tokio's readiness of a datagram socket can always be cleared, nothing is registered twice.

use std::io;
use std::task::{Context, Poll};

use crate::sys::{BorrowedSocket, Direction};

/// Never made.
pub(super) enum Second {}

pub(super) fn poll_event(
    _: BorrowedSocket<'_>,
    _: Direction,
    _: &mut Option<Second>,
    _: &mut Context<'_>,
) -> Option<Poll<io::Result<()>>> {
    None
}

pub(super) fn poll_writable(
    _: BorrowedSocket<'_>,
    _: &mut Context<'_>,
) -> Option<Poll<io::Result<()>>> {
    None
}

pub(super) fn end_poll(_: BorrowedSocket<'_>, _: &Context<'_>) {}

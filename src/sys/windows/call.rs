//! One batch: a call for each message.

use super::msg;
use crate::sys::headers::{RecvHeaders, WiredSends};
use crate::sys::{Backend, CallResult, RecvFlags, SendFlags};
use std::os::windows::io::BorrowedSocket;

/// Receives into wired headers.
#[inline]
pub(crate) fn recv(
    _: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut RecvHeaders<'_>,
    flags: RecvFlags,
) -> CallResult {
    msg::recv(socket, wired, flags)
}

/// Sends wired headers.
#[inline]
pub(crate) fn send(
    _: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredSends<'_>,
    flags: SendFlags,
) -> CallResult {
    msg::send(socket, wired, flags)
}

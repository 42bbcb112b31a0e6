//! The cooperative budget of the task: a unit for each datagram.

use std::task::{Context, Poll, Waker};

use ::tokio::task::coop;

use crate::recv::message::Message;
use crate::send::coalesce::explicit_segment_size;
use crate::send::msg::SendMsg;

/// More units than a task ever has.
const MAX: usize = u8::MAX as usize;

/// Charges a unit for each of these datagrams, at most those that are left. The next call then yields.
///
/// tokio has charged the first: the one for the attempt.
#[inline]
pub(super) fn charge(datagrams: usize) {
    for _ in 1..datagrams.min(MAX) {
        let mut cx = Context::from_waker(Waker::noop());
        match coop::has_budget_remaining().then(|| coop::poll_proceed(&mut cx)) {
            Some(Poll::Ready(unit)) => unit.made_progress(),
            _ => return,
        }
    }
}

/// The datagrams of a received message.
pub(super) fn received(message: &Message<'_>) -> usize {
    message.datagrams().len()
}

/// The datagrams that messages are sent as.
#[inline]
pub(super) fn sent(msgs: &[SendMsg<'_>]) -> usize {
    let datagrams =
        |msg| explicit_segment_size(msg).map_or(1, |size| msg.len().div_ceil(size.into()));
    msgs.iter().map(datagrams).sum()
}

//! Pushes of several datagrams, of which all are queued or none.

use std::borrow::Borrow;
use std::net::SocketAddr;

use super::stage::Lengths;
use super::{PushError, SendQueue};
use crate::send::msg::SendMsg;

impl SendQueue {
    pub(super) fn push_all_or_none<'m, M>(
        &mut self,
        msgs: impl IntoIterator<Item = M>,
    ) -> Result<(), PushError>
    where
        M: Borrow<SendMsg<'m>>,
    {
        let push = AllOrNothing::begin(self);
        // If they do not fit now, the others are still counted: whether they ever fit is for all of them.
        let (mut needed, mut full) = (0usize, false);
        for msg in msgs {
            let msg = msg.borrow();
            match push.queue.push(msg) {
                Ok(()) => {}
                Err(PushError::Full) => full = true,
                Err(error) => return Err(error),
            }
            needed = needed.saturating_add(SendQueue::cost(msg));
            if needed > push.queue.capacity {
                return Err(PushError::TooLong);
            }
        }
        push.end(full)
    }

    pub(super) fn push_to_all_or_none(
        &mut self,
        msg: &SendMsg<'_>,
        dests: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<(), PushError> {
        let push = AllOrNothing::begin(self);
        let mut dests = dests.into_iter();
        let Some(first) = dests.next() else { return Ok(()) };
        let msg = msg.with_dest(first);
        let (mut needed, mut full) = (SendQueue::cost(&msg), false);
        match push.queue.push(&msg) {
            Ok(()) => {}
            Err(PushError::Full) => full = true,
            Err(error) => return Err(error),
        }
        for dest in dests {
            needed = needed.saturating_add(SendQueue::OVERHEAD);
            if needed > push.queue.capacity {
                return Err(PushError::TooLong);
            }
            full = full || push.queue.remaining() < SendQueue::OVERHEAD;
            if !full {
                push.queue.back.repeat(dest);
                push.queue.bytes += SendQueue::OVERHEAD;
            }
        }
        push.end(full)
    }
}

/// Pushes that are all undone if they end early, by an error or by a panic of the caller's iterator.
struct AllOrNothing<'q> {
    queue: &'q mut SendQueue,
    /// How much the back stage had, and the bytes counted, before the first of them.
    before: Lengths,
    bytes: usize,
    done: bool,
}

impl<'q> AllOrNothing<'q> {
    fn begin(queue: &'q mut SendQueue) -> Self {
        let (before, bytes) = (queue.back.lengths(), queue.bytes);
        Self { queue, before, bytes, done: false }
    }

    fn end(mut self, full: bool) -> Result<(), PushError> {
        self.done = !full;
        if full { Err(PushError::Full) } else { Ok(()) }
    }
}

impl Drop for AllOrNothing<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.queue.back.truncate(&self.before);
            self.queue.bytes = self.bytes;
        }
    }
}

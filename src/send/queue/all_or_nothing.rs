//! Pushes of several datagrams, of which all are queued or none.

use std::borrow::Borrow;
use std::net::SocketAddr;

use super::stage::Lengths;
use super::{PushError, SendQueue};
use crate::send::msg::SendMsg;

impl SendQueue {
    /// Copies several datagrams into the queue in order, or none of them: the fragments of one frame, for
    /// example, which are of no use without each other.
    ///
    /// Nothing else is sent between them, in a [grouped](Self::grouped_by_dest) queue between those to one
    /// destination. They are not otherwise one unit: a flush may send some of them and leave the others in
    /// the queue.
    ///
    /// ```
    /// use mmsg::errors::PushError;
    /// use mmsg::{SendMsg, SendQueue};
    ///
    /// let mut queue = SendQueue::for_batch(2, 100);
    /// let fragments = [SendMsg::new(b"one"), SendMsg::new(b"two")];
    /// queue.push_all(&fragments)?;
    /// assert_eq!(queue.push_all([SendMsg::new(&[0; 300]); 2]), Err(PushError::TooLong));
    /// assert_eq!(queue.len(), 2);
    /// # Ok::<(), PushError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`push`](Self::push), about all datagrams together: [`PushError::TooLong`] if they can
    /// never be in the queue at the same time. The queue is unchanged.
    pub fn push_all<'m, M>(&mut self, msgs: impl IntoIterator<Item = M>) -> Result<(), PushError>
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

    /// Copies one message into the queue once for each of several destinations, or for none of them. Its
    /// payload, control data and options are stored once; its own destination is not used. So all leave from
    /// one source address: where the members of a group asked different addresses of this host, call this
    /// once for each address, with the [source](SendMeta::with_source) and the members that asked it.
    ///
    /// The first of these datagrams counts as much as in a [`push`](Self::push), the others
    /// [`OVERHEAD`](Self::OVERHEAD) each. Without destinations nothing is queued.
    ///
    /// ```
    /// use mmsg::{SendMsg, SendQueue};
    /// use std::net::SocketAddr;
    ///
    /// let listeners: [SocketAddr; 3] = [([127, 0, 0, 1], 5004).into(); 3];
    /// let mut queue = SendQueue::new(1 << 16);
    /// queue.push_to_all(&SendMsg::new(&[0; 1200]), listeners)?;
    /// assert_eq!((queue.len(), queue.bytes()), (3, 1200 + 3 * SendQueue::OVERHEAD));
    /// # Ok::<(), mmsg::errors::PushError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`push_all`](Self::push_all). The queue is unchanged.
    pub fn push_to_all(
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

//! What a flush takes from a queue, and what it leaves there.

use std::mem;

use super::SendQueue;
use super::iter::Queued;
use super::stage::Stage;
use crate::send::msg::SendMsg;
use crate::send::outgoing::Messages;

impl SendQueue {
    /// The datagrams of the stage to be sent first.
    #[inline]
    pub(crate) fn stage(&mut self) -> impl Messages<'_, Item = Queued<'_>> {
        self.begin().iter()
    }

    /// Writes the first of them as `SendMsg`s, as many as there is memory for, and returns how many.
    pub(crate) fn fill<'a>(&'a mut self, msgs: &mut [SendMsg<'a>]) -> usize {
        self.begin().fill(msgs)
    }

    /// The stage to be sent first, in the order of sending.
    #[inline]
    fn begin(&mut self) -> &Stage {
        if self.grouped {
            self.turn();
            self.front.group();
        }
        self.first()
    }

    /// The stage to be sent first.
    #[inline]
    pub(super) fn first(&self) -> &Stage {
        if self.front.len() > 0 { &self.front } else { &self.back }
    }

    /// Drops the first `n` datagrams of that stage by moving its cursor.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        // The stages do not swap: the next pushes find the memory of these datagrams in the cache.
        if n == self.len() {
            return self.clear();
        }
        self.turn();
        self.bytes -= self.front.advance(n);
    }

    /// Swaps the stages if the front is empty.
    #[inline]
    fn turn(&mut self) {
        if self.front.len() == 0 {
            mem::swap(&mut self.front, &mut self.back);
        }
    }
}

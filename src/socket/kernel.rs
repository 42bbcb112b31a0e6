//! The calls on the kernel's sockets, by the thread's arenas.

use std::io::{self, IoSliceMut};

use super::BatchSocket;
use crate::engine::{batch, pool, single};
use crate::recv::batch::RecvBatch;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::recv::received::ReceivedTotals;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::sys::{BorrowedSocket, RecvFlags, SendFlags};

/// Uses the thread's pool of arenas.
impl BatchSocket for BorrowedSocket<'_> {
    #[inline]
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        self.recv_batch_with(msgs, RecvFlags::NONE)
    }

    #[inline]
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        self.send_batch_with(msgs, SendFlags::NONE)
    }

    #[inline]
    fn send_batch_with(&self, msgs: &[SendMsg<'_>], flags: SendFlags) -> io::Result<usize> {
        match single::send(*self, msgs, flags) {
            Some(result) => result,
            None => pool::with(|arena| arena.send_on(*self, msgs, flags)),
        }
    }

    #[inline]
    fn recv_batch_with(&self, msgs: &mut [RecvMsg<'_>], flags: RecvFlags) -> io::Result<usize> {
        pool::with(|arena| arena.recv_on(*self, msgs, flags))
    }

    #[inline]
    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.recv_into_with(batch, RecvFlags::NONE)
    }

    #[inline]
    fn recv_into_with(&self, batch: &mut RecvBatch, flags: RecvFlags) -> io::Result<usize> {
        batch::recv(batch, *self, flags)
    }

    #[inline]
    fn recv_slices_dyn(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        // Only an `Offload` counts totals.
        let mut totals = ReceivedTotals::NONE;
        pool::with(|arena| arena.recv_slices_on(*self, buffers, flags, &mut totals, each))
    }

    #[inline]
    fn send_iter_dyn<'m>(&self, msgs: &mut dyn Iterator<Item = SendMsg<'m>>) -> io::Result<usize> {
        pool::with(|arena| arena.send_iter_on(*self, msgs))
    }

    #[inline]
    fn flush(&self, queue: &mut SendQueue) -> io::Result<usize> {
        pool::with(|arena| arena.flush_on(*self, queue))
    }
}

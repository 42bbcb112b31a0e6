//! [`Target`]: the arguments of a receive, for a caller that needs its whole outcome.

use std::io::{self, IoSliceMut};

#[cfg(feature = "tokio")]
use super::BatchSocket;
use crate::arena;
use crate::recv::batch::RecvBatch;
#[cfg(feature = "bytes")]
use crate::recv::bufs::Buffers;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::sys::{BorrowedSocket, RecvFlags, Taken};

/// Where a receive puts its messages: the arguments of the method of [`BatchSocket`] beside it.
pub enum Target<'t, 'm> {
    /// `recv_batch`
    Msgs(&'t mut [RecvMsg<'m>]),
    /// `recv_into`
    Batch(&'t mut RecvBatch),
    /// `recv_more`
    More(&'t mut RecvBatch),
    /// `recv_slices`
    Slices(&'t mut [IoSliceMut<'m>], &'t mut dyn FnMut(usize, Message<'_>)),
    /// `recv_bufs`
    #[cfg(feature = "bytes")]
    Bufs(&'t mut dyn Buffers, &'t mut dyn FnMut(usize, Message<'_>)),
}

impl Target<'_, '_> {
    /// Receives by the method. A count alone does not say whether the socket is empty.
    #[cfg(feature = "tokio")]
    pub(crate) fn receive_by(&mut self, socket: &dyn BatchSocket) -> io::Result<usize> {
        match self {
            Self::Msgs(msgs) => socket.recv_batch(msgs),
            Self::Batch(batch) => socket.recv_into(batch),
            Self::More(batch) => socket.recv_more(batch),
            Self::Slices(buffers, each) => socket.recv_slices(buffers, each),
            #[cfg(feature = "bytes")]
            Self::Bufs(bufs, each) => socket.recv_any_bufs(*bufs, each),
        }
    }

    /// Receives from the kernel's socket.
    #[inline(always)]
    pub(crate) fn receive_from(self, socket: BorrowedSocket<'_>) -> io::Result<Taken> {
        match self {
            Self::Msgs(msgs) => arena::with(|arena| arena.recv_on(socket, msgs, RecvFlags::NONE)),
            Self::Batch(batch) => {
                batch.clear();
                batch.recv(socket, RecvFlags::NONE)
            }
            Self::More(batch) => batch.recv(socket, RecvFlags::DONT_WAIT),
            Self::Slices(buffers, each) => {
                arena::with(|arena| arena.recv_slices(socket, buffers, each))
            }
            #[cfg(feature = "bytes")]
            Self::Bufs(bufs, each) => arena::with(|arena| arena.recv_bufs(socket, bufs, each)),
        }
    }
}

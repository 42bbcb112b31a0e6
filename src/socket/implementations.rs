//! The types that implement [`BatchSocket`]: borrowed descriptors, and types that forward to another `BatchSocket`.
//!
//! A blanket implementation for all descriptors would accept streams and files:
//!
//! ```compile_fail,E0599
//! use mmsg::BatchSocket;
//! let file = std::fs::File::open("/dev/null").unwrap();
//! let _ = file.recv_into(&mut mmsg::RecvBatch::new(64, 1500));
//! ```

use std::io::{self, IoSliceMut};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use super::BatchSocket;
use crate::arena;
use crate::recv::batch::RecvBatch;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::sys::{self, BorrowedSocket, Flags};

/// Uses the thread's arena.
impl BatchSocket for BorrowedSocket<'_> {
    #[inline]
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        arena::with(|arena| arena.recv(*self, msgs, Flags::NONE))
    }

    #[inline]
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        arena::with(|arena| arena.send(*self, msgs, Flags::NONE))
    }

    #[inline]
    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.clear();
        batch.recv(*self, Flags::NONE)
    }

    #[inline]
    fn recv_more(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.recv(*self, Flags::DONT_WAIT)
    }

    #[inline]
    fn recv_slices(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        arena::with(|arena| arena.recv_slices(*self, buffers, Flags::NONE, each))
    }
}

/// Implements [`BatchSocket`] for a type by the methods of another `BatchSocket`. A `cfg` stands at the item, where rustdoc
/// shows it.
macro_rules! forward {
    ($(#[$cfg:meta])? [$($generics:tt)*] $type:ty, |$this:ident| $socket:expr) => {
        $(#[$cfg])?
        impl<$($generics)*> $crate::socket::BatchSocket for $type {
            $crate::socket::forward! { @methods |$this| $socket,
                recv_batch(msgs: &mut [$crate::recv::msg::RecvMsg<'_>]);
                send_batch(msgs: &[$crate::send::msg::SendMsg<'_>]);
                recv_into(batch: &mut $crate::recv::batch::RecvBatch);
                recv_more(batch: &mut $crate::recv::batch::RecvBatch);
                recv_slices(
                    buffers: &mut [std::io::IoSliceMut<'_>],
                    each: &mut dyn FnMut(usize, $crate::recv::message::Message<'_>)
                );
                flush(queue: &mut $crate::send::queue::SendQueue);
            }
        }
    };
    (@methods |$this:ident| $socket:expr, $(
        $method:ident ($($arg:ident: $arg_type:ty),*);
    )*) => {$(
        #[inline]
        fn $method(&self, $($arg: $arg_type),*) -> std::io::Result<usize> {
            let $this = self;
            $socket.$method($($arg),*)
        }
    )*};
}
pub(crate) use forward;

macro_rules! forward_to_descriptor {
    ($(#[$cfg:meta])? [$($generics:tt)*] $type:ty) => {
        forward!($(#[$cfg])? [$($generics)*] $type, |socket| sys::borrow(socket));
    };
}
sys::for_datagram_sockets!(forward_to_descriptor);

forward!([T: BatchSocket + ?Sized] &T, |socket| (**socket));
forward!([T: BatchSocket + ?Sized] &mut T, |socket| (**socket));
forward!([T: BatchSocket + ?Sized] Box<T>, |socket| (**socket));
forward!([T: BatchSocket + ?Sized] Rc<T>, |socket| (**socket));
forward!([T: BatchSocket + ?Sized] Arc<T>, |socket| (**socket));

/// A decoy that makes rustc suggest the missing feature, by the notes of [`BatchSocket`].
///
/// rustc prints a trait's notes for a missing method only if an implementation with that method requires the trait. The one
/// below does. It applies to no type, as `PhantomData` is not a socket, so no call gets here. rustc prints its name, too.
#[doc(hidden)]
pub trait DatagramSocketWithItsFeatureOn {
    fn recv_batch(&self) {}
    fn send_batch(&self) {}
    fn recv_into(&self) {}
    fn recv_slices(&self) {}
}

impl<T: BatchSocket + ?Sized> DatagramSocketWithItsFeatureOn for T where PhantomData<T>: BatchSocket {}

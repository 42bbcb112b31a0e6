//! The types that forward to another socket: owned descriptors to borrowed ones, pointers to what they
//! point to.

use std::rc::Rc;
use std::sync::Arc;

use super::BatchSocket;
use crate::sys;

/// Implements [`BatchSocket`] by the methods of another one.
macro_rules! forward {
    ([$($generics:tt)*] $type:ty, |$this:ident| $socket:expr) => {
        impl<$($generics)*> $crate::socket::BatchSocket for $type {
            $crate::socket::forward! { @methods |$this| $socket,
                recv_batch(msgs: &mut [$crate::recv::msg::RecvMsg<'_>]);
                send_batch(msgs: &[$crate::send::msg::SendMsg<'_>]);
                send_batch_with(msgs: &[$crate::send::msg::SendMsg<'_>], flags: $crate::sys::SendFlags);
                recv_batch_with(msgs: &mut [$crate::recv::msg::RecvMsg<'_>], flags: $crate::sys::RecvFlags);
                recv_into(batch: &mut $crate::recv::batch::RecvBatch);
                recv_into_with(batch: &mut $crate::recv::batch::RecvBatch, flags: $crate::sys::RecvFlags);
                recv_slices_dyn(
                    buffers: &mut [std::io::IoSliceMut<'_>],
                    flags: $crate::sys::RecvFlags,
                    each: &mut dyn FnMut(usize, $crate::recv::message::Message<'_>)
                );
                send_iter_dyn<'m>(msgs: &mut dyn Iterator<Item = $crate::send::msg::SendMsg<'m>>);
                flush(queue: &mut $crate::send::queue::SendQueue);
                send_each_dyn<'m>(
                    msgs: &mut dyn Iterator<Item = $crate::send::msg::SendMsg<'m>>,
                    on_error: &mut dyn FnMut(usize, std::io::Error)
                );
            }
        }
    };
    (@methods |$this:ident| $socket:expr, $(
        $method:ident $(<$life:lifetime>)? ($($arg:ident: $arg_type:ty),*);
    )*) => {$(
        #[inline]
        fn $method $(<$life>)? (&self, $($arg: $arg_type),*) -> std::io::Result<usize> {
            let $this = self;
            $socket.$method($($arg),*)
        }
    )*};
}
pub(crate) use forward;

macro_rules! forward_to_descriptor {
    ([$($generics:tt)*] $type:ty) => {
        forward!([$($generics)*] $type, |socket| sys::borrow(socket));
    };
}
sys::for_datagram_sockets!(forward_to_descriptor);

forward!([T: BatchSocket + ?Sized] &T, |socket| (**socket));
forward!([T: BatchSocket + ?Sized] Box<T>, |socket| (**socket));
forward!([T: BatchSocket + ?Sized] Rc<T>, |socket| (**socket));
forward!([T: BatchSocket + ?Sized] Arc<T>, |socket| (**socket));

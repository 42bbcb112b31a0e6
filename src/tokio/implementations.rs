//! The types that implement [`AsyncBatchSocket`].

use std::io;
#[cfg(has_descriptors)]
use std::os::fd::AsRawFd;
use std::sync::Arc;

use ::tokio::net::UdpSocket;

use super::AsyncBatchSocket;
use crate::offload::Offload;
use crate::socket::BatchSocket;
use crate::sys::{self, AsSocket};

macro_rules! implement {
    ([$($generics:tt)*] $type:ty, $socket:ty, |$this:ident, $call:ident| $tokio_socket:expr, $called:expr, $is_kernels:expr) => {
        impl<$($generics)*> AsyncBatchSocket for $type {
            type Socket = $socket;

            fn tokio_socket(&self) -> &Self::Socket {
                let $this = self;
                $tokio_socket
            }

            fn batch_call(
                &self,
                $call: &mut dyn FnMut(&dyn BatchSocket) -> io::Result<usize>,
            ) -> io::Result<usize> {
                let $this = self;
                $called
            }

            fn is_kernels(&self) -> bool {
                let $this = self;
                $is_kernels
            }
        }
    };
}

macro_rules! impl_for_tokio_socket {
    ([$($generics:tt)*] $type:ty) => {
        implement!(
            [$($generics)*] $type, Self,
            |socket, call| socket, call(&sys::borrow(socket)), std::ptr::eq(socket, socket.tokio_socket())
        );
    };
}
impl_for_tokio_socket!([] UdpSocket);
#[cfg(has_descriptors)]
impl_for_tokio_socket!([] ::tokio::net::UnixDatagram);
#[cfg(has_descriptors)]
impl_for_tokio_socket!([T: AsRawFd + Send + Sync] ::tokio::io::unix::AsyncFd<T>);

macro_rules! impl_for_pointer {
    ([$($generics:tt)*] $type:ty) => {
        implement!(
            [$($generics)*] $type, T::Socket,
            |socket, call| (**socket).tokio_socket(), (**socket).batch_call(call), (**socket).is_kernels()
        );
    };
}
impl_for_pointer!([T: AsyncBatchSocket] &T);
impl_for_pointer!([T: AsyncBatchSocket] Box<T>);
impl_for_pointer!([T: AsyncBatchSocket + Send] Arc<T>);

implement!(
    [S: AsyncBatchSocket + AsSocket] Offload<S>, S::Socket,
    |socket, call| socket.get_ref().tokio_socket(), call(&socket.state().on(socket.get_ref())), socket.get_ref().is_kernels()
);

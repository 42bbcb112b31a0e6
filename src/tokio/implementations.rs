//! The types that implement [`AsyncBatchSocket`].

use std::io;
#[cfg(has_descriptors)]
use std::os::fd::AsRawFd;
use std::sync::Arc;

use ::tokio::net::UdpSocket;

use super::AsyncBatchSocket;
use crate::offload::{Offload, OffloadState};
use crate::socket::{BatchSocket, Target};
use crate::sys::{self, AsSocket, Taken};

macro_rules! implement {
    ([$($generics:tt)*] $type:ty, $socket:ty, |$this:ident, $arg:ident| $tokio_socket:expr, $arged:expr, $received:expr) => {
        impl<$($generics)*> AsyncBatchSocket for $type {
            type Socket = $socket;

            fn tokio_socket(&self) -> &Self::Socket {
                let $this = self;
                $tokio_socket
            }

            fn batch_call(
                &self,
                $arg: &mut dyn FnMut(&dyn BatchSocket) -> io::Result<usize>,
            ) -> io::Result<usize> {
                let $this = self;
                $arged
            }

            fn receive(&self, $arg: Target<'_, '_>) -> io::Result<Taken> {
                let $this = self;
                $received
            }
        }
    };
}

macro_rules! impl_for_tokio_socket {
    ([$($generics:tt)*] $type:ty) => {
        implement!(
            [$($generics)*] $type, Self,
            |socket, arg| socket, arg(&sys::borrow(socket)), arg.receive_from(sys::borrow(socket))
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
            |socket, arg| (**socket).tokio_socket(), (**socket).batch_call(arg), (**socket).receive(arg)
        );
    };
}
impl_for_pointer!([T: AsyncBatchSocket + ?Sized] &T);
impl_for_pointer!([T: AsyncBatchSocket + ?Sized] Box<T>);
impl_for_pointer!([T: AsyncBatchSocket + Send + ?Sized] Arc<T>);

implement!(
    [S: AsyncBatchSocket + AsSocket] Offload<S>, S::Socket,
    |socket, arg| socket.get_ref().tokio_socket(), arg(&socket.on(socket.get_ref())),
    OffloadState::receive(socket, sys::borrow(socket), arg)
);

//! One trait over tokio's socket types: waits until a socket is ready, and makes a call then.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ::tokio::io::{Interest, Ready};
use ::tokio::net::UdpSocket;

use crate::sys::AsSocket;

/// A socket of tokio: `UdpSocket`, and on Unix `UnixDatagram` and
/// [`AsyncFd`](https://docs.rs/tokio/latest/tokio/io/unix/struct.AsyncFd.html) around another non-blocking
/// datagram socket, such as socket2's.
///
/// [`AsyncBatchSocket`](super::AsyncBatchSocket) has the calls. No other type can implement this trait.
///
/// ```
/// use mmsg::{AsyncBatchSocket, RecvBatch, TokioSocket};
///
/// /// Takes any socket of tokio.
/// async fn receive<S: TokioSocket + AsyncBatchSocket>(socket: &S, batch: &mut RecvBatch) -> std::io::Result<usize> {
///     socket.recv_into(batch).await
/// }
/// # let _ = receive::<tokio::net::UdpSocket>;
/// ```
///
/// What the crate itself asks a socket for is out of reach:
///
/// ```compile_fail,E0308
/// fn forget<S: mmsg::TokioSocket>(socket: &S) {
///     let _ = socket.try_io(tokio::io::Interest::READABLE, || Ok(0));
/// }
/// ```
pub trait TokioSocket: Readiness {}

impl<S: Readiness> TokioSocket for S {}

/// A readiness to ask for. No program can name it, so none can call the methods of [`Readiness`].
#[derive(Clone, Copy)]
pub struct Want(Interest);

impl Want {
    pub(super) const READABLE: Self = Self(Interest::READABLE);
    pub(super) const WRITABLE: Self = Self(Interest::WRITABLE);
    pub(super) const ERROR: Self = Self(Interest::ERROR);
    pub(super) const READABLE_OR_ERROR: Self = Self(Interest::READABLE.add(Interest::ERROR));
}

/// The readiness of a socket.
pub trait Readiness: AsSocket + Sync + Sized {
    /// Makes `call` if tokio remembers this readiness, which must be a single one; else the result is `WouldBlock`. If the
    /// call returns `WouldBlock`, tokio forgets the readiness that was there before it.
    fn try_io(&self, want: Want, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize>;

    /// Waits for readiness. Any number of tasks may wait.
    fn ready(&self, want: Want) -> impl Future<Output = io::Result<Ready>> + Send + Sync;

    /// Waits until the socket is readable. Wakes the task of the last call only.
    fn poll_recv_ready(&self, _: Want, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The readiness that tokio remembers, without waiting.
    fn current(&self, want: Want) -> Ready {
        match pin!(self.ready(want)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready,
            _ => Ready::EMPTY,
        }
    }

    /// Whether tokio remembers this readiness, which must be a single one. Takes no lock, unlike [`current`](Self::current).
    fn is(&self, want: Want) -> bool {
        self.try_io(want, || Ok(0)).is_ok()
    }
}

macro_rules! impl_readiness {
    ($socket:ty) => {
        impl Readiness for $socket {
            fn try_io(
                &self,
                want: Want,
                call: impl FnOnce() -> io::Result<usize>,
            ) -> io::Result<usize> {
                self.try_io(want.0, call)
            }

            async fn ready(&self, want: Want) -> io::Result<Ready> {
                self.ready(want.0).await
            }

            fn poll_recv_ready(&self, _: Want, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_recv_ready(cx)
            }
        }
    };
}

impl_readiness!(UdpSocket);
#[cfg(has_descriptors)]
impl_readiness!(::tokio::net::UnixDatagram);

#[cfg(has_descriptors)]
impl<T: std::os::fd::AsRawFd + Send + Sync> Readiness for ::tokio::io::unix::AsyncFd<T> {
    fn try_io(&self, want: Want, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.try_io(want.0, |_| call())
    }

    async fn ready(&self, want: Want) -> io::Result<Ready> {
        Ok(self.ready(want.0).await?.ready())
    }

    fn poll_recv_ready(&self, _: Want, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx).map_ok(drop)
    }
}

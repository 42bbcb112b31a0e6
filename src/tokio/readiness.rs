//! One trait over tokio's socket types: waits until a socket is ready, and makes a call then.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ::tokio::io::{Interest, Ready};
use ::tokio::net::UdpSocket;

use crate::sys::{AsSocket, numbers};

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
pub trait TokioSocket: Readiness {}

impl<S: Readiness> TokioSocket for S {}

/// The readiness of a socket.
pub trait Readiness: AsSocket + Sync + Sized {
    /// Whether each socket of the type has an error queue.
    const HAS_ERROR_QUEUE: bool = false;

    /// Makes `call` if tokio remembers this readiness, which must be a single one; else the result is `WouldBlock`. If the
    /// call returns `WouldBlock`, tokio forgets the readiness that was there before it.
    fn try_io(
        &self,
        interest: Interest,
        call: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize>;

    /// Waits for readiness. Any number of tasks may wait.
    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> + Send + Sync;

    /// Waits until the socket is readable. Wakes the task of the last call only.
    fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The readiness that tokio remembers, without waiting.
    fn current(&self, interest: Interest) -> Ready {
        match pin!(self.ready(interest)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready,
            _ => Ready::EMPTY,
        }
    }

    /// Whether tokio remembers this readiness, which must be a single one. Takes no lock, unlike [`current`](Self::current).
    fn is(&self, interest: Interest) -> bool {
        self.try_io(interest, || Ok(0)).is_ok()
    }
}

macro_rules! impl_readiness {
    ($socket:ty, $has_error_queue:expr) => {
        impl Readiness for $socket {
            const HAS_ERROR_QUEUE: bool = $has_error_queue;

            fn try_io(
                &self,
                interest: Interest,
                call: impl FnOnce() -> io::Result<usize>,
            ) -> io::Result<usize> {
                self.try_io(interest, call)
            }

            async fn ready(&self, interest: Interest) -> io::Result<Ready> {
                self.ready(interest).await
            }

            fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_recv_ready(cx)
            }
        }
    };
}

impl_readiness!(UdpSocket, numbers::ERROR_V4.is_some());
#[cfg(has_descriptors)]
impl_readiness!(::tokio::net::UnixDatagram, false);

#[cfg(has_descriptors)]
impl<T: std::os::fd::AsRawFd + Send + Sync> Readiness for ::tokio::io::unix::AsyncFd<T> {
    fn try_io(
        &self,
        interest: Interest,
        call: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.try_io(interest, |_| call())
    }

    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        Ok(self.ready(interest).await?.ready())
    }

    fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx).map_ok(drop)
    }
}

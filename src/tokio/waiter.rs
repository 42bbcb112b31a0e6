//! [`SendWaiter`]: waits in a sender of its own.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

type Wait = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

/// What a sender keeps to wait for space in a full socket: see [`AsyncBatchSocket::poll_send_batch`].
///
/// Each sender on a socket has its own, so that each is woken. It allocates only when the socket is full, and
/// aborts the process if that fails, as a `Box` does.
///
/// ```
/// use mmsg::{AsyncBatchSocket, SendMsg, SendWaiter};
/// use std::{io, sync::Arc, task::{Context, Poll}};
///
/// /// One of several senders on a socket.
/// struct Sender {
///     socket: Arc<tokio::net::UdpSocket>,
///     waiter: SendWaiter,
/// }
///
/// impl Sender {
///     fn poll_send(&mut self, cx: &mut Context<'_>, msg: SendMsg<'_>) -> Poll<io::Result<usize>> {
///         self.socket.poll_send_batch(cx, &mut self.waiter, &[msg])
///     }
/// }
/// ```
///
/// [`AsyncBatchSocket::poll_send_batch`]: crate::AsyncBatchSocket::poll_send_batch
#[derive(Default)]
pub struct SendWaiter(Option<Wait>);

impl SendWaiter {
    /// A waiter that does not wait yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Ends when the wait that was begun has ended, at once if there is none.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(wait) = &mut self.0 else { return Poll::Ready(Ok(())) };
        let result = ready!(wait.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(result)
    }

    /// Begins to wait.
    #[cold]
    pub(super) fn begin(
        &mut self,
        wait: impl Future<Output = io::Result<()>> + Send + Sync + 'static,
    ) {
        self.0 = Some(Box::pin(wait));
    }
}

impl fmt::Debug for SendWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SendWaiter").field(&self.0.is_some()).finish()
    }
}

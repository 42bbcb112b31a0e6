//! [`SendWaiter`]: waits in a sender of its own.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::wait;

/// What a sender keeps to wait for space in a full socket: see [`AsyncBatchSocket::poll_send_batch`].
///
/// Each sender on a socket has its own, so that each is woken. It allocates only when the socket is full.
#[derive(Default)]
pub struct SendWaiter {
    wait: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>>,
    /// The last sleep in a row, if tokio does not report when there is space.
    slept: Duration,
}

impl SendWaiter {
    /// A waiter that does not wait yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { wait: None, slept: Duration::ZERO }
    }

    /// Waits until a full socket may have space. Ready at once if the last send did not find it full.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(wait) = &mut self.wait else { return Poll::Ready(Ok(())) };
        let result = ready!(wait.as_mut().poll(cx));
        self.wait = None;
        Poll::Ready(result)
    }

    /// Begins to wait, after a send that found the socket full. Passes how long to sleep.
    #[cold]
    pub(super) fn begin<F>(&mut self, wait: impl FnOnce(Duration) -> F)
    where
        F: Future<Output = io::Result<()>> + Send + Sync + 'static,
    {
        self.slept = wait::longer(self.slept);
        self.wait = Some(Box::pin(wait(self.slept)));
    }

    /// Forgets earlier sleeps, after a send that did not find the socket full.
    pub(super) fn reset(&mut self) {
        self.slept = Duration::ZERO;
    }
}

impl fmt::Debug for SendWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendWaiter").field("waits", &self.wait.is_some()).finish()
    }
}

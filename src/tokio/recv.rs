//! The receives of [`AsyncBatchSocket`](super::AsyncBatchSocket): a call, made when the socket is ready for it.

use std::io;
use std::task::{Context, Poll, ready};

use super::readiness::Readiness;
use super::wait;

/// Receives up to `most` messages by `call`; no system call if that is none.
pub(super) async fn receive(
    socket: &impl Readiness,
    most: usize,
    call: impl FnMut() -> io::Result<usize> + Send,
) -> io::Result<usize> {
    if most == 0 {
        return Ok(0);
    }
    // An implementation of `BatchSocket` may return more than there can be.
    wait::receive(socket, call).await?.map(|count| count.min(most))
}

/// Like [`receive`], or has the task woken.
pub(super) fn poll_receive(
    socket: &impl Readiness,
    cx: &mut Context<'_>,
    most: usize,
    call: impl FnMut() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    if most == 0 {
        return Poll::Ready(Ok(0));
    }
    let received = ready!(wait::poll_receive(socket, cx, call))?;
    Poll::Ready(received.map(|count| count.min(most)))
}

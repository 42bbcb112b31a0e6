//! The sends of [`AsyncBatchSocket`](super::AsyncBatchSocket): calls, made when the socket is ready for them, until
//! all is sent.

use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use super::readiness::Readiness;
use super::taken::{AsSendMsg, Taken};
use super::wait;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::socket::Offer;

/// Sends messages until one fails. `call` sends a range of those that were taken from the iterator.
pub(super) async fn send_iter<M: AsSendMsg>(
    socket: &impl Readiness,
    msgs: impl Iterator<Item = M> + Send,
    mut call: impl FnMut(&Taken<M>, Range<usize>) -> io::Result<usize> + Send,
) -> io::Result<usize> {
    let mut msgs = msgs.fuse();
    let mut total = 0;
    loop {
        let taken = Taken::take(&mut msgs);
        if taken.count == 0 {
            return Ok(total);
        }
        let mut done = 0;
        while done < taken.count {
            match wait::send(socket, || call(&taken, done..taken.count)).await? {
                Ok(sent) => {
                    require_progress(sent)?;
                    done += sent.min(taken.count - done);
                }
                Err(error) if total + done == 0 => return Err(error),
                Err(error) => {
                    wait::defer_if_reported_once(socket, taken.has_dest(done), &error);
                    return Ok(total + done);
                }
            }
        }
        total += done;
    }
}

/// Sends messages, and goes on past each that fails. `call` sends a range of those that were taken from the iterator.
pub(super) async fn send_each<M: AsSendMsg>(
    socket: &impl Readiness,
    msgs: impl Iterator<Item = M> + Send,
    mut call: impl FnMut(&Taken<M>, Range<usize>) -> io::Result<usize> + Send,
    mut on_error: impl FnMut(usize, io::Error) + Send,
) -> io::Result<usize> {
    let mut msgs = msgs.fuse();
    let (mut total, mut offer) = (0, Offer::new());
    loop {
        let taken = Taken::take(&mut msgs);
        if taken.count == 0 {
            return Ok(total);
        }
        let mut done = 0;
        while done < taken.count {
            let offered = offer.count().min(taken.count - done);
            let sent = wait::send(socket, || call(&taken, done..done + offered)).await?;
            if let Ok(sent) = sent {
                require_progress(sent)?;
            }
            done += offer.record(offered, sent, |error| on_error(total + done, error));
        }
        total += done;
    }
}

/// Like [`send_each`], for messages in a slice, from number `done` on; wakes the task if the socket is full.
pub(super) fn poll_send_each(
    socket: &impl Readiness,
    cx: &mut Context<'_>,
    msgs: &[SendMsg<'_>],
    done: &mut usize,
    mut call: impl FnMut(&[SendMsg<'_>]) -> io::Result<usize>,
    on_error: &mut dyn FnMut(usize, io::Error),
) -> Poll<io::Result<usize>> {
    let mut offer = Offer::new();
    while let Some(left) = msgs.get(*done..).filter(|left| !left.is_empty()) {
        let offered = offer.of(left);
        let sent = ready!(wait::poll_send(socket, cx, || call(offered)))?;
        if let Ok(sent) = sent {
            require_progress(sent)?;
        }
        *done += offer.record(offered.len(), sent, |error| on_error(*done, error));
    }
    Poll::Ready(Ok(*done))
}

/// Empties the queue by `call`. Returns how many datagrams left it.
pub(super) async fn flush(
    socket: &impl Readiness,
    queue: &mut SendQueue,
    mut call: impl FnMut(&mut SendQueue) -> io::Result<usize> + Send,
) -> io::Result<usize> {
    let all = queue.len();
    while !queue.is_empty() {
        let before = queue.len();
        wait::send(socket, || call(queue)).await??;
        require_progress(before - queue.len().min(before))?;
    }
    Ok(all)
}

/// Like [`flush`]; wakes the task if the socket is full. Adds the number of datagrams that left the queue to `sent`.
pub(super) fn poll_flush(
    socket: &impl Readiness,
    cx: &mut Context<'_>,
    queue: &mut SendQueue,
    sent: &mut usize,
    mut call: impl FnMut(&mut SendQueue) -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    while !queue.is_empty() {
        let before = queue.len();
        ready!(wait::poll_send(socket, cx, || call(queue)))??;
        let gone = before - queue.len().min(before);
        require_progress(gone)?;
        *sent += gone;
    }
    Poll::Ready(Ok(*sent))
}

/// Fails by `WriteZero` if nothing was sent: an implementation of `BatchSocket` that sends nothing and returns no
/// error would be called for ever.
fn require_progress(sent: usize) -> io::Result<()> {
    if sent == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

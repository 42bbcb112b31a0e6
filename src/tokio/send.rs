//! The loops of the futures that send: each waits for space, makes a call, and charges the task for the datagrams that left.

use std::io;
use std::iter;
use std::task::{Context, Poll, ready};

use ::tokio::io::Interest;
use ::tokio::task::coop;

use super::readiness::Readiness;
use super::waiter::SendWaiter;
use super::{AsyncBatchSocket, budget, wait};
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::send::row::{self, ROW};
use crate::socket::{BatchSocket, OfferSize};

pub(super) async fn send_batch(
    socket: &impl AsyncBatchSocket,
    msgs: &[SendMsg<'_>],
) -> io::Result<usize> {
    let call = || socket.batch_call(&mut |socket| socket.send_batch(msgs));
    let sent = wait::send(socket.tokio_socket(), msgs.len(), call).await??;
    budget::charge(budget::sent(&msgs[..sent]));
    Ok(sent)
}

pub(super) fn poll_send_batch<S: AsyncBatchSocket + Clone + Send + 'static>(
    socket: &S,
    cx: &mut Context<'_>,
    waiter: &mut SendWaiter,
    msgs: &[SendMsg<'_>],
) -> Poll<io::Result<usize>> {
    loop {
        ready!(waiter.poll(cx))?;
        ready!(coop::poll_proceed(cx)).made_progress();
        let send = || match msgs {
            [] if !wait::has_space(socket.tokio_socket()) => wait::would_block(),
            [] => Ok(0),
            _ => socket.batch_call(&mut |socket| socket.send_batch(msgs)),
        };
        match socket.tokio_socket().try_io(Interest::WRITABLE, send) {
            Err(error) if wait::is_would_block(&error) => {
                let socket = socket.clone();
                waiter.begin(async move { wait::space(socket.tokio_socket()).await });
            }
            result => {
                let sent = result?.min(msgs.len());
                budget::charge(budget::sent(&msgs[..sent]));
                return Poll::Ready(Ok(sent));
            }
        }
    }
}

pub(super) async fn send_each<'m>(
    socket: &impl AsyncBatchSocket,
    mut msgs: impl Iterator<Item = SendMsg<'m>> + Send,
    mut on_error: impl FnMut(usize, io::Error) + Send,
) -> io::Result<usize> {
    // `kept` has what a full socket did not take, the next message last. A row would take 22 kB in the future.
    let (mut handled, mut offer, mut kept) = (0, OfferSize::new(), Vec::new());
    loop {
        let (mut offered, mut datagrams) = (0, 0);
        let mut send = |socket: &dyn BatchSocket| {
            let mut next = iter::from_fn(|| kept.pop().or_else(|| msgs.next()));
            let mut row = row::row();
            let row = row::fill(&mut row, offer.count, &mut next);
            let result = socket.send_batch(row);
            offered = row.len();
            let sent = result.as_ref().map_or(0, |sent| offered.min(*sent));
            datagrams = budget::sent(&row[..sent]);
            kept.extend(row[sent..].iter().rev());
            result
        };
        let tokio_socket = socket.tokio_socket();
        let sent = wait::send_once(tokio_socket, || socket.batch_call(&mut send)).await;
        if sent.as_ref().is_err_and(wait::is_would_block) {
            if kept.is_empty() {
                kept.extend(msgs.next());
            }
            if kept.is_empty() {
                return Ok(handled);
            }
            wait::space(tokio_socket).await?;
            continue;
        }
        budget::charge(datagrams);
        if offered == 0 {
            return Ok(handled);
        }
        let is_last = offered < offer.count;
        let failed = |error| {
            on_error(handled, error);
            kept.pop();
        };
        let done = offer.record(offered, sent, failed)?;
        wait::require_progress(done)?;
        handled += done;
        if is_last && kept.is_empty() {
            return Ok(handled);
        }
    }
}

pub(super) async fn flush(
    socket: &impl AsyncBatchSocket,
    queue: &mut SendQueue,
) -> io::Result<usize> {
    let all = queue.len();
    while !queue.is_empty() {
        let held = queue.len();
        flush_row(socket, queue, ROW).await?.1?;
        wait::require_progress(held.saturating_sub(queue.len()))?;
    }
    Ok(all)
}

pub(super) async fn flush_each(
    socket: &impl AsyncBatchSocket,
    queue: &mut SendQueue,
    mut on_error: impl FnMut(&SendMsg<'_>, io::Error) + Send,
) -> io::Result<usize> {
    let (all, mut offer) = (queue.len(), OfferSize::new());
    while !queue.is_empty() {
        let (held, mut failed) = (queue.len(), None);
        let (offered, sent) = flush_row(socket, queue, offer.count).await?;
        offer.record(offered, sent, |error| failed = Some(error))?;
        if let (Some(error), Some(front)) = (failed, queue.front()) {
            on_error(&front, error);
            queue.discard_front();
        }
        wait::require_progress(held.saturating_sub(queue.len()))?;
    }
    Ok(all)
}

/// Sends the front of the queue by one call, at most `max` datagrams. Returns how many it offered, and the result.
async fn flush_row(
    socket: &impl AsyncBatchSocket,
    queue: &mut SendQueue,
    max: usize,
) -> io::Result<(usize, io::Result<usize>)> {
    let (mut offered, mut datagrams) = (0, 0);
    let mut send = |socket: &dyn BatchSocket| {
        let mut row = row::row();
        let row = queue.fill(&mut row, max);
        offered = row.len();
        let sent = socket.send_batch(row)?.min(offered);
        datagrams = budget::sent(&row[..sent]);
        queue.advance(sent);
        Ok(sent)
    };
    let sent = wait::send(socket.tokio_socket(), max, || socket.batch_call(&mut send)).await?;
    budget::charge(datagrams);
    Ok((offered, sent))
}

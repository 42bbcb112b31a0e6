//! The loops of the futures that send: each waits for space, makes a call, and charges the task for the datagrams that left.

use std::future::{Future, poll_fn};
use std::io;
use std::iter;

use ::tokio::task::coop;

use super::readiness::Readiness;
use super::{budget, wait};
use crate::send::chunk::{self, CHUNK};
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::socket::{BatchSocket, OfferSize};

/// What is called with the socket.
type Call<'c> = dyn FnMut(&dyn BatchSocket) -> io::Result<usize> + 'c;

/// Sends all messages in order, by calls of `batch_call`.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would hold its arguments twice")]
pub(super) fn send_each<'m>(
    socket: &impl Readiness,
    batch_call: impl Fn(&mut Call<'_>) -> io::Result<usize> + Send,
    msgs: impl Iterator<Item = SendMsg<'m>> + Send,
    mut on_error: impl FnMut(usize, io::Error) + Send,
) -> impl Future<Output = io::Result<usize>> + Send {
    async move {
        // `kept` has what a full socket did not take, the next message last. A chunk would take 22 kB in the future.
        let (mut handled, mut offer, mut kept) = (0, OfferSize::new(), Vec::new());
        let (mut msgs, mut by_timer) = (msgs.fuse(), wait::needs_timer(None));
        let mut has_memory = true;
        loop {
            poll_fn(coop::poll_proceed).await.made_progress();
            let (mut offered, mut datagrams) = (None, 0);
            let mut send = |socket: &dyn BatchSocket| {
                let mut next = iter::from_fn(|| kept.pop().or_else(|| msgs.next()));
                let mut chunk = chunk::empty();
                let chunk = chunk::fill(&mut chunk, offer.count, &mut next);
                let result = socket.send_batch(chunk);
                offered = Some(chunk.len());
                let sent = result.as_ref().map_or(0, |sent| chunk.len().min(*sent));
                datagrams = budget::sent(&chunk[..sent]);
                has_memory = kept.try_reserve(chunk.len() - sent).is_ok();
                if has_memory {
                    kept.extend(chunk[sent..].iter().rev());
                }
                result
            };
            let sent = wait::try_send(socket, by_timer, || batch_call(&mut send));
            // No call was made, so it is not known whether a message is left.
            if offered.is_none() && kept.is_empty() {
                has_memory = kept.try_reserve(1).is_ok();
                kept.extend(has_memory.then(|| msgs.next()).flatten());
            }
            if !has_memory {
                handled += sent.map_or(0, |sent| sent.min(offered.unwrap_or(0)));
                return ended_early(handled, io::ErrorKind::OutOfMemory.into());
            }
            if offered.is_none_or(|offered| offered == 0) && kept.is_empty() {
                return Ok(handled);
            }
            if sent.as_ref().is_err_and(wait::is_would_block) {
                by_timer = wait::needs_timer(kept.last());
                wait::space(socket, by_timer).await?;
                continue;
            }
            budget::charge(datagrams);
            let is_last = offered.is_some_and(|offered| offered < offer.count);
            let failed = |error| {
                on_error(handled, error);
                kept.pop();
            };
            let done = match offer.record(offered.unwrap_or(0), sent, failed) {
                Err(error) => return ended_early(handled, error),
                Ok(done) => done,
            };
            wait::require_progress(done)?;
            handled += done;
            if is_last && kept.is_empty() {
                return Ok(handled);
            }
        }
    }
}

/// The result of a call that ends without memory for what it would send next.
fn ended_early(handled: usize, error: io::Error) -> io::Result<usize> {
    if handled > 0 { Ok(handled) } else { Err(error) }
}

/// Sends the whole queue in order. An error leaves its datagram at the front.
pub(super) async fn flush(
    socket: &impl Readiness,
    batch_call: impl Fn(&mut Call<'_>) -> io::Result<usize> + Sync,
    queue: &mut SendQueue,
) -> io::Result<usize> {
    let all = queue.len();
    while !queue.is_empty() {
        let held = queue.len();
        flush_chunk(socket, &batch_call, queue, CHUNK).await?.1?;
        wait::require_progress(held.saturating_sub(queue.len()))?;
    }
    Ok(all)
}

/// Sends the whole queue in order, and drops the datagrams that fail.
pub(super) async fn flush_each(
    socket: &impl Readiness,
    batch_call: impl Fn(&mut Call<'_>) -> io::Result<usize> + Sync,
    queue: &mut SendQueue,
    mut on_error: impl FnMut(&SendMsg<'_>, io::Error) + Send,
) -> io::Result<usize> {
    let (all, mut offer) = (queue.len(), OfferSize::new());
    while !queue.is_empty() {
        let (held, mut failed) = (queue.len(), None);
        let (offered, sent) = flush_chunk(socket, &batch_call, queue, offer.count).await?;
        if let Err(error) = offer.record(offered, sent, |error| failed = Some(error)) {
            return ended_early(all - queue.len(), error);
        }
        if let (Some(error), Some(front)) = (failed, queue.front()) {
            on_error(&front, error);
            queue.discard_front();
        }
        wait::require_progress(held.saturating_sub(queue.len()))?;
    }
    Ok(all)
}

/// Sends the front of the queue by one call, at most `max` datagrams. Returns how many it offered, and the result.
async fn flush_chunk(
    socket: &impl Readiness,
    batch_call: &(impl Fn(&mut Call<'_>) -> io::Result<usize> + Sync),
    queue: &mut SendQueue,
    max: usize,
) -> io::Result<(usize, io::Result<usize>)> {
    let (mut offered, mut datagrams) = (0, 0);
    let mut send = |socket: &dyn BatchSocket| {
        let mut chunk = chunk::empty();
        let chunk = queue.fill(&mut chunk, max);
        offered = chunk.len();
        let sent = socket.send_batch(chunk)?.min(offered);
        datagrams = budget::sent(&chunk[..sent]);
        queue.advance(sent);
        Ok(sent)
    };
    let by_timer = wait::needs_timer(None);
    let sent = wait::send(socket, max, by_timer, || batch_call(&mut send)).await?;
    budget::charge(datagrams);
    Ok((offered, sent))
}

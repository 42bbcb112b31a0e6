//! Waits until a socket is ready, by tokio, and makes a call then.
//!
//! tokio remembers readiness until a call within `try_io` returns `WouldBlock`. In four states this does not work:
//!
//! - While reports wait in the error queue, a receive must not clear the readiness of errors, which a task that waits for
//!   `Interest::ERROR` needs. The receive waits for datagrams alone, and looks for an error every 4 ms, since no event would
//!   report it.
//! - After a shutdown tokio reports a socket as readable (read closed) for ever, while its receives find nothing.
//! - After an error tokio on Linux reports a socket as writable (write closed) for ever. A send that finds it full sleeps.
//! - No event may follow a refused send on other kernels, nor to a Unix address: it needs space in the receiver's queue, and
//!   the socket is writable by its own buffer. Such a send asks tokio nothing, and sleeps.
//!
//! A program may also use tokio's own calls on the socket. Those that find nothing clear readiness for all tasks:
//!
//! | call                                    | clears              | a receive          | a send               | [`errors`]      |
//! |-----------------------------------------|---------------------|--------------------|----------------------|-----------------|
//! | `recv`, `recv_from`, `peek_from`        | `READABLE`, `ERROR` | nothing was missed | –                    | reads the queue |
//! | `try_recv` and the like, `poll_recv`    | `READABLE`          | nothing was missed | –                    | –               |
//! | `send`, `send_to`, `try_`, `poll_`      | `WRITABLE`          | –                  | an event will follow | –               |
//! | `async_io`, `try_io`                    | what they ask for   | as the call inside | as the call inside   | reads the queue |
//! | `readable`, `writable`, `ready`         | nothing             | –                  | –                    | –               |
//!
//! Nothing was missed, because a receive that finds nothing has found neither a datagram nor an error, and what comes later is
//! a new event. It does not look into the error queue, so [`errors`] does.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tokio::task::coop;
use ::tokio::time;

use super::readiness::{Readiness, Want};
use crate::send::msg::SendMsg;
use crate::sys;

/// How long to sleep where tokio does not report when a call may succeed.
const SLEEP: Duration = Duration::from_millis(4);

/// After a receive of this many messages or fewer, a saved call is worth it: with two datagrams in flight, servers use 2 to
/// 7 % less CPU time.
const FEW: usize = 4;

/// Receives up to `max` messages, as soon as the socket is readable or has an error to report.
///
/// `call` returns how many messages came, and whether the kernel said that no more are there.
pub(super) async fn receive(
    socket: &impl Readiness,
    max: usize,
    mut call: impl FnMut() -> io::Result<(usize, bool)> + Send,
) -> io::Result<usize> {
    if max == 0 {
        return Ok(0);
    }
    let mut is_idle = !socket.is(Want::READABLE);
    if is_idle {
        require_timer();
    }
    let mut has_reports = false;
    loop {
        if has_reports {
            let readable = time::timeout(SLEEP, socket.ready(Want::READABLE)).await;
            readable.ok().transpose()?;
        } else {
            // Without the interest in errors, an ICMP error would wake only tasks that wait to send.
            socket.ready(Want::READABLE_OR_ERROR).await?;
        }
        poll_fn(coop::poll_proceed).await.made_progress();
        match receive_once(socket, is_idle, &mut call) {
            Err(error) if is_would_block(&error) => {}
            result => return result.map(|count| count.min(max)),
        }
        is_idle = true;
        // Clears the readiness if no report is there.
        let has_error = || if sys::has_error(sys::borrow(socket)) { Ok(0) } else { would_block() };
        has_reports = socket.try_io(Want::ERROR, has_error).is_ok();
    }
}

/// Receives up to `max` messages, as soon as the socket is readable. Wakes the task of the last call only.
pub(super) fn poll_receive(
    socket: &impl Readiness,
    cx: &mut Context<'_>,
    max: usize,
    mut call: impl FnMut() -> io::Result<(usize, bool)>,
) -> Poll<io::Result<usize>> {
    if max == 0 {
        return Poll::Ready(Ok(0));
    }
    loop {
        ready!(socket.poll_recv_ready(Want::READABLE, cx))?;
        // As if idle: a poll does not know whether its task has waited.
        match receive_once(socket, true, &mut call) {
            Err(error) if is_would_block(&error) => {}
            result => return Poll::Ready(result.map(|count| count.min(max))),
        }
    }
}

/// Receives if tokio remembers that the socket is readable or has an error. After at most [`FEW`] messages, the last on
/// an idle socket, tokio no longer takes it for readable: the next receive makes no call to learn that nothing is there. (A
/// busy socket has its next message by then.)
///
/// The readiness is cleared within this attempt, so that an event that comes after the call stays.
fn receive_once(
    socket: &impl Readiness,
    is_idle: bool,
    call: &mut impl FnMut() -> io::Result<(usize, bool)>,
) -> io::Result<usize> {
    let (mut is_readable, mut last) = (false, None);
    let result = socket.try_io(Want::READABLE, || {
        is_readable = true;
        let (count, drained) = until_shutdown(socket, &mut *call)?;
        // An error may have ended the call, with messages left.
        if is_idle && count <= FEW && drained && !socket.is(Want::ERROR) {
            last = Some(count);
            return would_block();
        }
        Ok(count)
    });
    if !is_readable && socket.is(Want::ERROR) {
        return until_shutdown(socket, call).map(|(count, _)| count);
    }
    last.map_or(result, Ok)
}

/// Makes a call that receives. After a shutdown it returns no messages in place of `WouldBlock`.
fn until_shutdown<T: Default>(
    socket: &impl Readiness,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    match call() {
        // Once more: a message may have come between the call and the shutdown.
        Err(error) if is_would_block(&error) && is_shut_down(socket) => match call() {
            Err(error) if is_would_block(&error) => Ok(T::default()),
            result => result,
        },
        result => result,
    }
}

/// Makes a call that sends up to `max` messages, as soon as the socket is writable. Returns its result.
///
/// # Errors
///
/// The error of the wait, which is about no message.
pub(super) async fn send(
    socket: &impl Readiness,
    max: usize,
    by_timer: bool,
    mut call: impl FnMut() -> io::Result<usize> + Send,
) -> io::Result<io::Result<usize>> {
    if max == 0 {
        return Ok(Ok(0));
    }
    loop {
        poll_fn(coop::poll_proceed).await.made_progress();
        match try_send(socket, by_timer, &mut call) {
            Err(error) if is_would_block(&error) => space(socket, by_timer).await?,
            result => return Ok(result.map(|count| count.min(max))),
        }
    }
}

/// Whether no event may follow if a call that begins with this message is refused.
pub(super) fn needs_timer(first: Option<&SendMsg<'_>>) -> bool {
    sys::is_other_unix() || first.is_some_and(|msg| msg.unix_dest().is_some())
}

/// Makes a call that sends, if tokio remembers that the socket is writable or only a timer ends a wait.
pub(super) fn try_send(
    socket: &impl Readiness,
    by_timer: bool,
    call: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    if by_timer { call() } else { socket.try_io(Want::WRITABLE, call) }
}

/// Waits until a full socket may have space.
pub(super) async fn space(socket: &impl Readiness, by_timer: bool) -> io::Result<()> {
    require_timer();
    if by_timer || socket.current(Want::WRITABLE).is_write_closed() {
        time::sleep(SLEEP).await;
        return Ok(());
    }
    socket.ready(Want::WRITABLE).await.map(drop)
}

/// Whether a send may find space. The system is asked where tokio says so for ever, or does not say so.
pub(super) fn has_space(socket: &impl Readiness) -> bool {
    let ready = socket.current(Want::WRITABLE);
    ready.is_writable() && !ready.is_write_closed() || sys::has_space(sys::borrow(socket))
}

/// Reads the error queue as soon as it holds something: before each wait and after it, whatever tokio remembers.
pub(super) async fn errors(
    socket: &impl Readiness,
    mut drain: impl FnMut() -> io::Result<usize> + Send,
) -> io::Result<usize> {
    // Makes tokio clear the readiness if nothing is there, or the next wait would end at once.
    let mut drain = || drain().and_then(|count| if count == 0 { would_block() } else { Ok(count) });
    loop {
        poll_fn(coop::poll_proceed).await.made_progress();
        // The wait begins first, so that it ends for a report that comes after the reads.
        let mut ready = pin!(socket.ready(Want::ERROR));
        let begun = poll_fn(|cx| Poll::Ready(ready.as_mut().poll(cx))).await;
        let drained = match socket.try_io(Want::ERROR, &mut drain) {
            Err(error) if is_would_block(&error) => drain(),
            result => result,
        };
        match (drained, begun) {
            (Err(error), Poll::Ready(ended)) if is_would_block(&error) => drop(ended?),
            (Err(error), Poll::Pending) if is_would_block(&error) => drop(ready.await?),
            (drained, _) => return drained,
        }
    }
}

/// Fails with `WriteZero` if nothing was sent, or an implementation of `BatchSocket` that sends nothing without an error
/// would be called for ever.
pub(super) fn require_progress(sent: usize) -> io::Result<()> {
    if sent == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

/// Panics without tokio's timer, before the call needs it: a program must learn that in its first test, and not when an
/// ICMP error arrives. Each wait asks, since a thread may enter several runtimes. It takes 50 ns.
fn require_timer() {
    drop(time::sleep(Duration::ZERO));
}

pub(super) fn would_block() -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}

pub(super) fn is_would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether the socket was shut down for receiving, as far as tokio knows.
fn is_shut_down(socket: &impl Readiness) -> bool {
    socket.current(Want::READABLE).is_read_closed()
}

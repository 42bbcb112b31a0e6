//! Waiting for a socket by tokio, and making a call when it is ready.
//!
//! tokio remembers readiness until a call returns `WouldBlock`. In two states a call that returns it
//! is stuck, since the readiness would end the next wait at once:
//!
//! - The socket has an error that no call has returned yet, perhaps in its error queue. A receive must
//!   not clear the readiness of errors then: a task that waits for `Interest::ERROR` needs it.
//! - tokio never clears "read closed" and "write closed", which are final for a stream. A datagram
//!   socket is read closed after `shutdown`, which ends a receive. On Linux, it is write closed after
//!   any error.
//!
//! A stuck call waits by a [second registration](Second).

use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::task::{Context, Poll, ready};

use ::tokio::io::Interest;

use super::readiness::{Attempt, Readiness};
use super::second::{self, Second};
use crate::engine::deferred_error;
use crate::sys::{self, BorrowedSocket, Direction};

/// The result of a call, within tokio's own result (an error if its runtime shuts down).
type Outcome = io::Result<io::Result<usize>>;

/// Runs `transfer`, unless `most` is 0, and limits its count to `most`: an implementation of `BatchSocket` may return
/// any count.
pub(super) async fn at_most(
    most: usize,
    transfer: impl Future<Output = Outcome>,
) -> io::Result<usize> {
    if most == 0 {
        return Ok(0);
    }
    transfer.await?.map(|count| count.min(most))
}

/// Like [`at_most`], for a `poll_` function.
pub(super) fn poll_at_most(
    most: usize,
    poll: impl FnOnce() -> Poll<Outcome>,
) -> Poll<io::Result<usize>> {
    if most == 0 {
        return Poll::Ready(Ok(0));
    }
    Poll::Ready(ready!(poll())?.map(|count| count.min(most)))
}

/// Makes a call that receives, as soon as the socket is readable or has an error to report.
pub(super) async fn receive(
    socket: &impl Readiness,
    mut call: impl FnMut() -> io::Result<usize> + Send,
) -> Outcome {
    let mut second = None;
    loop {
        if let Some(error) = deferred(socket, Direction::Receive) {
            return Ok(Err(error));
        }
        // Without the interest in errors, an ICMP error would wake only tasks that wait to send.
        let interest = Interest::READABLE | Interest::ERROR;
        let is_stuck = || is_shut_down(socket) || has_error(socket);
        if let Some(result) = socket.async_io(interest, || attempt(&mut call, is_stuck)).await? {
            return Ok(result);
        }
        // tokio may learn of a shutdown after the second registration, which then has no further event.
        if is_shut_down(socket) || sys::is_shut_down(sys::borrow(socket)) {
            return Ok(Ok(0));
        }
        wait_for_event(sys::borrow(socket), Direction::Receive, &mut second).await?;
    }
}

/// Makes a call that sends, as soon as the socket is writable.
pub(super) async fn send(
    socket: &impl Readiness,
    mut call: impl FnMut() -> io::Result<usize> + Send,
) -> Outcome {
    let mut second = None;
    loop {
        if let Some(error) = deferred(socket, Direction::Send) {
            return Ok(Err(error));
        }
        let is_stuck = || is_write_closed(socket);
        let outcome = socket.async_io(Interest::WRITABLE, || attempt(&mut call, is_stuck)).await?;
        if let Some(result) = outcome {
            return Ok(result);
        }
        wait_for_event(sys::borrow(socket), Direction::Send, &mut second).await?;
    }
}

/// Makes a call that receives, if the socket is readable.
pub(super) fn poll_receive(
    socket: &impl Readiness,
    cx: &mut Context<'_>,
    mut call: impl FnMut() -> io::Result<usize>,
) -> Poll<Outcome> {
    if let Some(error) = deferred(socket, Direction::Receive) {
        return Poll::Ready(Ok(Err(error)));
    }
    let is_stuck = || is_shut_down(socket);
    let outcome = ready!(socket.poll_io(cx, Interest::READABLE, || attempt(&mut call, is_stuck)))?;
    // Only a shut-down socket is stuck here: its receive ends with no message.
    Poll::Ready(Ok(outcome.unwrap_or(Ok(0))))
}

/// Makes a call that sends, if the socket is writable.
pub(super) fn poll_send(
    socket: &impl Readiness,
    cx: &mut Context<'_>,
    mut call: impl FnMut() -> io::Result<usize>,
) -> Poll<Outcome> {
    if let Some(error) = deferred(socket, Direction::Send) {
        return Poll::Ready(Ok(Err(error)));
    }
    loop {
        let is_stuck = || is_write_closed(socket);
        let outcome = socket.poll_io(cx, Interest::WRITABLE, || attempt(&mut call, is_stuck));
        let outcome = match ready!(outcome) {
            Ok(Some(result)) => Ok(result),
            Ok(None) => match second::poll_writable(sys::borrow(socket), cx) {
                Some(event) => match ready!(event) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                None => return yield_to_others(cx),
            },
            Err(error) => Err(error),
        };
        second::end_poll(sys::borrow(socket), cx);
        return Poll::Ready(outcome);
    }
}

/// Reads the error queue as soon as it holds something.
pub(super) async fn errors(
    socket: &impl Readiness,
    mut drain: impl FnMut() -> io::Result<usize> + Send,
) -> Outcome {
    let drained = socket.async_io(Interest::ERROR, || match drain() {
        // tokio must forget the readiness, or the next wait would end at once.
        Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
        result => Ok(Some(result)),
    });
    Ok(drained.await?.unwrap_or(Ok(0)))
}

/// Makes the call. Passes `WouldBlock` on to tokio, which then clears the readiness; returns `None` instead if
/// the call is stuck.
fn attempt(
    call: impl FnOnce() -> io::Result<usize>,
    is_stuck: impl FnOnce() -> bool,
) -> io::Result<Attempt> {
    match call() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            if is_stuck() {
                Ok(None)
            } else {
                Err(error)
            }
        }
        result => Ok(Some(result)),
    }
}

/// Waits for an event of the socket by a second registration, and makes one if there is none yet. Outside of a
/// runtime, lets the other tasks go first.
async fn wait_for_event(
    socket: BorrowedSocket<'_>,
    direction: Direction,
    second: &mut Option<Second>,
) -> io::Result<()> {
    let mut turn_given = false;
    poll_fn(|cx| match second::poll_event(socket, direction, second, cx) {
        Some(event) => event,
        None if mem::replace(&mut turn_given, true) => Poll::Ready(Ok(())),
        None => yield_to_others(cx),
    })
    .await
}

/// The deferred error of an earlier call, which does not wait for the socket.
fn deferred(socket: &impl Readiness, direction: Direction) -> Option<io::Error> {
    deferred_error::take(sys::borrow(socket), direction)
}

/// Defers an error that a send from an iterator meets after other messages, if no later send would meet
/// it again. `has_dest` says whether the message that met it has a destination of its own.
pub(super) fn defer_if_reported_once(socket: &impl Readiness, has_dest: bool, error: &io::Error) {
    let socket = sys::borrow(socket);
    if sys::is_reported_once(socket, has_dest, error) {
        deferred_error::defer(socket, Direction::Send, error);
    }
}

/// Whether tokio knows that the socket was shut down for receiving.
fn is_shut_down(socket: &impl Readiness) -> bool {
    socket.remembered(Interest::READABLE).is_read_closed()
}

fn is_write_closed(socket: &impl Readiness) -> bool {
    socket.remembered(Interest::WRITABLE).is_write_closed()
}

/// Whether the socket has an error that no call has returned. Asks tokio first, which takes no system call.
fn has_error(socket: &impl Readiness) -> bool {
    socket.remembered(Interest::ERROR).is_error() && sys::has_error(sys::borrow(socket))
}

/// Wakes the task at once, so that it is polled again after the others. The last resort, outside of a runtime.
fn yield_to_others<R>(cx: &mut Context<'_>) -> Poll<R> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

//! Waits until a socket is ready, by tokio, and makes a call then.
//!
//! tokio remembers readiness until a call returns `WouldBlock`. In three states this does not work:
//!
//! - While reports wait in the error queue, a receive must not clear the readiness of errors, which a task that waits for
//!   `Interest::ERROR` needs. The receive waits for datagrams alone, and looks for an error after 1 to 16 ms, since no event
//!   would report it.
//! - After a shutdown tokio reports a socket as readable (read closed) for ever, while its receives find nothing.
//! - After an error tokio on Linux reports a socket as writable (write closed) for ever. A send that finds it full sleeps.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tokio::io::Interest;
use ::tokio::runtime::Handle;
use ::tokio::{task, time};

use super::readiness::Readiness;
use crate::sys::{self, Taken};

/// How long to sleep before a second try. Each further sleep is twice as long, up to [`MAX_SLEEP`].
const FIRST_SLEEP: Duration = Duration::from_millis(1);
const MAX_SLEEP: Duration = Duration::from_millis(16);

/// Receives up to `max` messages, as soon as the socket is readable or has an error to report.
pub(super) async fn receive(
    socket: &impl Readiness,
    max: usize,
    mut call: impl FnMut() -> io::Result<Taken> + Send,
) -> io::Result<usize> {
    if max == 0 {
        return Ok(0);
    }
    let mut is_idle = !socket.is(Interest::READABLE);
    if is_idle {
        require_timer();
    }
    // Without the interest in errors, an ICMP error would wake only tasks that wait to send.
    let both = Interest::READABLE | Interest::ERROR;
    let mut sleep = FIRST_SLEEP;
    loop {
        let result = socket.async_io(both, || {
            if !socket.is(Interest::ERROR) {
                let result = receive_once(socket, is_idle, &mut call);
                is_idle = true;
                return result.map(Some);
            }
            match until_shutdown(socket, &mut call) {
                Err(error) if is_would_block(&error) && sys::has_error(sys::borrow(socket)) => {
                    Ok(None)
                }
                result => result.map(|taken| Some(taken.count)),
            }
        });
        if let Some(count) = result.await? {
            return Ok(count.min(max));
        }
        let result = socket.async_io(Interest::READABLE, || {
            until_shutdown(socket, &mut call).map(|taken| Some(taken.count))
        });
        if let Some(result) = with_timeout(sleep, result).await {
            return Ok(result?.unwrap_or(0).min(max));
        }
        sleep = longer(sleep);
    }
}

/// Receives up to `max` messages, as soon as the socket is readable. Wakes the task of the last call only.
pub(super) fn poll_receive(
    socket: &impl Readiness,
    cx: &mut Context<'_>,
    max: usize,
    mut call: impl FnMut() -> io::Result<Taken>,
) -> Poll<io::Result<usize>> {
    if max == 0 {
        return Poll::Ready(Ok(0));
    }
    loop {
        ready!(socket.poll_recv_ready(cx))?;
        match receive_once(socket, false, &mut call) {
            Err(error) if is_would_block(&error) => {}
            result => return Poll::Ready(result.map(|count| count.min(max))),
        }
    }
}

/// Receives if tokio takes the socket for readable. After the only message of an idle socket, tokio no longer does: the
/// next receive makes no call to learn that nothing is there. A busy socket has its next message by then.
///
/// The readiness is cleared within this attempt, so that an event that comes after the call stays.
fn receive_once(
    socket: &impl Readiness,
    is_idle: bool,
    call: &mut impl FnMut() -> io::Result<Taken>,
) -> io::Result<usize> {
    let mut drained = None;
    let result = socket.try_io(Interest::READABLE, || {
        let taken = until_shutdown(socket, call)?;
        // An error may have ended the call, with messages left.
        if is_idle && taken.drained && taken.count == 1 && !socket.is(Interest::ERROR) {
            drained = Some(taken.count);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(taken.count)
    });
    drained.map_or(result, Ok)
}

/// Makes a call that receives. After a shutdown it returns no messages in place of `WouldBlock`.
fn until_shutdown(
    socket: &impl Readiness,
    call: &mut impl FnMut() -> io::Result<Taken>,
) -> io::Result<Taken> {
    match call() {
        // Once more: a message may have come between the call and the shutdown.
        Err(error) if is_would_block(&error) && is_shut_down(socket) => match call() {
            Err(error) if is_would_block(&error) => Ok(Taken { count: 0, drained: false }),
            result => result,
        },
        result => result,
    }
}

/// Makes a call that sends up to `max` messages, as soon as the socket is writable.
pub(super) async fn send(
    socket: &impl Readiness,
    max: usize,
    mut call: impl FnMut() -> io::Result<usize> + Send,
) -> io::Result<usize> {
    if max == 0 {
        return Ok(0);
    }
    let mut sleep = FIRST_SLEEP;
    loop {
        let result = socket.async_io(Interest::WRITABLE, || {
            let result = call();
            if result.as_ref().is_err_and(is_would_block) {
                require_timer();
                if is_write_closed(socket) {
                    return Ok(None);
                }
            }
            result.map(Some)
        });
        if let Some(count) = result.await? {
            return Ok(count.min(max));
        }
        pause(sleep).await;
        sleep = longer(sleep);
    }
}

/// Waits until a full socket may have space, at most for `sleep` if tokio does not report when.
pub(super) async fn space(socket: &impl Readiness, sleep: Duration) -> io::Result<()> {
    require_timer();
    if is_write_closed(socket) {
        pause(sleep).await;
        return Ok(());
    }
    socket.ready(Interest::WRITABLE).await.map(drop)
}

/// How long to sleep next.
pub(super) fn longer(sleep: Duration) -> Duration {
    (2 * sleep).clamp(FIRST_SLEEP, MAX_SLEEP)
}

/// Reads the error queue as soon as it holds something.
pub(super) async fn errors(
    socket: &impl Readiness,
    mut drain: impl FnMut() -> io::Result<usize> + Send,
) -> io::Result<usize> {
    let drained = socket.async_io(Interest::ERROR, || match drain() {
        // Makes tokio clear the readiness, or the next wait would end at once.
        Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
        result => result.map(Some),
    });
    Ok(drained.await?.unwrap_or(0))
}

/// Fails with `WriteZero` if nothing was sent, or an implementation of `BatchSocket` that sends nothing without an error
/// would be called for ever.
pub(super) fn require_progress(sent: usize) -> io::Result<()> {
    if sent == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

/// Panics in a runtime without time, before the call needs it: a program must learn that in its first test, and not when an
/// ICMP error arrives.
fn require_timer() {
    if Handle::try_current().is_ok() {
        drop(time::sleep(Duration::ZERO));
    }
}

/// The result of `wait`, or `None` after `time`. Outside of a runtime there is no timer, so it waits without a limit.
async fn with_timeout<T>(time: Duration, wait: impl Future<Output = T>) -> Option<T> {
    match Handle::try_current() {
        Ok(_) => time::timeout(time, wait).await.ok(),
        Err(_) => Some(wait.await),
    }
}

/// Sleeps by tokio's timer. Outside of a runtime it yields once instead.
async fn pause(time: Duration) {
    match Handle::try_current() {
        Ok(_) => time::sleep(time).await,
        Err(_) => task::yield_now().await,
    }
}

pub(super) fn is_would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether the socket was shut down for receiving, as far as tokio knows.
fn is_shut_down(socket: &impl Readiness) -> bool {
    socket.current(Interest::READABLE).is_read_closed()
}

fn is_write_closed(socket: &impl Readiness) -> bool {
    socket.current(Interest::WRITABLE).is_write_closed()
}

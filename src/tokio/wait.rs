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
use std::time::Duration;

use ::tokio::io::Interest;
use ::tokio::runtime::Handle;
use ::tokio::{task, time};

use super::readiness::Readiness;
use crate::sys;

/// How long to sleep before a second try. Each further sleep is twice as long, up to [`MAX_SLEEP`].
const FIRST_SLEEP: Duration = Duration::from_millis(1);
const MAX_SLEEP: Duration = Duration::from_millis(16);

/// Makes a call that receives up to `max` messages, as soon as the socket is readable or has an error to report.
pub(super) async fn receive(
    socket: &impl Readiness,
    max: usize,
    mut call: impl FnMut() -> io::Result<usize> + Send,
) -> io::Result<usize> {
    if max == 0 {
        return Ok(0);
    }
    // Without the interest in errors, an ICMP error would wake only tasks that wait to send.
    let both = Interest::READABLE | Interest::ERROR;
    let mut call = || match call() {
        // Once more: a message may have come between the call and the shutdown.
        Err(error) if is_would_block(&error) && is_shut_down(socket) => match call() {
            Err(error) if is_would_block(&error) => Ok(Some(0)),
            result => result.map(Some),
        },
        result => result.map(Some),
    };
    let mut sleep = FIRST_SLEEP;
    loop {
        let result = socket.async_io(both, || match call() {
            Err(error) if is_would_block(&error) && sys::has_error(sys::borrow(socket)) => Ok(None),
            result => result,
        });
        if let Some(count) = result.await? {
            return Ok(count.min(max));
        }
        let result = socket.async_io(Interest::READABLE, &mut call);
        if let Some(result) = with_timeout(sleep, result).await {
            return Ok(result?.unwrap_or(0).min(max));
        }
        sleep = MAX_SLEEP.min(2 * sleep);
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
        let result = socket.async_io(Interest::WRITABLE, || match call() {
            Err(error) if is_would_block(&error) && is_write_closed(socket) => Ok(None),
            result => result.map(Some),
        });
        if let Some(count) = result.await? {
            return Ok(count.min(max));
        }
        pause(sleep).await;
        sleep = MAX_SLEEP.min(2 * sleep);
    }
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

fn is_would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether the socket was shut down for receiving, as far as tokio knows.
fn is_shut_down(socket: &impl Readiness) -> bool {
    socket.current(Interest::READABLE).is_read_closed()
}

fn is_write_closed(socket: &impl Readiness) -> bool {
    socket.current(Interest::WRITABLE).is_write_closed()
}

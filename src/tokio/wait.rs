//! Waiting for a socket by tokio, and making a call when it is ready.
//!
//! tokio remembers readiness until a call returns `WouldBlock`. In three states that is of no use:
//!
//! - Reports wait in the error queue. A receive must not clear the readiness of errors then, since a task that waits for
//!   `Interest::ERROR` needs it; it waits for datagrams and looks again now and then, since nothing tells of an error that
//!   comes meanwhile.
//! - A socket that was shut down stays read closed in tokio, and its receives find nothing.
//! - After any error a socket stays write closed in tokio on Linux, and so writable. A send that finds it full sleeps.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use ::tokio::io::Interest;
use ::tokio::runtime::Handle;
use ::tokio::time;

use super::readiness::Readiness;
use crate::sys;

/// A call is tried again after the first, and twice as late each time up to the second.
const SLEEP: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

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
    let [mut sleep, longest] = SLEEP;
    loop {
        let result = socket.async_io(both, || match call() {
            Err(error) if is_would_block(&error) => match () {
                () if is_shut_down(socket) => Ok(Some(0)),
                () if sys::has_error(sys::borrow(socket)) => Ok(None),
                () => Err(error),
            },
            result => result.map(Some),
        });
        if let Some(count) = result.await? {
            return Ok(count.min(max));
        }
        let result = socket.async_io(Interest::READABLE, || match call() {
            Err(error) if is_would_block(&error) && is_shut_down(socket) => Ok(Some(0)),
            result => result.map(Some),
        });
        if let Some(result) = with_timeout(sleep, result).await {
            return Ok(result?.unwrap_or(0).min(max));
        }
        sleep = longest.min(2 * sleep);
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
    let [mut sleep, longest] = SLEEP;
    loop {
        let result = socket.async_io(Interest::WRITABLE, || match call() {
            Err(error) if is_would_block(&error) && is_write_closed(socket) => Ok(None),
            result => result.map(Some),
        });
        if let Some(count) = result.await? {
            return Ok(count.min(max));
        }
        pause(sleep).await;
        sleep = longest.min(2 * sleep);
    }
}

/// Reads the error queue as soon as it holds something.
pub(super) async fn errors(
    socket: &impl Readiness,
    mut drain: impl FnMut() -> io::Result<usize> + Send,
) -> io::Result<usize> {
    let drained = socket.async_io(Interest::ERROR, || match drain() {
        // tokio must forget the readiness, or the next wait would end at once.
        Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
        result => result.map(Some),
    });
    Ok(drained.await?.unwrap_or(0))
}

/// Fails by `WriteZero` if nothing was sent: an implementation of `BatchSocket` that sends nothing and returns no
/// error would be called for ever.
pub(super) fn require_progress(sent: usize) -> io::Result<()> {
    if sent == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

/// What `wait` ends with, unless `time` is over before. Outside of a runtime there is no timer, and no end.
async fn with_timeout<T>(time: Duration, wait: impl Future<Output = T>) -> Option<T> {
    match Handle::try_current() {
        Ok(_) => time::timeout(time, wait).await.ok(),
        Err(_) => Some(wait.await),
    }
}

/// Sleeps by tokio's timer; outside of a runtime lets the other tasks go first.
async fn pause(time: Duration) {
    if Handle::try_current().is_ok() {
        return time::sleep(time).await;
    }
    let mut turn_given = false;
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::replace(&mut turn_given, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}

fn is_would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether tokio knows that the socket was shut down for receiving.
fn is_shut_down(socket: &impl Readiness) -> bool {
    socket.current(Interest::READABLE).is_read_closed()
}

fn is_write_closed(socket: &impl Readiness) -> bool {
    socket.current(Interest::WRITABLE).is_write_closed()
}

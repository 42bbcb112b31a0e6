//! The backend in use, and the system calls on a batch with what every backend owes its callers.
//!
//! A backend is a function from headers and flags to a result: how many messages moved, or the error of the first. Here
//! stands the rest, once for all of them:
//!
//! - Calls that are missing are replaced by the single-message ones, for the whole process (P2).
//! - A call that a signal ended is made again, or returns `Interrupted` if the socket has a timeout, which the kernel
//!   would begin anew (D9).
//! - A call that met an ICMP error about another datagram is made again: nothing has moved yet, and the report is in the
//!   error queue (E1, D34).
//! - Messages from nowhere, by which a socket that was shut down answers, do not count.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::SockRef;

#[cfg(any(test, fuzzing))]
use super::fault;
use super::headers::{WiredRecvs, WiredSends};
use super::native::header::Header;
use super::native::{self, calls};
use super::{BorrowedSocket, RecvFlags, SendFlags, numbers};
use crate::events;

/// The system calls that carry a batch.
///
/// Both give the same results, but for an asynchronous error that arrives during a call: the kernel keeps it for the call
/// after a `recvmmsg`, single calls may lose it (see [`BatchSocket`](crate::BatchSocket#errors)). One message alone goes by the
/// single-message calls in any case, which costs less. The process starts with the faster backend that the platform has. It changes to [`Msg`](Self::Msg) for good if the
/// kernel has no multi-message calls (`ENOSYS`) or a sandbox forbids them (`EPERM`, unless a firewall
/// rejected a datagram).
///
/// ```
/// use mmsg::{Backend, MmsgBuf, SendMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// // A call for each message, whatever the process's backend is.
/// let mut arena = MmsgBuf::with_backend(Backend::Msg);
/// assert_eq!(arena.send(&socket, &[SendMsg::to(to, b"hello")])?, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("recvmmsg", "sendmmsg"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// `recvmmsg` and `sendmmsg`: Linux, Android, FreeBSD, NetBSD, OpenBSD 7.2.
    Mmsg,
    /// `recvmsg` and `sendmsg`, a call for each message: everywhere (Windows: `WSARecvMsg` and `WSASendMsg`).
    Msg,
}

/// Whether the system has multi-message calls, be they out of use or not.
const HAS_MMSG: bool = cfg!(mmsg_calls);
/// Whether the multi-message calls are out of use, by [`Backend::make_process_default`] or because they failed.
static WITHOUT_MMSG: AtomicBool = AtomicBool::new(false);

impl Backend {
    /// The process's backend: what [`make_process_default`](Self::make_process_default) chose, or the
    /// crate itself.
    ///
    /// ```
    /// println!("batches go by {:?}", mmsg::Backend::current());
    /// ```
    #[must_use]
    #[inline]
    pub fn current() -> Self {
        if !HAS_MMSG || without_mmsg() { Self::Msg } else { Self::Mmsg }
    }

    /// Makes this the backend of the whole process: of every call by any thread on any socket, from
    /// the next one on. A [`MmsgBuf::with_backend`](crate::MmsgBuf::with_backend) keeps its own.
    ///
    /// ```
    /// use mmsg::Backend;
    /// Backend::Msg.make_process_default()?;
    /// assert_eq!(Backend::current(), Backend::Msg);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` for [`Mmsg`](Self::Mmsg) on a system without these calls.
    pub fn make_process_default(self) -> io::Result<()> {
        if self == Self::Mmsg && !HAS_MMSG {
            let reason = "this system has no multi-message calls";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        set_without_mmsg(self == Self::Msg);
        Ok(())
    }
}

#[inline]
fn without_mmsg() -> bool {
    #[cfg(any(test, fuzzing))]
    if let Some(chosen) = fault::without_mmsg() {
        return chosen;
    }
    WITHOUT_MMSG.load(Ordering::Relaxed)
}

fn set_without_mmsg(on: bool) {
    // In unit tests the choice is a thread's own: a scripted ENOSYS must not change what other tests run on.
    #[cfg(any(test, fuzzing))]
    fault::set_without_mmsg(on);
    #[cfg(not(any(test, fuzzing)))]
    WITHOUT_MMSG.store(on, Ordering::Relaxed);
}

/// Whether `error` means that the multi-message calls are missing, rather than that a message failed; if
/// so, the process does not try them again.
#[cold]
fn calls_are_missing(error: &io::Error) -> bool {
    let missing = native::mmsg_is_missing(error);
    if missing {
        events::single_message_calls(error);
        set_without_mmsg(true);
    }
    missing
}

/// The most tries of a call that meets ICMP errors about other datagrams and does not wait. Each takes one error off the
/// socket.
const MAX_RETRIES: usize = 1_000;

/// Receives into headers, at least one. Waits for the first message alone, as the socket does.
///
/// # Errors
///
/// The error of the first message. An error after it ends the call with a count.
#[inline]
pub(super) fn recv(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: RecvFlags,
) -> io::Result<usize> {
    if wired.len() == 0 {
        // FreeBSD's recvmmsg would receive a message.
        return Ok(0);
    }
    let mut call =
        |flags| with_fallback(backend, wired.len(), |b| calls::recv(b, socket, wired, flags));
    let count = match call(flags) {
        Ok(count) => count,
        Err(error) => {
            let unrelated = |error: &io::Error| native::icmp::is_unrelated(socket, error);
            let no_wait = flags | RecvFlags::DONT_WAIT;
            let may_wait = !flags.contains(RecvFlags::DONT_WAIT);
            retry(socket, Direction::Receive, may_wait, error, unrelated, |waits| {
                call(if waits { flags } else { no_wait })
            })?
        }
    };
    // Messages in the error queue may have neither payload nor source.
    let may_end = !flags.contains(RecvFlags::ERROR_QUEUE);
    Ok(if may_end {
        before_shutdown(socket, &wired.as_mut()[..count]).unwrap_or(count)
    } else {
        count
    })
}

/// Sends headers, at least one, in order. Waits for each message as the socket does.
///
/// # Errors
///
/// The error of the first message. An error after it ends the call with a count.
#[inline]
pub(super) fn send(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredSends<'_>,
    flags: SendFlags,
) -> io::Result<usize> {
    if wired.len() == 0 {
        return Ok(0);
    }
    let has_dest = wired.has_dest(0);
    let mut call =
        |flags| with_fallback(backend, wired.len(), |b| calls::send(b, socket, wired, flags));
    call(flags).or_else(|error| {
        // A message's own error stays, and some put a report into the error queue with each try.
        let mut tries = 3;
        let unrelated = |error: &io::Error| {
            // That nobody listens on a port is never about the message.
            if error.kind() != io::ErrorKind::ConnectionRefused {
                if tries == 0 {
                    return false;
                }
                let is_too_big = error.raw_os_error() == Some(numbers::EMSGSIZE);
                tries = if is_too_big { 0 } else { tries - 1 };
            }
            has_dest && native::icmp::may_be_unrelated(socket, error)
        };
        let no_wait = flags | SendFlags::DONT_WAIT;
        let may_wait = !flags.contains(SendFlags::DONT_WAIT);
        retry(socket, Direction::Send, may_wait, error, unrelated, |waits| {
            call(if waits { flags } else { no_wait })
        })
    })
}

/// Makes a call by `backend`, or by the single-message calls: for one message, which costs less, and where the others
/// are missing.
#[inline(always)]
fn with_fallback(
    backend: Backend,
    messages: usize,
    mut call: impl FnMut(Backend) -> io::Result<usize>,
) -> io::Result<usize> {
    if messages == 1 || backend == Backend::Msg {
        return call(Backend::Msg);
    }
    match call(Backend::Mmsg) {
        Err(error) if calls_are_missing(&error) => call(Backend::Msg),
        result => result,
    }
}

/// Makes a call again for as long as it meets errors about no message of its own: signals, and ICMP errors that
/// `is_unrelated`. `call` is told whether it may wait.
#[cold]
fn retry(
    socket: BorrowedSocket<'_>,
    direction: Direction,
    may_wait: bool,
    mut error: io::Error,
    mut is_unrelated: impl FnMut(&io::Error) -> bool,
    mut call: impl FnMut(bool) -> io::Result<usize>,
) -> io::Result<usize> {
    let interrupted = || io::Error::from(io::ErrorKind::Interrupted);
    let mut tries = 0;
    loop {
        let by_signal = error.kind() == io::ErrorKind::Interrupted;
        if !by_signal && !is_unrelated(&error) {
            return Err(error);
        }
        let timed = may_wait && has_timeout(socket, direction);
        let is_enough = tries == MAX_RETRIES && !(may_wait && native::waits(socket) == Some(true));
        if timed && by_signal || is_enough {
            return Err(interrupted());
        }
        tries += usize::from(!by_signal);
        match call(!timed) {
            // The wait has been cut short: what is left of the timeout is the caller's to wait for.
            Err(error) if timed && error.kind() == io::ErrorKind::WouldBlock => {
                return Err(interrupted());
            }
            Err(next) => error = next,
            sent => return sent,
        }
    }
}

/// Which way a call moves messages.
#[derive(Clone, Copy)]
enum Direction {
    Receive,
    Send,
}

/// Whether the socket waits, as far as the system says, and no longer than a timeout (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
fn has_timeout(socket: BorrowedSocket<'_>, direction: Direction) -> bool {
    let handle = SockRef::from(&socket);
    let timeout = match direction {
        Direction::Receive => handle.read_timeout(),
        Direction::Send => handle.write_timeout(),
    };
    timeout.is_ok_and(|timeout| timeout.is_some()) && native::waits(socket) != Some(false)
}

/// The number of messages that came before the end, if the socket was shut down.
#[inline]
fn before_shutdown(socket: BorrowedSocket<'_>, headers: &[Header]) -> Option<usize> {
    // Linux reports the end only to a call that waits, as the first message; the BSDs to every call,
    // so also as the last one.
    let ended = headers.first().is_some_and(is_shutdown_marker)
        || headers.last().is_some_and(is_shutdown_marker);
    if ended { before_shutdown_checked(socket, headers) } else { None }
}

#[cold]
fn before_shutdown_checked(socket: BorrowedSocket<'_>, headers: &[Header]) -> Option<usize> {
    if native::is_inet(socket) { headers.iter().position(is_shutdown_marker) } else { None }
}

/// Whether a header has neither payload nor source. An Internet socket reports that only when it is shut
/// down: even its empty datagrams have a source.
#[inline]
fn is_shutdown_marker(header: &Header) -> bool {
    header.len() == 0 && header.name_len() == 0
}

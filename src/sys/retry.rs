//! What every backend owes: which system calls move a batch, and when a call is made again.
//!
//! - Where the multi-message calls are missing, the whole process changes to the single-message calls. Where `recvmmsg`
//!   cannot wait for its first message (gVisor), a single-message call does.
//! - A call that a signal ended is repeated. On a socket with a timeout it returns `Interrupted`, since the kernel would
//!   restart the timeout.
//! - A call on an unconnected socket that may have met another datagram's ICMP error is repeated, up to [`MAX_REPEATS`]
//!   times: nothing has moved yet, and the report is in the error queue. Then it returns the error. A send first asks the
//!   kernel whether the message fails by itself, for want of a route for example.
//! - The empty messages that a socket returns after a shutdown do not count.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{SockRef, Socket};

use super::addr::NAME_LEN;
#[cfg(any(test, fuzzing))]
use super::fault;
use super::flags::Flags;
use super::headers::{PreparedRecvs, PreparedSends};
use super::message::Received;
use super::native::header::Header;
use super::native::{self, BorrowedSocket, calls};
use super::numbers;
#[cfg(mmsg_calls)]
use crate::events;

/// Which system calls move a batch.
///
/// Both backends give the same results, with one exception: if an [asynchronous error](crate::BatchSocket#errors) arrives
/// during a call, `recvmmsg` keeps it for the next call (gVisor's does not), and single calls may lose it. Both move a
/// single message by the single-message call, which costs less.
///
/// The process starts with the faster backend that the platform has. It changes to [`Msg`](Self::Msg) for good if the
/// kernel has no multi-message calls (`ENOSYS`) or a sandbox forbids them (`EPERM`, unless a firewall rejected a datagram).
///
/// ```
/// println!("batches go by {:?}", mmsg::Backend::current());
/// ```
#[doc(alias("recvmmsg", "sendmmsg"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// `recvmmsg` and `sendmmsg`: Linux, Android, FreeBSD, OpenBSD 7.2.
    Mmsg,
    /// `recvmsg` and `sendmsg`, for one buffer without options `sendto`, a call for each message: everywhere (Windows:
    /// `WSARecvMsg` and `WSASendMsg`). A sandbox must permit all three.
    Msg,
}

/// Whether the platform has multi-message calls.
const HAS_MMSG: bool = cfg!(mmsg_calls);
/// Turns the multi-message calls off: set by `Backend::make_process_default`, or because they are missing.
static WITHOUT_MMSG: AtomicBool = AtomicBool::new(false);

impl Backend {
    /// The process's backend: [`Mmsg`](Self::Mmsg), unless the platform lacks these calls or a sandbox forbids them.
    #[must_use]
    #[inline]
    pub fn current() -> Self {
        if !HAS_MMSG || without_mmsg() { Self::Msg } else { Self::Mmsg }
    }

    /// Makes this the backend of the whole process, for tests and benchmarks. `Unsupported` for [`Mmsg`](Self::Mmsg) on a
    /// system without these calls.
    #[doc(hidden)]
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
    // In unit tests each thread has its own choice, so that a scripted ENOSYS does not reach other tests.
    #[cfg(any(test, fuzzing))]
    fault::set_without_mmsg(on);
    #[cfg(not(any(test, fuzzing)))]
    WITHOUT_MMSG.store(on, Ordering::Relaxed);
}

/// Whether `error` means that the multi-message calls are missing, and not that a message failed. If so, turns them off for
/// the process.
#[cfg(mmsg_calls)]
#[cold]
fn calls_are_missing(error: &io::Error) -> bool {
    let missing = calls::mmsg_is_missing(error);
    if missing {
        events::single_message_calls(error);
        set_without_mmsg(true);
    }
    missing
}

/// Receives into the headers. Waits for the first message only, as the socket does.
///
/// # Errors
///
/// The error of the first message. A later error ends the call with a count.
#[inline]
pub(crate) fn recv(
    socket: BorrowedSocket<'_>,
    mut prepared: PreparedRecvs<'_>,
    flags: Flags,
) -> io::Result<Received> {
    let received = match recv_once(socket, &mut prepared, flags) {
        Ok(received) => received,
        Err(error) => {
            let unrelated = |_: &mut _, error: &_| native::icmp::is_unrelated(socket, error);
            retry(socket, &mut prepared, Socket::read_timeout, flags, error, unrelated, recv_once)?
        }
    };
    // In the error queue a message without payload and source is a report, not a shutdown.
    if flags.contains(Flags::ERROR_QUEUE) {
        return Ok(received);
    }
    let before = before_shutdown(socket, &prepared.as_slice()[..received.count]);
    Ok(before.map_or(received, |count| Received { count, drained: false }))
}

/// Receives by the backend in use. The single-message calls move one message, which costs less, and replace the others
/// where these are missing.
#[inline(always)]
fn recv_once(
    socket: BorrowedSocket<'_>,
    prepared: &mut PreparedRecvs<'_>,
    flags: Flags,
) -> io::Result<Received> {
    #[cfg(unix)]
    if native::is_other_unix() && !prepared.has_space() {
        native::wait_for_message(socket, flags)?;
    }
    #[cfg_attr(not(mmsg_calls), allow(unused_mut))]
    let mut len = prepared.as_slice().len();
    #[cfg(mmsg_calls)]
    if len > 1 && Backend::current() == Backend::Mmsg {
        match calls::recvmmsg(socket, prepared, flags) {
            Err(error) if calls_are_missing(&error) || calls::wait_flag_is_missing(&error) => {}
            // The single-message call waits in its place.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && calls::never_waits() => {
                len = 1
            }
            result => return result,
        }
    }
    for i in 0..len {
        let flags = if i == 0 { flags } else { flags | Flags::DONT_WAIT };
        match calls::recv_one(socket, prepared, i, flags) {
            Ok(()) => {}
            Err(error) if i == 0 => return Err(error),
            Err(error) => {
                let drained = error.kind() == io::ErrorKind::WouldBlock;
                return Ok(Received { count: i, drained });
            }
        }
    }
    Ok(Received { count: len, drained: false })
}

/// Sends the headers in order. Waits for each message, as the socket does.
///
/// # Errors
///
/// The error of the first message. A later error ends the call with a count.
#[inline]
pub(crate) fn send(
    socket: BorrowedSocket<'_>,
    mut prepared: PreparedSends<'_>,
    flags: Flags,
) -> io::Result<usize> {
    let Some(first) = prepared.as_slice().first() else { return Ok(0) };
    let has_dest = first.name_len() > 0;
    send_once(socket, &mut prepared, flags).or_else(|error| {
        #[cfg(unix)]
        let error = match native::until_space(socket, &mut prepared, flags, error, send_once) {
            Err(error) => error,
            sent => return sent,
        };
        let (mut was_asked, mut was_rejected) = (false, false);
        let unrelated = |prepared: &mut PreparedSends<'_>, error: &io::Error| {
            let is_too_big = error.raw_os_error() == Some(numbers::EMSGSIZE);
            // The other errors of a connected socket are about its peer, so the caller gets them.
            if !(has_dest || is_too_big) || !native::icmp::may_be_unrelated(socket, error) {
                return false;
            }
            let is_own = if native::segmentation_rejected(error).is_some() {
                // Only a whole send tells. Each try of a message that is too big makes a report.
                mem::replace(&mut was_rejected, true)
            } else {
                !mem::replace(&mut was_asked, true) && is_rejected(socket, prepared, error)
            };
            !is_own
        };
        retry(socket, &mut prepared, Socket::write_timeout, flags, error, unrelated, send_once)
    })
}

/// Sends by the backend in use, as [`recv_once`] receives.
#[inline(always)]
fn send_once(
    socket: BorrowedSocket<'_>,
    prepared: &mut PreparedSends<'_>,
    flags: Flags,
) -> io::Result<usize> {
    let len = prepared.as_slice().len();
    #[cfg(mmsg_calls)]
    if len > 1 && Backend::current() == Backend::Mmsg {
        match calls::sendmmsg(socket, prepared, flags) {
            Err(error) if calls_are_missing(&error) => {}
            result => return result,
        }
    }
    for i in 0..len {
        match calls::send_one(socket, prepared, i, flags) {
            Ok(()) => {}
            Err(error) if i == 0 => return Err(error),
            Err(_) => return Ok(i),
        }
    }
    Ok(len)
}

/// Whether the first message fails with this error by itself. Linux looks for a route and sends nothing (MSG_PROBE), and
/// leaves another datagram's error on the socket (`ip_make_skb` in net/ipv4/ip_output.c).
fn is_rejected(
    socket: BorrowedSocket<'_>,
    prepared: &mut PreparedSends<'_>,
    error: &io::Error,
) -> bool {
    let probe = |flags| calls::send_one(socket, prepared, 0, Flags(flags)).err();
    let rejected = numbers::MSG_PROBE.and_then(probe);
    rejected.is_some_and(|rejected| rejected.raw_os_error() == error.raw_os_error())
}

/// How often a call is repeated after errors that may be ICMP errors about other datagrams. Each takes one error off the
/// socket, but a thread that reads the reports puts the next one there (`sock_dequeue_err_skb` in net/core/skbuff.c), and a
/// firewall or a sandbox may answer every call with such a number.
const MAX_REPEATS: usize = 16;

/// Repeats a call that fails by a signal or by an ICMP error that `is_unrelated`. `timeout` reads the socket's timeout
/// for such calls (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
#[cold]
fn retry<P, T>(
    socket: BorrowedSocket<'_>,
    prepared: &mut P,
    timeout: fn(&Socket) -> io::Result<Option<Duration>>,
    flags: Flags,
    mut error: io::Error,
    mut is_unrelated: impl FnMut(&mut P, &io::Error) -> bool,
    call: impl Fn(BorrowedSocket<'_>, &mut P, Flags) -> io::Result<T>,
) -> io::Result<T> {
    let may_wait = !flags.contains(Flags::DONT_WAIT);
    let has_timeout = || {
        let timeout = timeout(&SockRef::from(&socket)).ok().flatten();
        timeout.is_some() && native::waits(socket) != Some(false)
    };
    let mut left = MAX_REPEATS;
    loop {
        let by_signal = error.kind() == io::ErrorKind::Interrupted;
        if !by_signal && (left == 0 || !is_unrelated(prepared, &error)) {
            return Err(error);
        }
        // The first wait used up part of the timeout, so the repeated call does not wait: the caller decides.
        let timed = may_wait && has_timeout();
        if timed && by_signal {
            return Err(error);
        }
        left -= usize::from(!by_signal);
        let flags = if timed { flags | Flags::DONT_WAIT } else { flags };
        match call(socket, prepared, flags) {
            Err(next) if timed && next.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(next) => error = next,
            sent => return sent,
        }
    }
}

/// The number of messages that came before a shutdown, if the socket was shut down.
#[inline]
fn before_shutdown(socket: BorrowedSocket<'_>, headers: &[Header]) -> Option<usize> {
    // Linux reports a shutdown only to a call that waits, as the first message. The BSDs report it to every call, so it may
    // also be the last message.
    let ended = headers.first().is_some_and(is_shutdown_marker)
        || headers.last().is_some_and(is_shutdown_marker);
    let is_shut_down = ended && native::is_inet(socket);
    if is_shut_down { headers.iter().position(is_shutdown_marker) } else { None }
}

/// Whether a header has neither payload nor source. On an Internet socket this means a shutdown, since even an empty
/// datagram has a source. gVisor leaves the length of the source as it was.
#[inline]
fn is_shutdown_marker(header: &Header) -> bool {
    header.len() == 0 && [0, NAME_LEN].contains(&header.name_len())
}

//! Repeats system calls that ended early.
//!
//! Two unrelated events end a call: a signal (`EINTR`), and the ICMP error of another datagram. The
//! call is repeated for the rest of the socket's timeout, which the kernel would restart.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use libc::c_int;
use socket2::SockRef;

use super::icmp::{has_space_for_report, is_from_network, reports_icmp_errors};
use super::poll::{TICK, coarse_now, poll};
use super::socket::BorrowedSocket;
use crate::sys::{Direction, numbers};

/// The most tries of a call that does not wait. Each try takes one error off the socket, faster than
/// errors arrive.
const TRIES: usize = 1_000;
/// How long to sleep where `poll` says that a socket is ready and the call says that it is not.
const NAP: Duration = Duration::from_millis(2);

/// Makes a system call with `flags`, and repeats it while unrelated events end it early.
#[inline(always)]
pub(super) fn retry<T>(
    socket: BorrowedSocket<'_>,
    direction: Direction,
    flags: c_int,
    mut call: impl FnMut(c_int) -> io::Result<T>,
) -> io::Result<T> {
    let start = start(flags);
    let first = call(flags);
    Repeat { socket, direction, flags, call }.after(first, start)
}

/// When a call begins that may wait. Needed to know afterwards how long it has waited.
#[inline(always)]
pub(super) fn start(flags: c_int) -> Option<Duration> {
    // `Instant::now` would take 2 % of the time of a call that moves one small datagram.
    (flags & libc::MSG_DONTWAIT == 0).then(coarse_now)
}

/// A call to repeat.
pub(super) struct Repeat<'s, C> {
    pub(super) socket: BorrowedSocket<'s>,
    pub(super) direction: Direction,
    pub(super) flags: c_int,
    pub(super) call: C,
}

impl<T, C: FnMut(c_int) -> io::Result<T>> Repeat<'_, C> {
    /// Repeats the call if an unrelated event ended its `first` try, which began at `start`.
    #[inline(always)]
    pub(super) fn after(self, first: io::Result<T>, start: Option<Duration>) -> io::Result<T> {
        match first {
            Err(error) if ended_early(self.socket, self.direction, &error) => self.make(start),
            result => result,
        }
    }

    /// Makes the call, which began at `start` if it may wait.
    #[cold]
    fn make(mut self, start: Option<Duration>) -> io::Result<T> {
        let socket = SockRef::from(&self.socket);
        let start = start.filter(|_| !socket.nonblocking().unwrap_or(false));
        let timeout = match self.direction {
            Direction::Receive => socket.read_timeout(),
            Direction::Send => socket.write_timeout(),
        };
        let Some(start) = start else { return self.repeat(TRIES) };
        // The clock lags by up to a tick. A call may end a tick late, never early.
        let waited = coarse_now().saturating_sub(start).saturating_sub(TICK);
        let left = timeout.unwrap_or_default().map(|timeout| timeout.saturating_sub(waited));
        match left.and_then(|left| Instant::now().checked_add(left)) {
            Some(deadline) => self.repeat_until(deadline),
            // Every try waits for an event, for as long as it takes.
            None => self.repeat(usize::MAX),
        }
    }

    /// Repeats the call while unrelated events end it, `most` times at most.
    fn repeat(&mut self, most: usize) -> io::Result<T> {
        let mut result = (self.call)(self.flags);
        for _ in 1..most {
            match &result {
                Err(error) if ended_early(self.socket, self.direction, error) => {
                    result = (self.call)(self.flags);
                }
                _ => break,
            }
        }
        result
    }

    /// Repeats the call without waiting in it, and waits with `poll` in between.
    fn repeat_until(&mut self, deadline: Instant) -> io::Result<T> {
        self.flags |= libc::MSG_DONTWAIT;
        let mut was_ready = false;
        loop {
            let result = self.repeat(TRIES);
            if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                return result;
            }
            if was_ready {
                // `poll` returns at once for as long as the error queue holds a report, and before
                // a send to a Unix socket that is full.
                thread::sleep(NAP.min(deadline.saturating_duration_since(Instant::now())));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return result;
            }
            let events = match self.direction {
                Direction::Receive => libc::POLLIN,
                Direction::Send => libc::POLLOUT,
            };
            was_ready = poll(self.socket, events, left)?;
        }
    }
}

/// Whether an unrelated event ended the call.
#[cold]
fn ended_early(socket: BorrowedSocket<'_>, direction: Direction, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
        || (direction == Direction::Receive && is_of_another(socket, error))
}

/// Whether a receive returned the ICMP error of a datagram to another destination.
///
/// With `IP_RECVERR`, Linux fails the next call on an unconnected socket with the error of an earlier
/// datagram, wherever that went (ip(7)). The report is in the error queue, so nothing is lost. The
/// error of a connected socket is about its one peer, and the caller's.
fn is_of_another(socket: BorrowedSocket<'_>, error: &io::Error) -> bool {
    is_from_network(error)
        && reports_icmp_errors(socket)
        && SockRef::from(&socket).peer_addr().is_err()
        && has_space_for_report(socket)
}

/// Whether a message was offered to the kernel before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(mmsg_calls), allow(dead_code))]
pub(super) enum Tried {
    No,
    Once,
}

/// Sends by `send`, and again if its error is an ICMP error about another datagram; `has_dest` says
/// whether the message has a destination of its own.
///
/// With `IP_RECVERR`, Linux fails the next call on an unconnected socket with the error of an
/// earlier datagram, wherever that went (ip(7)). The report is in the error queue, so nothing is
/// lost, and the call that failed sent nothing.
#[inline]
pub(super) fn retry_unrelated_icmp_error<T>(
    socket: BorrowedSocket<'_>,
    has_dest: bool,
    tried: Tried,
    mut send: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    /// Each try takes one pending error off the socket; a message's own error stays.
    const TRIES: usize = 4;
    let mut result = send();
    for tries in 1 + usize::from(tried == Tried::Once)..TRIES {
        match &result {
            Err(error) if may_be_unrelated(socket, has_dest, error, tries) => result = send(),
            _ => break,
        }
    }
    result
}

#[cold]
fn may_be_unrelated(
    socket: BorrowedSocket<'_>,
    has_dest: bool,
    error: &io::Error,
    tries: usize,
) -> bool {
    // Each try of a datagram that is itself too big puts a report in the queue.
    let most = if error.raw_os_error() == Some(numbers::EMSGSIZE) { 1 } else { usize::MAX };
    has_dest
        && tries <= most
        && is_from_network(error)
        && reports_icmp_errors(socket)
        && has_space_for_report(socket)
}

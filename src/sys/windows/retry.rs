//! Repeats calls that an unrelated event ended early.

use std::io;
use std::os::windows::io::BorrowedSocket;

use windows_sys::Win32::Networking::WinSock::{SIO_UDP_CONNRESET, SIO_UDP_NETRESET, WSAEINTR};

use super::options::control;
use super::socket::peer;
use crate::sys::numbers;

/// The most tries of a call. Each takes one error off the socket.
const TRIES: usize = 1_000;

/// Repeats a call that was interrupted.
#[inline]
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            // The standard library has no kind for it here.
            Err(error) if error.raw_os_error() == Some(WSAEINTR) => {}
            result => return result,
        }
    }
}

/// Repeats a call while it returns the ICMP errors of datagrams sent earlier to anybody.
///
/// Windows fails a receive or a send (WSASendTo, `WSAECONNRESET`) on an unconnected socket for them, and
/// does not say which datagram it was. The first one makes the crate turn them off on the socket. The
/// error of a connected socket is about its one peer, and is returned.
#[inline]
pub(super) fn retry_unrelated_icmp_error<T>(
    socket: BorrowedSocket<'_>,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut result = retry(&mut call);
    for _ in 1..TRIES {
        match &result {
            Err(error) if is_from_network(error) && peer(socket).is_none() => {
                turn_off_icmp_errors(socket);
                result = retry(&mut call);
            }
            _ => break,
        }
    }
    result
}

/// Whether the system may return this error because of an ICMP message.
#[cold]
pub(super) fn is_from_network(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| numbers::ICMP_ERRORS.contains(&code))
}

/// Best effort: where the system lacks the controls, each receive passes over the errors.
#[cold]
fn turn_off_icmp_errors(socket: BorrowedSocket<'_>) {
    let _ = control(socket, SIO_UDP_CONNRESET, 0);
    let _ = control(socket, SIO_UDP_NETRESET, 0);
}

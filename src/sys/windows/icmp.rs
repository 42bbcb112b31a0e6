//! Errors that the system reports because an ICMP message arrived.

use std::io;

use socket2::SockRef;

use super::BorrowedSocket;
use super::options::turn_off_icmp_errors;
use crate::sys::numbers;

/// Whether a call returned the ICMP error of a datagram sent earlier to anybody.
///
/// Windows fails a receive or a send (WSASendTo, `WSAECONNRESET`) on an unconnected socket for them, and
/// does not say which datagram it was. The first one turns them off on the socket. The error of a connected socket is
/// about its one peer, and the caller's.
#[cold]
pub(crate) fn is_unrelated(socket: BorrowedSocket<'_>, error: &io::Error) -> bool {
    let unrelated = error.raw_os_error().is_some_and(|code| numbers::ICMP_ERRORS.contains(&code))
        && SockRef::from(&socket).peer_addr().is_err();
    if unrelated {
        turn_off_icmp_errors(socket);
    }
    unrelated
}

/// The same for a send.
#[cold]
pub(crate) fn may_be_unrelated(socket: BorrowedSocket<'_>, error: &io::Error) -> bool {
    is_unrelated(socket, error)
}

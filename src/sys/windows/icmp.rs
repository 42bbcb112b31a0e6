//! Errors that the system reports after an ICMP message arrived.

use std::io;

use socket2::SockRef;

use super::BorrowedSocket;
use super::options::turn_off_icmp_errors;
use crate::sys::numbers;

/// Whether a call on an unconnected socket returned the ICMP error of an earlier datagram.
///
/// On an unconnected socket, Windows fails receives and sends with such an error (`WSAECONNRESET` in WSASendTo) without
/// naming the datagram. So the first such error turns them off for the socket. On a connected socket the error is about
/// the peer, so the caller gets it.
#[cold]
pub(crate) fn is_unrelated(socket: BorrowedSocket<'_>, error: &io::Error) -> bool {
    let unrelated = error.raw_os_error().is_some_and(|code| numbers::ICMP_ERRORS.contains(&code))
        && SockRef::from(&socket).peer_addr().is_err();
    if unrelated {
        turn_off_icmp_errors(socket);
    }
    unrelated
}

// A send returns such an error, too.
pub(crate) use self::is_unrelated as may_be_unrelated;

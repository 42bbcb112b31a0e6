//! Errors that the kernel reports after an ICMP message arrived.

use std::io;

use socket2::SockRef;

use super::cmsg::{option, option_bytes};
use super::socket::BorrowedSocket;
use crate::sys::numbers;

/// Whether a receive on an unconnected socket returned the ICMP error of a sent datagram.
///
/// With `IP_RECVERR`, Linux fails the next call on an unconnected socket with the error of an earlier datagram to any
/// destination (ip(7)). The report is in the error queue, so nothing is lost. On a connected socket the error is about the
/// peer, so the caller gets it.
#[cold]
pub(crate) fn is_unrelated(socket: BorrowedSocket<'_>, error: &io::Error) -> bool {
    may_be_unrelated(socket, error) && SockRef::from(&socket).peer_addr().is_err()
}

/// Whether the error may be an ICMP error about another datagram, whose report is in the socket's error queue.
#[cold]
pub(crate) fn may_be_unrelated(socket: BorrowedSocket<'_>, error: &io::Error) -> bool {
    let is_on = |name| option(socket, name).is_ok_and(|on| on == 1);
    error.raw_os_error().is_some_and(|errno| numbers::ICMP_ERRORS.contains(&errno))
        && [numbers::ERROR_V4, numbers::ERROR_V6].into_iter().any(is_on)
        && has_space_for_report(socket)
}

/// Whether the socket's receive buffer, which the error queue shares, has space for one more report. If not, Linux may
/// have dropped the report (`sock_queue_err_skb` in net/core/skbuff.c), so the caller must get the error.
///
/// True if the kernel does not say: `SO_MEMINFO` came with Linux 4.12.
fn has_space_for_report(socket: BorrowedSocket<'_>) -> bool {
    /// The maximum buffer space of a report: a page and the kernel's own structures.
    const MAX_REPORT_BYTES: u32 = 4096 + 256;
    receive_buffer(socket).is_none_or(|(used, size)| used.saturating_add(MAX_REPORT_BYTES) < size)
}

/// The used bytes and the size of the socket's receive buffer, if the kernel reports them.
fn receive_buffer(socket: BorrowedSocket<'_>) -> Option<(u32, u32)> {
    // SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF (include/uapi/linux/sock_diag.h).
    let info = option_bytes(socket, numbers::MEMINFO).ok()?;
    let [u0, u1, u2, u3, s0, s1, s2, s3] = info;
    Some((u32::from_ne_bytes([u0, u1, u2, u3]), u32::from_ne_bytes([s0, s1, s2, s3])))
}

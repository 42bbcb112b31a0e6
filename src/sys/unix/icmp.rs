//! Errors that the kernel reports because an ICMP message arrived.

use std::io;

use super::cmsg::{option, option_bytes};
use super::socket::{BorrowedSocket, is_inet};
use crate::sys::{CallResult, numbers};

/// Whether the kernel may return this error because of an ICMP message.
#[cold]
pub(super) fn is_from_network(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| numbers::ICMP_ERRORS.contains(&errno))
}

/// The result of a send that ended before message number `count`; `has_dest` says whether that message
/// has a destination of its own.
#[cold]
pub(super) fn send_stopped(
    socket: BorrowedSocket<'_>,
    has_dest: bool,
    count: usize,
    error: io::Error,
) -> CallResult {
    let reported_once = is_reported_once(socket, has_dest, &error);
    CallResult { reported_once, ..CallResult::stopped(count, error) }
}

/// Whether the error of a send is about a datagram sent before, as far as can be known: the system returns
/// it once. `has_dest` says whether the message at hand has a destination of its own.
#[cold]
pub(crate) fn is_reported_once(
    socket: BorrowedSocket<'_>,
    has_dest: bool,
    error: &io::Error,
) -> bool {
    // A message that is too long for its path meets `EMSGSIZE` itself, also if an ICMP message said so
    // first.
    let from_peer =
        !has_dest && is_from_network(error) && error.raw_os_error() != Some(numbers::EMSGSIZE);
    // Other sockets have no ICMP errors: theirs are about the message at hand.
    (from_peer || error.kind() == io::ErrorKind::ConnectionRefused) && is_inet(socket)
}

/// Whether the socket puts reports of ICMP errors into its error queue (`IP_RECVERR`).
pub(super) fn reports_icmp_errors(socket: BorrowedSocket<'_>) -> bool {
    let is_on = |name| option(socket, name).is_ok_and(|on| on == 1);
    [numbers::RECV_ERROR_V4, numbers::RECV_ERROR_V6].into_iter().any(is_on)
}

/// Whether the socket's receive buffer, which the error queue shares, has space for one more report.
/// Otherwise Linux drops the report (`sock_queue_err_skb` in net/core/skbuff.c), and only the call's
/// error remains. An error whose report may have been dropped is returned, be it also in the queue.
///
/// True if the kernel does not say: `SO_MEMINFO` came with Linux 4.12.
pub(super) fn has_space_for_report(socket: BorrowedSocket<'_>) -> bool {
    /// What an ICMP message may count: a page, and the kernel's own structures.
    const REPORT: u32 = 4096 + 256;
    receive_buffer(socket).is_none_or(|(used, size)| used.saturating_add(REPORT) < size)
}

/// Bytes of the socket's receive buffer that are in use, and its size, if the kernel reports them.
fn receive_buffer(socket: BorrowedSocket<'_>) -> Option<(u32, u32)> {
    // SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF (include/uapi/linux/sock_diag.h).
    let info = option_bytes(socket, numbers::MEMINFO).ok()?;
    let [u0, u1, u2, u3, s0, s1, s2, s3] = info;
    Some((u32::from_ne_bytes([u0, u1, u2, u3]), u32::from_ne_bytes([s0, s1, s2, s3])))
}

/// Whether the socket holds anything that has arrived, a report in its error queue included; false if
/// the kernel does not say.
pub(crate) fn has_queued_messages(socket: BorrowedSocket<'_>) -> bool {
    receive_buffer(socket).is_some_and(|(used, _)| used > 0)
}

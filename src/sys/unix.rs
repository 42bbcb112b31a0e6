//! Unix: sockets, and the choice between the two backends for each call.

use std::io;
use std::net::SocketAddr;

use libc::c_int;
use socket2::{SockAddr, SockRef};

pub(crate) use std::os::fd::{
    AsFd as AsSocket, BorrowedFd as BorrowedSocket, OwnedFd as OwnedSocket, RawFd as RawSocket,
};

use super::addr::{self, NAME_LEN};
use super::headers::{RecvHeaders, SendHeaders};
use super::{Backend, Rejection, Step, cmsg, msg, numbers, option};
#[cfg(mmsg_calls)]
use super::{backend, mmsg};
use crate::RecvFlags;

/// Lends the socket.
#[inline]
pub(crate) fn borrow(socket: &(impl AsSocket + ?Sized)) -> BorrowedSocket<'_> {
    socket.as_fd()
}

/// A message to a peer that is gone must not end the process by a signal.
const SEND_FLAGS: c_int = libc::MSG_NOSIGNAL;

/// Receives into wired headers, by one multi-message call or one by one.
#[inline]
pub(super) fn recv(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut RecvHeaders<'_>,
    flags: RecvFlags,
) -> Step {
    let flags = native_flags(flags);
    // One message: the single-message call costs less, and everybody has it. None: FreeBSD's
    // recvmmsg receives a message even then.
    #[cfg(mmsg_calls)]
    if backend == Backend::Mmsg && wired.len() > 1 {
        return match mmsg::recvmmsg(socket, wired, flags | libc::MSG_WAITFORONE) {
            Ok(count) => Step::moved(count),
            Err(error) if calls_are_missing(&error) => msg::recv(socket, wired, flags),
            Err(error) => Step::stopped(0, error),
        };
    }
    let _ = backend;
    msg::recv(socket, wired, flags)
}

/// Sends wired headers, by one multi-message call or one by one.
///
/// A multi-message call that sent less than all does not say why, and the kernel has forgotten it:
/// an ICMP error that arrived meanwhile is told only once. So the rest goes one by one: a message
/// that cannot be sent says so, and one that an ICMP error stopped is sent.
#[inline]
pub(super) fn send(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut SendHeaders<'_>,
) -> Step {
    #[cfg(mmsg_calls)]
    if backend == Backend::Mmsg && wired.len() > 1 {
        let has_dest = wired.has_dest(0);
        let send = || mmsg::sendmmsg(socket, wired, SEND_FLAGS);
        return match retry_unrelated_icmp_error(socket, has_dest, Tried::No, send) {
            Ok(count) if count < wired.len() => msg::send_rest(socket, wired, count, SEND_FLAGS),
            Ok(count) => Step::moved(count),
            Err(error) if calls_are_missing(&error) => msg::send(socket, wired, SEND_FLAGS),
            Err(error) => send_stopped(socket, has_dest, 0, error),
        };
    }
    let _ = backend;
    msg::send(socket, wired, SEND_FLAGS)
}

/// Sends a message of these bytes, to `dest` if there is one.
#[inline]
pub(crate) fn send_plain(
    socket: BorrowedSocket<'_>,
    dest: Option<&SocketAddr>,
    data: &[u8],
) -> io::Result<()> {
    let mut name = [0; NAME_LEN];
    let len = dest.map_or(0, |dest| addr::encode(dest, &mut name));
    let name = &name[..len];
    let send = || msg::send_plain(socket, name, data, SEND_FLAGS);
    retry_unrelated_icmp_error(socket, len > 0, Tried::No, send)
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
    /// Each try takes one error that arrived by then; a message's own does not go away.
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
        && has_room_for_report(socket)
}

/// A send that ended before message number `count`; `has_dest` says whether that one has a destination
/// of its own.
#[cold]
pub(super) fn send_stopped(
    socket: BorrowedSocket<'_>,
    has_dest: bool,
    count: usize,
    error: io::Error,
) -> Step {
    // A message that is too long for its path meets `EMSGSIZE` itself, also if an ICMP message said so
    // first.
    let from_peer =
        !has_dest && is_from_network(&error) && error.raw_os_error() != Some(numbers::EMSGSIZE);
    let told_once = from_peer || error.kind() == io::ErrorKind::ConnectionRefused;
    // Other sockets have no ICMP errors: theirs are about the message at hand.
    Step { told_once: told_once && is_inet(socket), ..Step::stopped(count, error) }
}

/// Whether an error is one of those that ICMP messages are turned into.
#[cold]
pub(super) fn is_from_network(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| numbers::ICMP_ERRORS.contains(&errno))
}

/// Whether the socket puts reports of ICMP errors into its error queue (`IP_RECVERR`).
pub(super) fn reports_icmp_errors(socket: BorrowedSocket<'_>) -> bool {
    let is_on = |name| option(socket, name).is_ok_and(|on| on == 1);
    [numbers::RECV_ERROR_V4, numbers::RECV_ERROR_V6].into_iter().any(is_on)
}

/// Whether the socket's receive buffer, which the error queue shares, has room for one more report.
/// Linux drops a report without (`sock_queue_err_skb` in net/core/skbuff.c): then the error that a
/// call returns is all that tells of it.
///
/// True if the kernel does not say: `SO_MEMINFO` came with Linux 4.12.
pub(super) fn has_room_for_report(socket: BorrowedSocket<'_>) -> bool {
    /// What an ICMP message may count: a page, and the kernel's own structures.
    const REPORT: u32 = 4096 + 256;
    let Some((used, size)) = receive_buffer(socket) else { return true };
    // Of the smallest buffers, a report may take half.
    used.saturating_add(REPORT.min(size / 2)) < size
}

/// Bytes of the socket's receive buffer that are in use, and how many it has, if the kernel says so.
fn receive_buffer(socket: BorrowedSocket<'_>) -> Option<(u32, u32)> {
    // SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF (include/uapi/linux/sock_diag.h).
    let info = cmsg::option_bytes(socket, numbers::MEMINFO).ok()?;
    let [u0, u1, u2, u3, s0, s1, s2, s3] = info;
    Some((u32::from_ne_bytes([u0, u1, u2, u3]), u32::from_ne_bytes([s0, s1, s2, s3])))
}

/// Whether the socket holds anything that has arrived, a report in its error queue included; false if
/// the kernel does not say.
pub(crate) fn has_arrivals(socket: BorrowedSocket<'_>) -> bool {
    receive_buffer(socket).is_some_and(|(used, _)| used > 0)
}

/// Whether `error` says that there are no multi-message calls here, rather than that a message
/// failed; if so, they are not tried again in this process.
#[cfg(mmsg_calls)]
#[cold]
fn calls_are_missing(error: &io::Error) -> bool {
    let missing = match error.raw_os_error() {
        Some(libc::ENOSYS) => true,
        // A sandbox's, or a firewall's for one datagram.
        Some(libc::EPERM) => !mmsg::permitted(),
        _ => false,
    };
    if missing {
        backend::set_without_mmsg(true);
    }
    missing
}

#[inline]
fn native_flags(flags: RecvFlags) -> c_int {
    // Descriptors that come must not reach programs that this one starts.
    #[cfg(not(target_vendor = "apple"))]
    let mut native = libc::MSG_CMSG_CLOEXEC;
    #[cfg(target_vendor = "apple")]
    let mut native = 0;
    if flags.is_empty() {
        return native;
    }
    if flags.contains(RecvFlags::PEEK) {
        native |= libc::MSG_PEEK;
    }
    if flags.contains(RecvFlags::DONT_WAIT) {
        native |= libc::MSG_DONTWAIT;
    }
    #[cfg(linux_like)]
    if flags.contains(RecvFlags::ERROR_QUEUE) {
        native |= libc::MSG_ERRQUEUE;
    }
    // As an input flag it is Linux's own (recv(2)); elsewhere it may be refused.
    if flags.contains(RecvFlags::FULL_LEN) && cfg!(linux_like) {
        native |= libc::MSG_TRUNC;
    }
    native
}

/// Whether the socket is an Internet socket, of either family.
#[cold]
pub(super) fn is_inet(socket: BorrowedSocket<'_>) -> bool {
    SockRef::from(&socket).local_addr().is_ok_and(|addr| addr.is_ipv4() || addr.is_ipv6())
}

/// Whether the socket is connected to an IPv4 address, or to one mapped to IPv6.
#[cold]
pub(super) fn peer_is_v4(socket: BorrowedSocket<'_>) -> bool {
    let peer = SockRef::from(&socket).peer_addr().ok().and_then(|peer| peer.as_socket());
    peer.is_some_and(|peer| peer.ip().to_canonical().is_ipv4())
}

/// Who the socket is connected to, if it is.
#[cold]
pub(crate) fn peer(socket: BorrowedSocket<'_>) -> Option<SockAddr> {
    SockRef::from(&socket).peer_addr().ok()
}

/// The socket's number in this process, to find it again by.
#[inline]
pub(crate) fn raw(socket: BorrowedSocket<'_>) -> RawSocket {
    use std::os::fd::AsRawFd;
    socket.as_raw_fd()
}

/// The socket's cookie (`SO_COOKIE`, socket(7)), if the system has them: its descriptors share it, and
/// no other socket ever has the same.
#[cold]
pub(crate) fn socket_cookie(socket: BorrowedSocket<'_>) -> Option<u64> {
    cmsg::option_bytes(socket, numbers::COOKIE).ok().map(u64::from_ne_bytes)
}

/// Whether the kernel has GSO for this socket (`UDP_SEGMENT`, Linux 4.18), and nothing is set on it
/// that changes what GSO sends. Only looks.
pub(crate) fn has_segmentation(socket: BorrowedSocket<'_>) -> bool {
    option(socket, numbers::SEGMENT).is_ok() && conflicting_option(socket).is_none()
}

/// The option set on the socket by which its datagrams depend on how they are handed over: a segment
/// size of its own, or messages held back to be joined (udp(7)).
pub(crate) fn conflicting_option(socket: BorrowedSocket<'_>) -> Option<&'static str> {
    let options = [(numbers::SEGMENT, "UDP_SEGMENT"), (numbers::CORK, "UDP_CORK")];
    let is_set = |option| super::option(socket, option).is_ok_and(|value| value != 0);
    options.into_iter().find(|(option, _)| is_set(*option)).map(|(_, name)| name)
}

/// Whether the kernel reports when each message was sent: once for a whole GSO batch.
pub(crate) fn reports_send_times(socket: BorrowedSocket<'_>) -> bool {
    option(socket, numbers::RECV_TIMESTAMPING)
        .is_ok_and(|flags| flags & numbers::ANY_SEND_STAMP != 0)
}

/// Why the kernel rejects a GSO batch by this error, where it might take the datagrams one by one.
/// Whether it does must be tried: each of these has other causes, too.
pub(crate) fn segmentation_rejected(error: &io::Error) -> Option<Rejection> {
    match error.raw_os_error()? {
        // No checksum offload on the device, or a policy of IPsec (udp_send_skb in net/ipv4/udp.c).
        libc::EIO | libc::EOPNOTSUPP => Some(Rejection::Unsupported),
        // Segments longer than the route's MTU, more of them than this kernel takes, or more
        // bytes (there, and in ip_append_data).
        libc::EINVAL | libc::EMSGSIZE => Some(Rejection::Size),
        _ => None,
    }
}

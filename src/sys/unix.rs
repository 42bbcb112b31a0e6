//! Unix: sockets, and the choice between the two backends for each call.

use std::io;
use std::net::SocketAddr;

use libc::c_int;
use socket2::SockRef;

pub(crate) use std::os::fd::{AsFd as AsSocket, BorrowedFd as BorrowedSocket, RawFd as RawSocket};

use super::addr::{self, NAME_LEN};
use super::headers::{RecvHeaders, SendHeaders};
use super::{Backend, Families, Refusal, Step, cmsg, kinds, msg, option};
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
#[inline]
pub(super) fn send(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut SendHeaders<'_>,
) -> Step {
    #[cfg(mmsg_calls)]
    if backend == Backend::Mmsg && wired.len() > 1 {
        let has_dest = wired.has_dest(0);
        let sent = unless_innocent(socket, has_dest, || mmsg::sendmmsg(socket, wired, SEND_FLAGS));
        return match sent {
            Ok(count) => Step::moved(count),
            Err(error) if calls_are_missing(&error) => msg::send(socket, wired, SEND_FLAGS),
            Err(error) => Step::stopped(0, error),
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
    unless_innocent(socket, len > 0, || msg::send_plain(socket, name, data, SEND_FLAGS))
}

/// Sends by `send`, whose error is about one message, and again where that error is not this
/// message's own; `has_dest` says whether the message says itself where it goes.
///
/// With ICMP errors reported (`IP_RECVERR`), Linux makes the next call on an unconnected socket
/// fail with the error of a datagram sent before, wherever that went (ip(7)). It is in the error
/// queue, so nothing is lost by not telling it here. The send that took the error sent nothing.
#[inline]
pub(super) fn unless_innocent<T>(
    socket: BorrowedSocket<'_>,
    has_dest: bool,
    mut send: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    /// Each try takes one error that arrived by then; a message's own does not go away.
    const TRIES: usize = 4;
    let mut result = send();
    for tried in 1..TRIES {
        match &result {
            Err(error) if may_be_anothers(socket, has_dest, error, tried) => result = send(),
            _ => break,
        }
    }
    result
}

#[cold]
fn may_be_anothers(
    socket: BorrowedSocket<'_>,
    has_dest: bool,
    error: &io::Error,
    tried: usize,
) -> bool {
    // Each try of a datagram that is itself too big puts a report in the queue.
    let most = if error.raw_os_error() == Some(kinds::EMSGSIZE) { 1 } else { usize::MAX };
    has_dest && tried <= most && is_from_network(error) && reports_icmp_errors(socket)
}

/// Whether an error is one of those that ICMP messages are turned into.
#[cold]
pub(super) fn is_from_network(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| kinds::REPORTED.contains(&errno))
}

/// Whether the socket puts reports of ICMP errors into its error queue (`IP_RECVERR`).
pub(super) fn reports_icmp_errors(socket: BorrowedSocket<'_>) -> bool {
    let is_on = |kind: &kinds::Kind| option(socket, *kind).is_ok_and(|on| on == 1);
    [kinds::ERROR_V4, kinds::ERROR_V6].iter().any(is_on)
}

/// Whether the socket's receive buffer, which the error queue shares, has room for one more report.
/// Linux drops a report without (`sock_queue_err_skb` in net/core/skbuff.c): then the error that a
/// call returns is all that tells of it.
///
/// True if the kernel does not say: `SO_MEMINFO` came with Linux 4.12.
pub(super) fn has_room_for_report(socket: BorrowedSocket<'_>) -> bool {
    /// What an ICMP message may count: a page, and the kernel's own structures.
    const REPORT: u32 = 4096 + 256;
    let Ok(info) = cmsg::option_bytes(socket, kinds::MEMINFO) else { return true };
    // SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF (include/uapi/linux/sock_diag.h).
    let [u0, u1, u2, u3, s0, s1, s2, s3] = info;
    let (used, size) = (u32::from_ne_bytes([u0, u1, u2, u3]), u32::from_ne_bytes([s0, s1, s2, s3]));
    // Of the smallest buffers, a report may take half.
    used.saturating_add(REPORT.min(size / 2)) < size
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
    // Descriptors that come unasked for must not reach programs that this one starts.
    #[cfg(linux_like)]
    let mut native = libc::MSG_CMSG_CLOEXEC;
    #[cfg(not(linux_like))]
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

/// Which Internet families the socket carries. A Unix socket carries none.
#[cold]
pub(crate) fn families(socket: BorrowedSocket<'_>) -> io::Result<Families> {
    let socket = SockRef::from(&socket);
    let local = socket.local_addr()?;
    let v6 = local.is_ipv6();
    Ok(Families { v4: local.is_ipv4() || (v6 && !socket.only_v6()?), v6 })
}

/// The socket's number in this process, to find it again by.
#[inline]
pub(crate) fn raw(socket: BorrowedSocket<'_>) -> RawSocket {
    use std::os::fd::AsRawFd;
    socket.as_raw_fd()
}

/// What tells a socket from a later one of the same number: Linux's socket cookie (`SO_COOKIE`,
/// socket(7)). 0 where there is none.
#[cold]
pub(crate) fn socket_id(socket: BorrowedSocket<'_>) -> u64 {
    cmsg::option_bytes(socket, kinds::COOKIE).map_or(0, u64::from_ne_bytes)
}

/// Whether the kernel cuts trains for this socket (`UDP_SEGMENT`, Linux 4.18). Only looks.
pub(crate) fn has_segmentation(socket: BorrowedSocket<'_>) -> bool {
    kinds::SEGMENT.0 != kinds::ABSENT.0 && option(socket, kinds::SEGMENT).is_ok()
}

/// Whether a train met an error by which the kernel refuses to cut it, where it might take the
/// datagrams one by one. Whether it does must be tried: each of these has other causes, too.
pub(crate) fn segmentation_refused(error: &io::Error) -> Option<Refusal> {
    match error.raw_os_error()? {
        // No checksum offload on the device, or a policy of IPsec (udp_send_skb in net/ipv4/udp.c).
        libc::EIO | libc::EOPNOTSUPP => Some(Refusal::Unsupported),
        // Segments longer than the route's MTU, more of them than this kernel takes, or more
        // bytes (there, and in ip_append_data).
        libc::EINVAL | libc::EMSGSIZE => Some(Refusal::Size),
        _ => None,
    }
}

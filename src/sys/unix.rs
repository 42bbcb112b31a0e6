//! Unix: sockets, and the choice between the two backends for each call.

use std::io;
use std::net::SocketAddr;

use libc::c_int;
use socket2::SockRef;

pub(crate) use std::os::fd::{
    AsFd as AsSocket, BorrowedFd as BorrowedSocket, OwnedFd as OwnedSocket, RawFd as RawSocket,
};

use super::addr::{self, NAME_LEN};
use super::headers::{RecvHeaders, SendHeaders};
use super::{Backend, Rejection, Step, cmsg, kinds, msg, option};
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
    // One message: the single-message call costs less, and everybody has it.
    if wired.len() == 1 {
        return match recv_one(socket, wired, flags) {
            Ok(()) => Step::moved(1),
            Err(error) => Step::stopped(0, error),
        };
    }
    let native = native_flags(flags);
    #[cfg(mmsg_calls)]
    if backend == Backend::Mmsg {
        return match mmsg::recvmmsg(socket, wired, native | libc::MSG_WAITFORONE) {
            Ok(count) => Step::moved(count),
            Err(error) if calls_are_missing(socket, &error) => msg::recv(socket, wired, native),
            Err(error) => Step::stopped(0, error),
        };
    }
    let _ = backend;
    msg::recv(socket, wired, native)
}

/// Receives into the first wired header.
#[inline]
pub(super) fn recv_one(
    socket: BorrowedSocket<'_>,
    wired: &mut RecvHeaders<'_>,
    flags: RecvFlags,
) -> io::Result<()> {
    msg::recv_one(socket, wired, 0, native_flags(flags))
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
            Err(error) if calls_are_missing(socket, &error) => msg::send(socket, wired, SEND_FLAGS),
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
    let errno = error.raw_os_error().unwrap_or(0);
    // Each try of a datagram that is itself too big puts a report in the queue.
    let most = if errno == kinds::EMSGSIZE { 1 } else { usize::MAX };
    has_dest
        && tried <= most
        && kinds::REPORTED.contains(&errno)
        && [kinds::ERROR_V4, kinds::ERROR_V6]
            .iter()
            .any(|kind| option(socket, *kind).is_ok_and(|on| on == 1))
}

/// Whether `error` says that there are no multi-message calls here, rather than that a message
/// failed; if so, they are not tried again in this process.
#[cfg(mmsg_calls)]
#[cold]
fn calls_are_missing(socket: BorrowedSocket<'_>, error: &io::Error) -> bool {
    let missing = match error.raw_os_error() {
        Some(libc::ENOSYS) => true,
        // A sandbox's, or a firewall's for one datagram.
        Some(libc::EPERM) => !mmsg::permitted(socket),
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

/// Makes a system call again for as long as a signal interrupts it.
#[inline]
pub(super) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
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

/// Whether the kernel has GSO for this socket (`UDP_SEGMENT`, Linux 4.18), and nothing is set on it
/// that changes what GSO sends. Only looks.
pub(crate) fn has_segmentation(socket: BorrowedSocket<'_>) -> bool {
    kinds::SEGMENT.0 != kinds::ABSENT.0
        && option(socket, kinds::SEGMENT).is_ok()
        && conflicting_option(socket).is_none()
}

/// The option set on the socket by which its datagrams depend on how they are handed over: a segment
/// size of its own, or messages held back to be joined (udp(7)).
pub(crate) fn conflicting_option(socket: BorrowedSocket<'_>) -> Option<&'static str> {
    if kinds::SEGMENT.0 == kinds::ABSENT.0 {
        return None;
    }
    let options = [(kinds::SEGMENT, "UDP_SEGMENT"), (kinds::CORK, "UDP_CORK")];
    let is_set = |kind| option(socket, kind).is_ok_and(|value| value != 0);
    options.into_iter().find(|(kind, _)| is_set(*kind)).map(|(_, name)| name)
}

/// Whether the kernel reports when each message was sent: once for a whole GSO batch.
pub(crate) fn reports_send_times(socket: BorrowedSocket<'_>) -> bool {
    kinds::TIMESTAMPING.0 != kinds::ABSENT.0
        && option(socket, kinds::TIMESTAMPING).is_ok_and(|flags| flags & kinds::ANY_SEND_STAMP != 0)
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

/// Whether an ICMP error about an earlier datagram may be what a send on a connected socket was told.
pub(crate) fn reported_by_icmp(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| kinds::REPORTED.contains(&errno))
}

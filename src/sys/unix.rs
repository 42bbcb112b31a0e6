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

/// The socket's cookie (`SO_COOKIE`, socket(7)), if the system has them: its descriptors share it, and
/// no other socket ever has the same.
#[cold]
pub(crate) fn socket_cookie(socket: BorrowedSocket<'_>) -> Option<u64> {
    cmsg::option_bytes(socket, kinds::COOKIE).ok().map(u64::from_ne_bytes)
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

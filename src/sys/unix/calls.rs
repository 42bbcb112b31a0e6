//! The backends: one multi-message call, or a call for each message.

use std::io;

use libc::c_int;

#[cfg(mmsg_calls)]
use super::mmsg;
use super::msg;
use super::socket::BorrowedSocket;
use crate::sys::headers::{WiredRecvs, WiredSends};
use crate::sys::{Backend, MAX_BATCH, RecvFlags, SendFlags};

/// The most messages of a receive.
pub(crate) const MAX_RECV: usize = MAX_BATCH;

/// Receives into headers, of which there is at least one. Waits for the first message alone.
#[inline(always)]
pub(crate) fn recv(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: RecvFlags,
) -> io::Result<usize> {
    let flags = recv_flags(flags);
    match backend {
        #[cfg(mmsg_calls)]
        Backend::Mmsg => mmsg::recvmmsg(socket, wired, flags | libc::MSG_WAITFORONE),
        _ => msg::recv(socket, wired, flags),
    }
}

/// Sends headers, of which there is at least one, in order.
#[inline(always)]
pub(crate) fn send(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredSends<'_>,
    flags: SendFlags,
) -> io::Result<usize> {
    let flags = send_flags(flags);
    match backend {
        #[cfg(mmsg_calls)]
        Backend::Mmsg => mmsg::sendmmsg(socket, wired, flags),
        _ => msg::send(socket, wired, flags),
    }
}

#[inline]
fn send_flags(flags: SendFlags) -> c_int {
    // A message to a peer that is gone must not end the process by a signal.
    let mut native = libc::MSG_NOSIGNAL;
    if flags.contains(SendFlags::DONT_WAIT) {
        native |= libc::MSG_DONTWAIT;
    }
    if flags.contains(SendFlags::DONT_ROUTE) {
        native |= libc::MSG_DONTROUTE;
    }
    #[cfg(linux_like)]
    if flags.contains(SendFlags::CONFIRM) {
        native |= libc::MSG_CONFIRM;
    }
    native
}

#[inline]
fn recv_flags(flags: RecvFlags) -> c_int {
    // Child processes must not inherit received descriptors.
    #[cfg(not(target_vendor = "apple"))]
    let mut native = libc::MSG_CMSG_CLOEXEC;
    #[cfg(target_vendor = "apple")]
    let mut native = 0;
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
    // As an input flag it is Linux's own (recv(2)); elsewhere it may be rejected.
    if flags.contains(RecvFlags::FULL_LEN) && cfg!(linux_like) {
        native |= libc::MSG_TRUNC;
    }
    native
}

//! The backends: one multi-message call, or `recvmsg` and `sendmsg` (or `sendto`) for each message.

#![allow(unsafe_code)]
// The widths of the lengths in C's structs differ between systems.
#![allow(clippy::unnecessary_cast)]

use std::os::fd::AsRawFd;
use std::{io, slice};

use libc::c_int;

use super::header::Buffer;
#[cfg(mmsg_calls)]
use super::mmsg;
use super::socket::BorrowedSocket;
use super::{fds, send_space};
#[cfg(any(test, fuzzing))]
use crate::sys::fault::{self, Call};
use crate::sys::headers::{WiredRecvs, WiredSends, one_by_one};
use crate::sys::{Backend, MAX_BATCH, RecvFlags, SendFlags, Taken};

/// The maximum number of messages of a receive.
pub(crate) const MAX_RECV: usize = MAX_BATCH;

/// Receives into headers, at least one. Waits for the first message only.
#[inline(always)]
pub(crate) fn recv(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: RecvFlags,
) -> io::Result<Taken> {
    let flags = recv_flags(flags);
    match backend {
        #[cfg(mmsg_calls)]
        Backend::Mmsg => mmsg::recvmmsg(socket, wired, flags | libc::MSG_WAITFORONE),
        _ => {
            let mut drained = false;
            let count = one_by_one(wired.len(), |i| {
                let flags = if i == 0 { flags } else { flags | libc::MSG_DONTWAIT };
                let result = recv_one(socket, wired, i, flags);
                result.inspect_err(|error| drained = error.kind() == io::ErrorKind::WouldBlock)
            })?;
            Ok(Taken { count, drained })
        }
    }
}

/// Sends headers, at least one, in order.
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
        _ => one_by_one(wired.len(), |i| send_one(socket, wired, i, flags)),
    }
}

/// Receives one message into header `i`.
#[inline(always)]
fn recv_one(
    socket: BorrowedSocket<'_>,
    wired: &mut WiredRecvs<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    #[cfg(any(test, fuzzing))]
    fault::next(Call::RecvMsg, 1)?;
    let header = &mut wired.as_mut()[i].0;
    // SAFETY: the header meets the invariant of WiredRecvs.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header.msg_hdr, flags) };
    header.msg_len = usize::try_from(len).map_err(|_| io::Error::last_os_error())? as _;
    // SAFETY: the call has just filled the header.
    unsafe { fds::close(slice::from_ref(&wired.as_mut()[i])) };
    Ok(())
}

/// Sends the message of header `i`. A message of one buffer without control data goes by `sendto`, for which the kernel
/// reads no header.
#[inline(always)]
fn send_one(
    socket: BorrowedSocket<'_>,
    wired: &mut WiredSends<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    let control_len = wired.as_mut()[i].control().1;
    let needed = send_space::needed(control_len, || wired.buffers(i).iter().map(Buffer::len).sum());
    send_space::check(socket, needed)?;
    #[cfg(any(test, fuzzing))]
    fault::next(Call::SendMsg, 1)
        .map_err(|error| send_space::correct_error(socket, needed, error))?;
    let fd = socket.as_raw_fd();
    let hdr = &wired.as_mut()[i].0.msg_hdr;
    let len = if hdr.msg_iovlen != 1 || hdr.msg_controllen != 0 {
        // SAFETY: the header meets the invariant of WiredSends.
        unsafe { libc::sendmsg(fd, hdr, flags) }
    } else {
        let (name, name_len) = (hdr.msg_name.cast_const().cast(), hdr.msg_namelen);
        // SAFETY: the header meets the invariant of WiredSends, and points at one iovec.
        unsafe {
            let buffer = &*hdr.msg_iov;
            libc::sendto(fd, buffer.iov_base, buffer.iov_len, flags, name, name_len)
        }
    };
    if len >= 0 {
        return Ok(());
    }
    Err(send_space::correct_error(socket, needed, io::Error::last_os_error()))
}

#[inline]
fn send_flags(flags: SendFlags) -> c_int {
    // Without this flag a send may end the process by SIGPIPE instead of returning EPIPE.
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
    // Only Linux has `MSG_TRUNC` as an input flag (recv(2)). Other systems may reject it.
    if flags.contains(RecvFlags::FULL_LEN) && cfg!(linux_like) {
        native |= libc::MSG_TRUNC;
    }
    native
}

#[cfg(all(test, linux_like))]
mod tests {
    use super::*;

    /// On loopback most flags have no visible effect.
    #[test]
    fn each_flag_is_the_systems() {
        assert_eq!(send_flags(SendFlags::NONE), libc::MSG_NOSIGNAL);
        assert_eq!(recv_flags(RecvFlags::NONE), libc::MSG_CMSG_CLOEXEC);
        for (flag, native) in [
            (SendFlags::DONT_WAIT, libc::MSG_DONTWAIT),
            (SendFlags::DONT_ROUTE, libc::MSG_DONTROUTE),
            (SendFlags::CONFIRM, libc::MSG_CONFIRM),
        ] {
            assert_eq!(send_flags(flag), libc::MSG_NOSIGNAL | native);
        }
    }
}

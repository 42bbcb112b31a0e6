//! `recvmsg` and `sendmsg` (or `sendto`): one message a system call.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use libc::{c_int, c_short};

use super::Step;
#[cfg(test)]
use super::fault::{self, Call};
use super::headers::{RecvHeaders, SendHeaders};
use super::retry::retry;
use super::unix::unless_innocent;
use crate::progress::Direction;

/// Receives message by message until one is not there; only the first is waited for.
pub(super) fn recv(socket: BorrowedFd<'_>, wired: &mut RecvHeaders<'_>, flags: c_int) -> Step {
    let mut wait = flags;
    for i in 0..wired.len() {
        if let Err(error) = recv_one(socket, wired, i, wait) {
            return Step::stopped(i, error).after(i + 1);
        }
        wait = flags | libc::MSG_DONTWAIT;
    }
    Step::moved(wired.len()).after(wired.len())
}

/// Sends message by message until one is refused.
pub(super) fn send(socket: BorrowedFd<'_>, wired: &mut SendHeaders<'_>, flags: c_int) -> Step {
    for i in 0..wired.len() {
        let has_dest = wired.has_dest(i);
        let sent = unless_innocent(socket, has_dest, || send_one(socket, wired, i, flags));
        if let Err(error) = sent {
            return Step::stopped(i, error).after(i + 1);
        }
    }
    Step::moved(wired.len()).after(wired.len())
}

/// Receives one message into header `i`.
#[inline]
fn recv_one(
    socket: BorrowedFd<'_>,
    wired: &mut RecvHeaders<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    let header = &mut wired.as_mut()[i];
    let len = retry(socket, Direction::Receive, flags, |flags| {
        #[cfg(test)]
        fault::next(Call::RecvMsg, 1)?;
        // SAFETY: the invariant of RecvHeaders.
        let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header.msg_hdr, flags) };
        usize::try_from(len).map_err(|_| io::Error::last_os_error())
    })?;
    header.msg_len = len as _;
    Ok(())
}

#[inline]
fn send_one(
    socket: BorrowedFd<'_>,
    wired: &mut SendHeaders<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    let header = &wired.as_mut()[i];
    retry(socket, Direction::Send, flags, |flags| {
        #[cfg(test)]
        fault::next(Call::SendMsg, 1)?;
        // SAFETY: the invariant of SendHeaders.
        let len = unsafe { send_header(socket.as_raw_fd(), &header.msg_hdr, flags) };
        if len < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    })
}

/// Sends one message: if it is one buffer and nothing else by `sendto`, for which the kernel has
/// less to fetch.
///
/// # Safety
///
/// The invariant of [`SendHeaders`].
#[inline]
unsafe fn send_header(fd: c_int, hdr: &libc::msghdr, flags: c_int) -> isize {
    if hdr.msg_iovlen != 1 || hdr.msg_controllen != 0 {
        // SAFETY: the caller's.
        return unsafe { libc::sendmsg(fd, hdr, flags) };
    }
    let (name, name_len) = (hdr.msg_name.cast_const().cast(), hdr.msg_namelen);
    // SAFETY: the caller's; the header points at one iovec.
    unsafe {
        let buffer = &*hdr.msg_iov;
        libc::sendto(fd, buffer.iov_base, buffer.iov_len, flags, name, name_len)
    }
}

/// Sends a message of these bytes, to the address in `name` if there is one.
#[inline]
pub(super) fn send_plain(
    socket: BorrowedFd<'_>,
    name: &[u8],
    data: &[u8],
    flags: c_int,
) -> io::Result<()> {
    let (name, name_len) = match name {
        [] => (ptr::null(), 0),
        _ => (name.as_ptr().cast(), name.len()),
    };
    let (bytes, len) = (data.as_ptr().cast(), data.len());
    retry(socket, Direction::Send, flags, |flags| {
        #[cfg(test)]
        fault::next(Call::SendMsg, 1)?;
        // SAFETY: both pointers are to as many bytes as is said beside them, lent for this call.
        let sent =
            unsafe { libc::sendto(socket.as_raw_fd(), bytes, len, flags, name, name_len as _) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    })
}

/// Waits until the socket takes a message, or has an error to tell.
pub(crate) fn wait_writable(socket: BorrowedFd<'_>) -> io::Result<()> {
    while !poll(socket, libc::POLLOUT, Duration::MAX)? {}
    Ok(())
}

/// Waits at most `timeout` until one of `events` or an error is there, and says whether it is; a
/// signal ends the wait.
pub(super) fn poll(socket: BorrowedFd<'_>, events: c_short, timeout: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    // A millisecond begun is one to wait for.
    let timeout = timeout.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(c_int::MAX);
    // SAFETY: `poll` is one pollfd.
    match unsafe { libc::poll(&mut poll, 1, timeout) } {
        0 => Ok(false),
        1.. => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

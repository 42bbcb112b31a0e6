//! `recvmmsg` and `sendmmsg`: many messages in one system call.
//!
//! Calls the C library's functions, since some sandboxes (Android's) end a process that makes system calls by number.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{mem, ptr};

use libc::c_int;

use super::fds;
use super::header::Raw;
use crate::sys::Taken;
#[cfg(any(test, fuzzing))]
use crate::sys::fault::{self, Call};
use crate::sys::headers::{WiredRecvs, WiredSends};

/// Receives into the headers.
///
/// `flags` say whether to wait. The timeout argument is useless: the kernel checks it only after a datagram has arrived
/// (recvmmsg(2), BUGS).
#[inline(always)]
pub(super) fn recvmmsg(
    socket: BorrowedFd<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: c_int,
) -> io::Result<Taken> {
    let len = wired.len();
    #[cfg(any(test, fuzzing))]
    let len = fault::next(Call::RecvMmsg, len)?;
    let headers = wired.as_mut().as_mut_ptr().cast::<Raw>();
    // SAFETY: the headers meet the invariant of WiredRecvs, and there are at least `len`.
    let n = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), headers, len as _, flags as _, ptr::null_mut())
    };
    let count = count(n as isize)?;
    // SAFETY: the call has just filled these headers.
    unsafe { fds::close(&wired.as_mut()[..count]) };
    // Linux keeps an error that ends the call, and FreeBSD's C library loses it.
    Ok(Taken { count, drained: cfg!(linux_like) && count < len })
}

/// Sends the headers in order.
#[inline(always)]
pub(super) fn sendmmsg(
    socket: BorrowedFd<'_>,
    wired: &mut WiredSends<'_>,
    flags: c_int,
) -> io::Result<usize> {
    let len = wired.len();
    #[cfg(any(test, fuzzing))]
    let len = fault::next(Call::SendMmsg, len)?;
    let headers = wired.as_mut().as_mut_ptr().cast::<Raw>();
    // SAFETY: the headers meet the invariant of WiredSends, and there are at least `len`.
    let n = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, len as _, flags as _) };
    count(n as isize)
}

/// Whether the process may make the multi-message calls. The test calls use an invalid descriptor: a sandbox rejects them,
/// and a firewall never sees them.
pub(super) fn permitted() -> bool {
    #[cfg(any(test, fuzzing))]
    if fault::next(Call::Permitted, 1).is_err() {
        return false;
    }
    const INVALID_FD: c_int = -1;
    // SAFETY: zero is a valid value of a C struct of raw pointers, lengths and flags.
    let mut header: Raw = unsafe { mem::zeroed() };
    // SAFETY: one header without address, buffers and control data.
    let sent = count(unsafe { libc::sendmmsg(INVALID_FD, &mut header, 1, 0) } as isize);
    let none = ptr::null_mut();
    // SAFETY: as above.
    let received = count(unsafe { libc::recvmmsg(INVALID_FD, &mut header, 1, 0, none) } as isize);
    // A permitted call fails with EBADF.
    let forbidden = [libc::EPERM, libc::ENOSYS];
    ![sent, received].into_iter().any(|answer| {
        answer.is_err_and(|error| {
            error.raw_os_error().is_some_and(|errno| forbidden.contains(&errno))
        })
    })
}

fn count(n: isize) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

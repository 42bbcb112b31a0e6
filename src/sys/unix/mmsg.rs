//! `recvmmsg` and `sendmmsg`: many messages in one system call.
//!
//! Always by the C library's functions: some sandboxes (Android's) end a process that makes the
//! system calls by number.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{mem, ptr};

use libc::c_int;

use super::fds;
use super::header::Raw;
#[cfg(any(test, fuzzing))]
use crate::sys::fault::{self, Call};
use crate::sys::headers::{WiredRecvs, WiredSends};

#[cfg(not(mmsg_extern))]
mod calls {
    pub(super) use libc::{recvmmsg, sendmmsg};
}

/// NetBSD 7 and later, sys/socket.h; the libc crate has the flags but not the functions.
#[cfg(mmsg_extern)]
mod calls {
    use super::Raw;
    use libc::{c_int, c_uint, timespec};

    unsafe extern "C" {
        pub(super) fn recvmmsg(
            s: c_int,
            mmsg: *mut Raw,
            vlen: c_uint,
            flags: c_uint,
            timeout: *mut timespec,
        ) -> c_int;
        pub(super) fn sendmmsg(s: c_int, mmsg: *mut Raw, vlen: c_uint, flags: c_uint) -> c_int;
    }
}

/// Receives up to as many messages as there are headers, at least one.
///
/// `flags` decide about waiting; the timeout argument is never used: the kernel looks at it only
/// after a datagram arrived (recvmmsg(2), BUGS).
#[inline(always)]
pub(super) fn recvmmsg(
    socket: BorrowedFd<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: c_int,
) -> io::Result<usize> {
    let len = wired.len();
    #[cfg(any(test, fuzzing))]
    let len = fault::next(Call::RecvMmsg, len)?;
    let headers = wired.as_mut().as_mut_ptr().cast::<Raw>();
    // SAFETY: the invariant of WiredRecvs; `len` is at most their number.
    let n = unsafe {
        calls::recvmmsg(socket.as_raw_fd(), headers, len as _, flags as _, ptr::null_mut())
    };
    let received = count(n as isize)?;
    // SAFETY: the call has just filled them.
    unsafe { fds::close(&wired.as_mut()[..received]) };
    Ok(received)
}

/// Sends messages from the first on, at least one.
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
    // SAFETY: the invariant of WiredSends; `len` is at most their number.
    let n = unsafe { calls::sendmmsg(socket.as_raw_fd(), headers, len as _, flags as _) };
    count(n as isize)
}

/// Whether the process may make the calls at all. The test call is on a descriptor that nobody has: a sandbox
/// rejects it, a firewall never sees it.
pub(super) fn permitted() -> bool {
    #[cfg(any(test, fuzzing))]
    if fault::next(Call::Permitted, 1).is_err() {
        return false;
    }
    const INVALID_FD: c_int = -1;
    // SAFETY: a C struct of raw pointers, lengths and flags: zero is a value of it.
    let mut header: Raw = unsafe { mem::zeroed() };
    // SAFETY: one header, of no address, no buffers and no control data.
    let sent = count(unsafe { calls::sendmmsg(INVALID_FD, &mut header, 1, 0) } as isize);
    let none = ptr::null_mut();
    // SAFETY: as above.
    let received = count(unsafe { calls::recvmmsg(INVALID_FD, &mut header, 1, 0, none) } as isize);
    // The call itself says EBADF.
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

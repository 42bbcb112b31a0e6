//! `recvmmsg` and `sendmmsg`: many messages in one system call.
//!
//! Always by the C library's functions: some sandboxes (Android's) end a process that makes the
//! system calls by number.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, c_uint};

#[cfg(test)]
use super::fault::{self, Call};
use super::fds;
use super::headers::{RecvHeaders, SendHeaders};
use super::unix::retry;

#[cfg(not(mmsg_extern))]
mod calls {
    pub(super) use libc::{recvmmsg, sendmmsg};
    pub(in super::super) type Header = libc::mmsghdr;
}

/// NetBSD 7 and later, sys/socket.h; the libc crate has the flags but not the functions.
#[cfg(mmsg_extern)]
mod calls {
    use libc::{c_int, c_uint, msghdr, timespec};

    #[repr(C)]
    pub(in super::super) struct Header {
        pub(in super::super) msg_hdr: msghdr,
        pub(in super::super) msg_len: c_uint,
    }

    unsafe extern "C" {
        pub(super) fn recvmmsg(
            s: c_int,
            mmsg: *mut Header,
            vlen: c_uint,
            flags: c_uint,
            timeout: *mut timespec,
        ) -> c_int;
        pub(super) fn sendmmsg(s: c_int, mmsg: *mut Header, vlen: c_uint, flags: c_uint) -> c_int;
    }
}

pub(super) use calls::Header;

/// Receives up to as many messages as there are headers, at least one.
///
/// `flags` decide about waiting; the timeout argument is never used: the kernel looks at it only
/// after a datagram arrived (recvmmsg(2), BUGS).
pub(super) fn recvmmsg(
    socket: BorrowedFd<'_>,
    wired: &mut RecvHeaders<'_>,
    flags: c_int,
) -> io::Result<usize> {
    let (headers, mut fds) = wired.as_mut();
    let received = retry(|| {
        let len = headers.len();
        #[cfg(test)]
        let len = fault::next(Call::RecvMmsg, len)?;
        // SAFETY: the invariant of RecvHeaders; `len` is at most their number.
        let n = unsafe {
            calls::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                len as _,
                flags as _,
                ptr::null_mut(),
            )
        };
        count(n as isize)
    })?;
    for (i, header) in headers[..received].iter().enumerate() {
        // SAFETY: the call has just filled it.
        unsafe { fds::own(header, i, fds.as_deref_mut()) };
    }
    Ok(received)
}

/// Sends messages from the first on, at least one.
pub(super) fn sendmmsg(
    socket: BorrowedFd<'_>,
    wired: &mut SendHeaders<'_>,
    flags: c_int,
) -> io::Result<usize> {
    let headers = wired.as_mut();
    retry(|| {
        let len = headers.len();
        #[cfg(test)]
        let len = fault::next(Call::SendMmsg, len)?;
        // SAFETY: the invariant of SendHeaders; `len` is at most their number.
        let n = unsafe {
            calls::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), len as _, flags as _)
        };
        count(n as isize)
    })
}

/// Whether the process may make the calls at all, asked without a message: a firewall that
/// refuses datagrams has no say in the answer, a sandbox has.
pub(super) fn permitted(socket: BorrowedFd<'_>) -> bool {
    #[cfg(test)]
    if fault::next(Call::Permitted, 1).is_err() {
        return false;
    }
    let (fd, none): (c_int, *mut Header) = (socket.as_raw_fd(), ptr::null_mut());
    let no_headers: c_uint = 0;
    // With the error queue asked for, Linux leaves the socket's pending error where it is
    // (do_recvmmsg in net/socket.c).
    #[cfg(linux_like)]
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    #[cfg(not(linux_like))]
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: no headers, so no pointer is followed.
    let sent = count(unsafe { calls::sendmmsg(fd, none, no_headers as _, 0) } as isize);
    // SAFETY: as above.
    let received =
        count(unsafe { calls::recvmmsg(fd, none, no_headers as _, flags as _, ptr::null_mut()) }
            as isize);
    // Any other error comes from within the call, which so was let through: Linux 6.1 says EBADF
    // of no headers and the error queue.
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

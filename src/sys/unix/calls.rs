//! The system calls of both backends: many messages in one call, or one.
//!
//! Calls the C library's functions, since some sandboxes (Android's) end a process that makes system calls by number.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
#[cfg(mmsg_calls)]
use std::sync::atomic::{AtomicI32, Ordering};
#[cfg(mmsg_calls)]
use std::{mem, ptr};

#[cfg(mmsg_calls)]
use libc::c_int;

use super::fds;
use super::header::Header;
#[cfg(mmsg_calls)]
use super::header::Raw;
#[cfg(any(target_vendor = "apple", test, fuzzing))]
use super::send_space;
#[cfg(any(test, fuzzing))]
use crate::sys::fault::{self, Call};
use crate::sys::flags::Flags;
use crate::sys::headers::{PreparedRecvs, PreparedSends};
#[cfg(mmsg_calls)]
use crate::sys::message::Received;
#[cfg(any(test, fuzzing))]
use crate::sys::numbers;

/// Child processes must not inherit received descriptors.
#[cfg(not(target_vendor = "apple"))]
const RECV: libc::c_int = libc::MSG_CMSG_CLOEXEC;
#[cfg(target_vendor = "apple")]
const RECV: libc::c_int = 0;
/// Without this flag a send may end the process by SIGPIPE instead of returning EPIPE.
const SEND: libc::c_int = libc::MSG_NOSIGNAL;

/// The flag by which `recvmmsg` waits for its first message only; `MSG_DONTWAIT` on a kernel without it (gVisor).
#[cfg(mmsg_calls)]
static WAIT: AtomicI32 = AtomicI32::new(libc::MSG_WAITFORONE);

/// Receives into the headers, at least one. Waits for the first message only, or not at all if [`never_waits`].
///
/// The timeout argument is useless: the kernel checks it only after a datagram has arrived (recvmmsg(2), BUGS).
#[cfg(mmsg_calls)]
#[inline(always)]
pub(in crate::sys) fn recvmmsg(
    socket: BorrowedFd<'_>,
    prepared: &mut PreparedRecvs<'_>,
    flags: Flags,
) -> io::Result<Received> {
    let len = prepared.as_slice().len();
    #[cfg(any(test, fuzzing))]
    let len = fault::next(Call::RecvMmsg, len)?;
    let wait = WAIT.load(Ordering::Relaxed);
    let flags = flags.0 | RECV | wait;
    let headers = prepared.as_mut_ptr().cast::<Raw>();
    // SAFETY: the headers meet the invariant of PreparedRecvs, and there are at least `len`.
    let n = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), headers, len as _, flags as _, ptr::null_mut())
    };
    let count = counted(n as isize)?;
    // SAFETY: the kernel wrote to those that it filled, and maybe to the one at which it met an error.
    unsafe { prepared.set_touched(count + 1) };
    close_descriptors(&prepared.as_slice()[..count]);
    // Linux keeps an error that ends the call; gVisor and FreeBSD's C library lose it.
    let keeps_error = cfg!(linux_like) && wait == libc::MSG_WAITFORONE;
    Ok(Received { count, drained: keeps_error && count < len })
}

/// Whether the system's `recvmmsg` waits for no message: it found none if it fails with `WouldBlock`.
#[cfg(mmsg_calls)]
#[cold]
pub(in crate::sys) fn never_waits() -> bool {
    WAIT.load(Ordering::Relaxed) == libc::MSG_DONTWAIT
}

/// Whether `recvmmsg` failed because the kernel does not know `MSG_WAITFORONE`. If so, the process no longer uses that.
///
/// gVisor rejects the flag before it looks at the descriptor (`RecvMMsg` in pkg/sentry/syscalls/linux/sys_socket.go).
#[cfg(mmsg_calls)]
#[cold]
pub(in crate::sys) fn wait_flag_is_missing(error: &io::Error) -> bool {
    let is_invalid = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    // Asked again for each such error, since another thread may have met the first.
    let missing = is_invalid(error)
        && recvmmsg_without_socket(libc::MSG_WAITFORONE).is_err_and(|error| is_invalid(&error));
    if missing {
        WAIT.store(libc::MSG_DONTWAIT, Ordering::Relaxed);
    }
    missing
}

/// Receives one message into header `i`.
#[inline(always)]
pub(in crate::sys) fn recv_one(
    socket: BorrowedFd<'_>,
    prepared: &mut PreparedRecvs<'_>,
    i: usize,
    flags: Flags,
) -> io::Result<()> {
    #[cfg(any(test, fuzzing))]
    fault::next(Call::RecvMsg, 1)?;
    assert!(i < prepared.as_slice().len());
    // SAFETY: the header is one of PreparedRecvs, meets its invariant, and nobody else uses it. Calls fill headers in order.
    let len = unsafe {
        prepared.set_touched(i + 1);
        let header = &mut (*prepared.as_mut_ptr().add(i)).0;
        let len = libc::recvmsg(socket.as_raw_fd(), &mut header.msg_hdr, flags.0 | RECV);
        header.msg_len = len.max(0) as _;
        len
    };
    counted(len)?;
    close_descriptors(&prepared.as_slice()[i..=i]);
    Ok(())
}

/// Closes the descriptors that came with messages just received.
#[inline(always)]
fn close_descriptors(received: &[Header]) {
    for header in received.iter().filter(|header| header.control().1 > 0) {
        // SAFETY: a call has just filled the header, which meets the invariant of PreparedRecvs.
        unsafe { fds::close(header) };
    }
}

/// Sends the headers, at least one, in order.
#[cfg(mmsg_calls)]
#[inline(always)]
pub(in crate::sys) fn sendmmsg(
    socket: BorrowedFd<'_>,
    prepared: &mut PreparedSends<'_>,
    flags: Flags,
) -> io::Result<usize> {
    let len = prepared.as_slice().len();
    #[cfg(any(test, fuzzing))]
    let len = fault::next(Call::SendMmsg, len)?;
    #[cfg(test)]
    let len = judge::passed(&prepared.as_slice()[..len])?;
    let (headers, flags) = (prepared.as_mut_ptr().cast::<Raw>(), flags.0 | SEND);
    // SAFETY: the headers meet the invariant of PreparedSends, and there are at least `len`.
    counted(unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, len as _, flags as _) } as isize)
}

/// Sends the message of header `i`.
#[inline(always)]
pub(in crate::sys) fn send_one(
    socket: BorrowedFd<'_>,
    prepared: &mut PreparedSends<'_>,
    i: usize,
    flags: Flags,
) -> io::Result<()> {
    #[cfg(any(target_vendor = "apple", test, fuzzing))]
    return send_space::send(socket, prepared, i, |header| send_header(socket, header, flags));
    #[cfg(not(any(target_vendor = "apple", test, fuzzing)))]
    send_header(socket, &prepared.as_slice()[i], flags)
}

/// Sends the message of a header in [`PreparedSends`]. A message of one buffer without control data goes by `sendto`, for which
/// the kernel reads no header.
#[inline(always)]
fn send_header(socket: BorrowedFd<'_>, header: &Header, flags: Flags) -> io::Result<()> {
    #[cfg(any(test, fuzzing))]
    fault::next(if numbers::MSG_PROBE == Some(flags.0) { Call::Probe } else { Call::SendMsg }, 1)?;
    #[cfg(test)]
    judge::passed(std::slice::from_ref(header))?;
    let (fd, flags, hdr) = (socket.as_raw_fd(), flags.0 | SEND, &header.0.msg_hdr);
    let len = if hdr.msg_iovlen != 1 || hdr.msg_controllen != 0 {
        // SAFETY: the header meets the invariant of PreparedSends.
        unsafe { libc::sendmsg(fd, hdr, flags) }
    } else {
        let (name, name_len) = (hdr.msg_name.cast_const().cast(), hdr.msg_namelen);
        // SAFETY: the header meets the invariant of PreparedSends, and points at one iovec.
        unsafe {
            let buffer = &*hdr.msg_iov;
            libc::sendto(fd, buffer.iov_base, buffer.iov_len, flags, name, name_len)
        }
    };
    counted(len).map(drop)
}

/// The result of a call that returns a negative number for an error.
#[inline(always)]
fn counted(n: isize) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Whether this error of a multi-message call means that the process cannot make such calls.
#[cfg(mmsg_calls)]
#[cold]
pub(in crate::sys) fn mmsg_is_missing(error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => true,
        // A sandbox forbids the call, or a firewall rejects one datagram.
        Some(libc::EPERM) => !mmsg_is_permitted(),
        _ => false,
    }
}

/// Whether the process may make the multi-message calls. The test calls use an invalid descriptor: a sandbox rejects them,
/// and a firewall never sees them.
#[cfg(mmsg_calls)]
fn mmsg_is_permitted() -> bool {
    #[cfg(any(test, fuzzing))]
    if fault::next(Call::Permitted, 1).is_err() {
        return false;
    }
    // SAFETY: zero is a valid value of a C struct of raw pointers, lengths and flags.
    let mut header: Raw = unsafe { mem::zeroed() };
    // SAFETY: one header without address, buffers and control data.
    let sent = counted(unsafe { libc::sendmmsg(INVALID_FD, &mut header, 1, 0) } as isize);
    // A permitted call fails with EBADF.
    let forbidden = [libc::EPERM, libc::ENOSYS];
    ![sent, recvmmsg_without_socket(0)].into_iter().any(|answer| {
        answer.is_err_and(|error| {
            error.raw_os_error().is_some_and(|errno| forbidden.contains(&errno))
        })
    })
}

#[cfg(mmsg_calls)]
const INVALID_FD: c_int = -1;

/// What `recvmmsg` answers before it looks for a socket.
#[cfg(mmsg_calls)]
fn recvmmsg_without_socket(flags: c_int) -> io::Result<usize> {
    // SAFETY: zero is a valid value of a C struct of raw pointers, lengths and flags.
    let mut header: Raw = unsafe { mem::zeroed() };
    let none = ptr::null_mut();
    // SAFETY: one header without address, buffers and control data.
    counted(unsafe { libc::recvmmsg(INVALID_FD, &mut header, 1, flags as _, none) } as isize)
}

/// Shows a test what is sent.
#[cfg(test)]
mod judge {
    use super::*;

    /// How many of the headers the test lets pass; the error of the first, if it fails that.
    pub(super) fn passed(headers: &[Header]) -> io::Result<usize> {
        for (i, header) in headers.iter().enumerate() {
            let bytes = |(start, len): (*const u8, usize)| match len {
                0 => &[][..],
                // SAFETY: by the invariant of PreparedSends, name and control data are readable.
                _ => unsafe { std::slice::from_raw_parts(start, len) },
            };
            let dest = crate::sys::decode_addr(bytes(header.name()));
            match fault::judged(dest, bytes(header.control())) {
                Some(errno) if i == 0 => return Err(io::Error::from_raw_os_error(errno)),
                Some(_) => return Ok(i),
                None => {}
            }
        }
        Ok(headers.len())
    }
}

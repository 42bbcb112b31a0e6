//! `recvmsg` and `sendmsg` (or `sendto`): one message a system call.

#![allow(unsafe_code)]
// The lengths in C's structs are wider here and narrower there.
#![allow(clippy::unnecessary_cast)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::slice;

use libc::c_int;

use super::fds;
use super::header::Buffer;
use super::send_space;
#[cfg(any(test, fuzzing))]
use crate::sys::fault::{self, Call};
use crate::sys::headers::{WiredRecvs, WiredSends, one_by_one};

/// Receives message by message until one is not there; only the first is waited for.
pub(super) fn recv(
    socket: BorrowedFd<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: c_int,
) -> io::Result<usize> {
    one_by_one(wired.len(), |i| {
        let flags = if i == 0 { flags } else { flags | libc::MSG_DONTWAIT };
        recv_one(socket, wired, i, flags)
    })
}

/// Sends message by message until one is rejected.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    wired: &mut WiredSends<'_>,
    flags: c_int,
) -> io::Result<usize> {
    one_by_one(wired.len(), |i| send_one(socket, wired, i, flags))
}

/// Receives one message into header `i`.
#[inline(always)]
fn recv_one(
    socket: BorrowedFd<'_>,
    wired: &mut WiredRecvs<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    #[cfg(any(test, fuzzing))]
    fault::next(Call::RecvMsg, 1)?;
    let header = &mut wired.as_mut()[i].0;
    // SAFETY: the invariant of WiredRecvs.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header.msg_hdr, flags) };
    header.msg_len = usize::try_from(len).map_err(|_| io::Error::last_os_error())? as _;
    // SAFETY: the call has just filled it.
    unsafe { fds::close(slice::from_ref(&wired.as_mut()[i])) };
    Ok(())
}

/// Sends the message of header `i`: by `sendto` if it is one buffer and nothing else, for which the kernel has less to
/// fetch.
#[inline(always)]
fn send_one(
    socket: BorrowedFd<'_>,
    wired: &mut WiredSends<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    let control_len = wired.as_mut()[i].control().1;
    let needed = send_space::needed(control_len, || wired.buffers(i).iter().map(Buffer::len).sum());
    send_space::check(socket, needed)?;
    #[cfg(any(test, fuzzing))]
    fault::next(Call::SendMsg, 1).map_err(|error| send_space::explain(socket, needed, error))?;
    let fd = socket.as_raw_fd();
    let hdr = &wired.as_mut()[i].0.msg_hdr;
    let len = if hdr.msg_iovlen != 1 || hdr.msg_controllen != 0 {
        // SAFETY: the invariant of WiredSends.
        unsafe { libc::sendmsg(fd, hdr, flags) }
    } else {
        let (name, name_len) = (hdr.msg_name.cast_const().cast(), hdr.msg_namelen);
        // SAFETY: the invariant of WiredSends; the header points at one iovec.
        unsafe {
            let buffer = &*hdr.msg_iov;
            libc::sendto(fd, buffer.iov_base, buffer.iov_len, flags, name, name_len)
        }
    };
    if len >= 0 {
        return Ok(());
    }
    Err(send_space::explain(socket, needed, io::Error::last_os_error()))
}

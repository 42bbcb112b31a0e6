//! `recvmsg` and `sendmsg` (or `sendto`): one message a system call.

#![allow(unsafe_code)]
// The lengths in C's structs are wider here and narrower there.
#![allow(clippy::unnecessary_cast)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{ptr, slice};

use libc::c_int;

use super::fds;
use super::icmp::send_stopped;
use super::retry::{self, Repeat, Tried, retry, retry_unrelated_icmp_error};
use super::send_space;
use super::tos;
#[cfg(any(test, fuzzing))]
use crate::sys::fault::{self, Call};
use crate::sys::headers::{WiredRecvs, WiredSends};
use crate::sys::layout::Control;
use crate::sys::{CONTROL_SPACE, CallResult, Direction};

/// Receives message by message until one is not there; only the first is waited for.
pub(super) fn recv(socket: BorrowedFd<'_>, wired: &mut WiredRecvs<'_>, flags: c_int) -> CallResult {
    let mut wait = flags;
    for i in 0..wired.len() {
        if let Err(error) = recv_one(socket, wired, i, wait) {
            return CallResult::stopped(i, error).after(i + 1);
        }
        wait = flags | libc::MSG_DONTWAIT;
    }
    CallResult::moved(wired.len()).after(wired.len())
}

/// Sends message by message until one is rejected.
#[inline]
pub(super) fn send(socket: BorrowedFd<'_>, wired: &mut WiredSends<'_>, flags: c_int) -> CallResult {
    send_range(socket, wired, 0..wired.len(), Tried::No, flags)
}

/// Sends the only message.
#[inline(always)]
pub(super) fn send_only(
    socket: BorrowedFd<'_>,
    wired: &WiredSends<'_>,
    flags: c_int,
) -> CallResult {
    match send_one(socket, wired, 0, flags) {
        Ok(()) => CallResult::moved(1),
        Err(error) => send_only_again(socket, wired, error, flags),
    }
}

/// Sends the only message again if its first error is about another datagram.
#[cold]
fn send_only_again(
    socket: BorrowedFd<'_>,
    wired: &WiredSends<'_>,
    error: io::Error,
    flags: c_int,
) -> CallResult {
    let has_dest = wired.has_dest(0);
    let mut first = Some(error);
    let send = || match first.take() {
        Some(error) => Err(error),
        None => send_one(socket, wired, 0, flags),
    };
    match retry_unrelated_icmp_error(socket, has_dest, Tried::No, send) {
        Ok(()) => CallResult::moved(1),
        Err(error) => send_stopped(socket, has_dest, 0, error),
    }
}

/// Sends the messages that a multi-message call left, of which it tried the first.
///
/// Does not wait for that one: the call may have waited for it as long as the socket's timeout allows.
#[cfg(mmsg_calls)]
pub(super) fn send_rest(
    socket: BorrowedFd<'_>,
    wired: &mut WiredSends<'_>,
    first: usize,
    flags: c_int,
) -> CallResult {
    let result = send_range(socket, wired, first..wired.len(), Tried::Once, flags);
    let calls = result.calls + 1;
    result.after(calls)
}

/// Sends the messages of `range` until one is rejected; `tried` says whether the kernel had the first of
/// them before. The result counts from message 0 on.
#[inline]
pub(super) fn send_range(
    socket: BorrowedFd<'_>,
    wired: &mut WiredSends<'_>,
    range: Range<usize>,
    mut tried: Tried,
    flags: c_int,
) -> CallResult {
    let (first, end) = (range.start, range.end);
    for i in range {
        let wait = if tried == Tried::Once { libc::MSG_DONTWAIT } else { 0 };
        let has_dest = wired.has_dest(i);
        let send = || send_one(socket, wired, i, flags | wait);
        if let Err(error) = retry_unrelated_icmp_error(socket, has_dest, tried, send) {
            return send_stopped(socket, has_dest, i, error).after(i + 1 - first);
        }
        tried = Tried::No;
    }
    CallResult::moved(end).after(end - first)
}

/// Receives one message into header `i`.
#[inline(always)]
pub(super) fn recv_one(
    socket: BorrowedFd<'_>,
    wired: &mut WiredRecvs<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    let (headers, fds) = wired.as_mut();
    let header = &mut headers[i];
    let len = retry(socket, Direction::Receive, flags, |flags| {
        #[cfg(any(test, fuzzing))]
        fault::next(Call::RecvMsg, 1)?;
        // SAFETY: the invariant of WiredRecvs.
        let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header.0.msg_hdr, flags) };
        usize::try_from(len).map_err(|_| io::Error::last_os_error())
    })?;
    header.0.msg_len = len as _;
    // SAFETY: the call has just filled it.
    unsafe { fds::own(slice::from_ref(header), i, fds) };
    Ok(())
}

/// Sends one message of one buffer, to the address in `name` if that is not empty.
#[inline]
pub(super) fn send_plain(
    socket: BorrowedFd<'_>,
    name: &[u8],
    data: &[u8],
    flags: c_int,
) -> io::Result<()> {
    // Some systems check the pointer alone.
    let start = if name.is_empty() { ptr::null() } else { name.as_ptr() };
    retry(socket, Direction::Send, flags, |flags| {
        #[cfg(any(test, fuzzing))]
        fault::next(Call::SendMsg, 1)?;
        let (fd, data_start) = (socket.as_raw_fd(), data.as_ptr().cast());
        // SAFETY: two slices, each with its length; an empty name is null.
        let len = unsafe {
            libc::sendto(fd, data_start, data.len(), flags, start.cast(), name.len() as _)
        };
        if len < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    })
}

#[inline(always)]
fn send_one(
    socket: BorrowedFd<'_>,
    wired: &WiredSends<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    if is_without_tos(socket, wired, i) {
        return send_without_tos(socket, wired, i, flags);
    }
    let hdr = &wired.get(i).header().0.msg_hdr;
    let needed = send_space::needed(hdr.msg_controllen as usize, || {
        wired.get(i).payload().map(<[u8]>::len).sum()
    });
    send_space::check(socket, needed)?;
    // SAFETY: the invariant of WiredSends.
    match unsafe { send_header(socket, hdr, flags) } {
        Err(error) if may_go_without_tos(&error, wired, i) => {
            send_without_tos(socket, wired, i, flags)?;
            tos::note(socket);
            Ok(())
        }
        result => result.map_err(|error| send_space::explain(socket, needed, error)),
    }
}

/// Whether header `i` is to be sent without its TOS, because the socket's kernel has rejected one.
#[inline]
pub(super) fn is_without_tos(socket: BorrowedFd<'_>, wired: &WiredSends<'_>, i: usize) -> bool {
    let control = wired.get(i).control();
    !control.is_empty() && tos::rejects_tos(socket) && tos::has_tos(control)
}

/// Whether header `i` may have met this error for its TOS.
#[cold]
pub(super) fn may_go_without_tos(error: &io::Error, wired: &WiredSends<'_>, i: usize) -> bool {
    tos::may_be_about_tos(error) && tos::has_tos(wired.get(i).control())
}

/// Sends header `i` without its TOS. If it fails, the error is not about the TOS.
#[cold]
fn send_without_tos(
    socket: BorrowedFd<'_>,
    wired: &WiredSends<'_>,
    i: usize,
    flags: c_int,
) -> io::Result<()> {
    let mut space = Control([0; CONTROL_SPACE]);
    let mut hdr = wired.get(i).header().0.msg_hdr;
    let Some(len) = tos::copy_without_tos(wired.get(i).control(), &mut space.0) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    // Some systems check the pointer alone.
    hdr.msg_control = if len == 0 { ptr::null_mut() } else { ptr::from_mut(&mut space).cast() };
    hdr.msg_controllen = len as _;
    // SAFETY: the invariant of WiredSends for the address and the buffers; the control data is `len`
    // bytes of `space`, which outlives the call.
    unsafe { send_header(socket, &hdr, flags) }
}

/// Sends one message, and again after a signal.
///
/// # Safety
///
/// The invariant of [`WiredSends`].
#[inline(always)]
unsafe fn send_header(socket: BorrowedFd<'_>, hdr: &libc::msghdr, flags: c_int) -> io::Result<()> {
    // Not by `retry`, whose closure the compiler does not inline here. The processor mispredicts the return from a function
    // that has made a system call, which takes 7 ns.
    let start = retry::start(flags);
    // SAFETY: the caller's.
    let first = unsafe { try_header(socket, hdr, flags) };
    // SAFETY: the caller's.
    let call = |flags| unsafe { try_header(socket, hdr, flags) };
    Repeat { socket, direction: Direction::Send, flags, call }.after(first, start)
}

/// Tries to send one message: if it is one buffer and nothing else by `sendto`, for which the kernel has less to fetch.
///
/// # Safety
///
/// The invariant of [`WiredSends`].
#[inline(always)]
unsafe fn try_header(socket: BorrowedFd<'_>, hdr: &libc::msghdr, flags: c_int) -> io::Result<()> {
    #[cfg(any(test, fuzzing))]
    fault::next(Call::SendMsg, 1)?;
    let fd = socket.as_raw_fd();
    let len = if hdr.msg_iovlen != 1 || hdr.msg_controllen != 0 {
        // SAFETY: the caller's.
        unsafe { libc::sendmsg(fd, hdr, flags) }
    } else {
        let (name, name_len) = (hdr.msg_name.cast_const().cast(), hdr.msg_namelen);
        // SAFETY: the caller's; the header points at one iovec.
        unsafe {
            let buffer = &*hdr.msg_iov;
            libc::sendto(fd, buffer.iov_base, buffer.iov_len, flags, name, name_len)
        }
    };
    if len < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

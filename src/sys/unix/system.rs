//! Clocks, the kernel's release, and a socket's events.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io::{self, ErrorKind::Interrupted, ErrorKind::WouldBlock};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use libc::{c_int, c_short};
use socket2::SockRef;

use crate::sys::flags::Flags;

/// Reads a clock: the time since its epoch.
pub(crate) fn clock_time(clock: i32) -> io::Result<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is memory for one timespec, which the call writes.
    if unsafe { libc::clock_gettime(clock as _, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has written the timespec.
    let time = unsafe { time.assume_init() };
    // Clocks count up from their epoch, so the time is not negative. Nanoseconds are less than 10^9.
    Ok(Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32))
}

/// The release of the running kernel, as `uname -r` prints it.
#[cold]
pub(crate) fn kernel_release() -> Option<String> {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the pointer is to writable memory of the struct's size.
    if unsafe { libc::uname(names.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: any bytes are a valid value of a C struct of character arrays.
    let names = unsafe { names.assume_init() };
    // SAFETY: the array is not changed while it is borrowed, and `uname` ends the text with a zero byte (uname(2)).
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) };
    release.to_str().ok().map(str::to_owned)
}

/// Whether the socket has a pending error, or a report in its error queue. Does not wait.
#[cfg(feature = "tokio")]
pub(crate) fn has_error(socket: BorrowedFd<'_>) -> bool {
    poll(socket, 0, 0).is_ok_and(|ready| ready & libc::POLLERR != 0)
}

/// Whether the system considers the socket writable. Does not wait.
#[cfg(feature = "tokio")]
pub(crate) fn has_space(socket: BorrowedFd<'_>) -> bool {
    poll(socket, libc::POLLOUT, 0).is_ok_and(|ready| ready & libc::POLLOUT != 0)
}

/// Whether the kernel is not Linux. Others may refuse a send of a socket that stays writable, so that no event follows: OpenBSD
/// while another thread sends (`sblock` in sys/kern/uipc_socket2.c), macOS for a content filter.
#[inline]
pub(crate) fn is_other_unix() -> bool {
    #[cfg(test)]
    if crate::sys::fault::is_other_unix() {
        return true;
    }
    cfg!(not(linux_like))
}

/// Waits until the socket is readable, a signal comes or `timeout` passes, rounded up to milliseconds. Returns false if the
/// socket was shut down for receiving. `again`: it was readable, and a receive found nothing.
pub(crate) fn wait_readable(socket: BorrowedFd<'_>, timeout: Duration, again: bool) -> bool {
    #[cfg(linux_like)]
    const SHUT_DOWN: c_short = libc::POLLRDHUP | libc::POLLHUP;
    #[cfg(not(linux_like))]
    const SHUT_DOWN: c_short = libc::POLLHUP;
    let millis = timeout.as_nanos().div_ceil(1_000_000).min(c_int::MAX as u128) as c_int;
    match poll(socket, libc::POLLIN | SHUT_DOWN, millis) {
        Ok(ready) if ready & SHUT_DOWN != 0 => return false,
        Ok(ready) if ready & libc::POLLIN != 0 && !again || ready == 0 => {}
        Err(error) if error.kind() == Interrupted => {}
        // Reports wait in the error queue, or the socket was shut down on gVisor. `poll` cannot ignore these, and would
        // return at once each time.
        _ => thread::sleep(timeout.min(Duration::from_millis(1))),
    }
    true
}

/// Waits for a message as a receive would, by one that takes nothing. Without buffer space the receives of other kernels than
/// Linux return at once, as after a shutdown (`uio_resid` in `soreceive_dgram` in FreeBSD's sys/kern/uipc_socket.c).
///
/// # Errors
///
/// Those of a wait. An error of the socket ends it, and stays.
#[cold]
pub(crate) fn wait_for_message(socket: BorrowedFd<'_>, flags: Flags) -> io::Result<()> {
    let (mut byte, flags) = ([MaybeUninit::uninit()], flags.0 | libc::MSG_PEEK);
    match SockRef::from(&socket).recv_with_flags(&mut byte, flags) {
        Err(error) if [WouldBlock, Interrupted].contains(&error.kind()) => Err(error),
        _ => Ok(()),
    }
}

/// Waits for events, at most `millis`, and returns them.
fn poll(socket: BorrowedFd<'_>, events: c_short, millis: c_int) -> io::Result<c_short> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    // SAFETY: `poll` is one writable pollfd.
    match unsafe { libc::poll(&mut poll, 1, millis) } {
        0.. => Ok(poll.revents),
        _ => Err(io::Error::last_os_error()),
    }
}

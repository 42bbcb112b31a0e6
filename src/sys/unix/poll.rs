//! The call `poll`.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{c_int, c_short};

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

//! The call `poll`, and a clock that is cheap to read.

#![allow(unsafe_code)]

use std::io;
use std::mem;
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

/// The most that [`coarse_now`] lags behind: a tick of a kernel with 100 in a second.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The time since some moment, by a clock whose reading costs a quarter of `Instant::now`.
#[inline]
pub(super) fn coarse_now() -> Duration {
    #[cfg(linux_like)]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
    #[cfg(not(linux_like))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    // SAFETY: a C struct of numbers: zero is a value of it.
    let mut now: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: it writes a timespec.
    unsafe { libc::clock_gettime(CLOCK, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

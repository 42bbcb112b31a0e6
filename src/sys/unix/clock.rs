//! The call `clock_gettime`.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// What a clock shows.
pub(crate) fn clock_time(clock: i32) -> io::Result<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is memory for one timespec, which the call writes.
    if unsafe { libc::clock_gettime(clock as _, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has written the timespec.
    let time = unsafe { time.assume_init() };
    // No clock that counts from its epoch is negative; nanoseconds are less than 10^9.
    Ok(Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32))
}

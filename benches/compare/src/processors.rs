//! A process's time on the processors.

use std::time::Duration;

/// What all threads of a process have had so far, in user space and in the kernel.
pub fn time_of(pid: u32) -> Duration {
    let mut clock = 0;
    // SAFETY: the call writes one clock's number.
    let status = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    assert_eq!(status, 0, "the process is there");
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(status, 0, "the process is there");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

//! CPU time, user and kernel.

use std::time::Duration;

/// The CPU time of this thread. The measured loops never wait.
pub struct Clock(Duration);

impl Clock {
    pub fn start() -> Self {
        Self(now(libc::CLOCK_THREAD_CPUTIME_ID))
    }

    pub fn elapsed(&self) -> Duration {
        now(libc::CLOCK_THREAD_CPUTIME_ID) - self.0
    }
}

/// The CPU time of all threads of a process so far.
pub fn of_process(pid: u32) -> Duration {
    let mut clock = 0;
    // SAFETY: the call writes one clock's number.
    let status = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    assert_eq!(status, 0, "the process exists");
    now(clock)
}

fn now(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(status, 0, "the clock exists");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

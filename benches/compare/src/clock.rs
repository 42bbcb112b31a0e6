//! A clock that runs while this thread does.
//!
//! The loops that are measured wait for nothing, so what they take is what they take of a processor;
//! time in which somebody else had it is none of theirs.

use std::time::Duration;

pub struct Clock {
    begin: Duration,
}

impl Clock {
    pub fn start() -> Self {
        Self { begin: now() }
    }

    pub fn elapsed(&self) -> Duration {
        now() - self.begin
    }
}

/// The thread's time on a processor, in user space and in the kernel.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "every Linux has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

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
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// What all threads of a process have had of the processors so far, also of another process.
#[allow(dead_code)] // Not every benchmark has another process.
pub fn of_process(pid: u32) -> Duration {
    let mut clock = 0;
    // SAFETY: the call writes one clock's number.
    let status = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    assert_eq!(status, 0, "the process is there");
    read(clock)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(status, 0, "every Linux has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

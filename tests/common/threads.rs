//! Blocking calls in threads of their own.

#[cfg(unix)]
use std::os::unix::thread::{JoinHandleExt, RawPthread};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use super::TIME_LIMIT;

/// A call in a thread of its own.
pub struct Call<R> {
    thread: JoinHandle<()>,
    result: Receiver<R>,
}

impl<R: Send + 'static> Call<R> {
    /// Makes the call and returns once its thread sleeps, where the system shows that: the test then acts on the
    /// socket during the call. (Elsewhere it may act before the call, with the same results.)
    pub fn blocked(call: impl FnOnce() -> R + Send + 'static) -> Self {
        let (send_id, id) = mpsc::channel();
        let (send_result, result) = mpsc::channel();
        let thread = thread::spawn(move || {
            let _ = send_id.send(thread_id());
            let _ = send_result.send(call());
        });
        let id = id.recv().expect("the thread begins with it");
        wait_until_asleep(id, &thread);
        Self { thread, result }
    }

    /// The call's result; fails the test after [`TIME_LIMIT`](super::TIME_LIMIT).
    #[track_caller]
    pub fn result(self) -> R {
        match self.result.recv_timeout(TIME_LIMIT) {
            Ok(result) => result,
            Err(error) => panic!("the blocked call did not return: {error}"),
        }
    }

    /// Whether the call has returned.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// To send the thread a signal.
    #[cfg(unix)]
    pub fn pthread(&self) -> RawPthread {
        self.thread.as_pthread_t()
    }
}

#[cfg(target_os = "linux")]
fn thread_id() -> i32 {
    // SAFETY: it takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

#[cfg(target_os = "linux")]
fn wait_until_asleep(id: i32, thread: &JoinHandle<()>) {
    let stat = format!("/proc/self/task/{id}/stat");
    let end = std::time::Instant::now() + TIME_LIMIT;
    while !thread.is_finished() && std::time::Instant::now() < end {
        let Ok(line) = std::fs::read_to_string(&stat) else { return };
        // The state follows the name, which is in parentheses (proc_pid_stat(5)).
        if line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
            return;
        }
        thread::yield_now();
    }
}

#[cfg(not(target_os = "linux"))]
fn thread_id() -> i32 {
    0
}

#[cfg(not(target_os = "linux"))]
fn wait_until_asleep(_: i32, _: &JoinHandle<()>) {}

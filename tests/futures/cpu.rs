//! CPU time of threads, which other processes on the machine do not change.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::common::linux::time;
use crate::common::{TIME_LIMIT, choose_backend, is_emulated};

/// How long to watch a future that should sleep.
const WATCHED: Duration = Duration::from_millis(500);
/// Worker threads of the runtimes to test on. With 0, the test's own thread does the work.
pub const RUNTIMES: [usize; 2] = [0, 2];
/// Runs a test on a runtime with this number of workers, within the time limit.
pub fn run(workers: usize, test: impl AsyncFnOnce(&Clocks)) {
    choose_backend();
    let (runtime, clocks) = Clocks::of_runtime(workers);
    let limited = async { tokio::time::timeout(TIME_LIMIT, test(&clocks)).await.expect("it ends") };
    runtime.block_on(limited);
}

/// The CPU clocks of a runtime's threads.
#[derive(Clone, Default)]
pub struct Clocks(Arc<Mutex<Vec<libc::clockid_t>>>);

impl Clocks {
    /// A runtime and its threads' clocks. Without workers it runs on the thread that calls `block_on`, which must be
    /// this one.
    pub fn of_runtime(workers: usize) -> (Runtime, Self) {
        let clocks = Self::default();
        clocks.add_this_thread();
        let mut builder = match workers {
            0 => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        let on_start = clocks.clone();
        builder.worker_threads(workers.max(1)).on_thread_start(move || on_start.add_this_thread());
        (builder.enable_all().build().expect("a runtime"), clocks)
    }

    fn add_this_thread(&self) {
        let mut clock = 0;
        // SAFETY: this thread is alive, and the call writes the clock's number to `clock`.
        let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
        assert_eq!(result, 0, "a thread has a clock");
        self.0.lock().expect("nobody panics").push(clock);
    }

    fn now(&self) -> Duration {
        self.0.lock().expect("nobody panics").iter().map(|clock| time(*clock)).sum()
    }

    /// Checks that the threads sleep: they may use this part of the time, in percent. A busy loop uses all of it, retries on a
    /// timer more on a slower machine. Work before the sleep may spoil the first of several tries. Nothing is checked under
    /// valgrind, where a sleep costs thirty times as much, and in an emulated machine, whose clocks run on while it waits for
    /// a CPU.
    pub async fn assert_asleep(&self, percent: u32) {
        const TRIES: usize = 5;
        if is_emulated() || std::env::var_os("MEMCHECK").is_some() {
            return;
        }
        let mut seen = Vec::new();
        for _ in 0..TRIES {
            let (started, before) = (Instant::now(), self.now());
            tokio::time::sleep(WATCHED).await;
            let (used, elapsed) = (self.now() - before, started.elapsed());
            if used * 100 < elapsed * percent {
                return;
            }
            seen.push((used, elapsed));
        }
        panic!("CPU time and elapsed time of each try: {seen:?}");
    }
}

//! CPU time of threads, which other processes on the machine do not change.

use std::fs;
use std::path::PathBuf;
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

/// The CPU clocks of a runtime's threads, and where the kernel counts their sleeps.
#[derive(Clone, Default)]
pub struct Clocks(Arc<Mutex<Vec<(libc::clockid_t, PathBuf)>>>);

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
        let task = fs::canonicalize("/proc/thread-self/status").expect("proc(5)");
        self.0.lock().expect("nobody panics").push((clock, task));
    }

    /// The threads' CPU time, and how often they have slept.
    fn now(&self) -> (Duration, u32) {
        let sleeps = |task: &PathBuf| {
            let status = fs::read_to_string(task).expect("the thread is alive");
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|number| number.trim().parse::<u32>().ok()).expect("proc_pid_status(5)")
        };
        let threads = self.0.lock().expect("nobody panics");
        let each = threads.iter().map(|(clock, task)| (time(*clock), sleeps(task)));
        each.fold((Duration::ZERO, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Checks that the threads sleep: they use less than 5 % of the time, or 20 ms between two sleeps, for retries on a timer
    /// take more on a slower machine. A busy loop does not sleep. Work before the sleep may spoil the first of several tries.
    /// Nothing is checked under valgrind, where a sleep costs thirty times as much, and in an emulated machine, whose clocks
    /// run on while it waits for a CPU.
    pub async fn assert_asleep(&self) {
        const TRIES: usize = 5;
        if is_emulated() || std::env::var_os("MEMCHECK").is_some() {
            return;
        }
        let mut seen = Vec::new();
        for _ in 0..TRIES {
            let (started, before) = (Instant::now(), self.now());
            tokio::time::sleep(WATCHED).await;
            let (now, elapsed) = (self.now(), started.elapsed());
            let (used, sleeps) = (now.0 - before.0, now.1 - before.1);
            if used * 20 < elapsed || used < Duration::from_millis(20) * sleeps {
                return;
            }
            seen.push((used, sleeps, elapsed));
        }
        panic!("CPU time, sleeps and elapsed time of each try: {seen:?}");
    }
}

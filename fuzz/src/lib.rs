//! Counts the cases of a run: a cheap input stands for several.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static CASES: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    /// Standard C: registers a function for the end of the process, which libFuzzer reaches through `exit`.
    fn atexit(function: extern "C" fn()) -> i32;
}

extern "C" fn print() {
    eprintln!("stat::cases: {}", CASES.load(Relaxed));
}

/// Adds to the count, which is printed when the process ends.
pub fn count(cases: usize) {
    static FIRST: Once = Once::new();
    // SAFETY: the function lives as long as the program.
    FIRST.call_once(|| assert_eq!(unsafe { atexit(print) }, 0));
    CASES.fetch_add(cases as u64, Relaxed);
}

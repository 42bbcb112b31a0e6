//! Counts the cases of a run: an input of the fuzzer stands for several where they cost little.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static CASES: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    /// ISO C: calls `function` when the process ends by `exit`, as libFuzzer does.
    fn atexit(function: extern "C" fn()) -> i32;
}

extern "C" fn print() {
    eprintln!("stat::cases: {}", CASES.load(Relaxed));
}

/// Adds to the cases, which are printed at the end of the process.
pub fn count(cases: usize) {
    static FIRST: Once = Once::new();
    // SAFETY: atexit takes a function that lives as long as the program.
    FIRST.call_once(|| assert_eq!(unsafe { atexit(print) }, 0));
    CASES.fetch_add(cases as u64, Relaxed);
}

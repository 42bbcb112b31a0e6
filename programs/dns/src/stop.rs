//! The word to stop, from a signal or from another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A flag that is raised once. Threads that work look at it between two calls; one that only
/// waits for it is woken.
#[derive(Default)]
pub struct Stop {
    raised: AtomicBool,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Stop {
    /// A flag that SIGINT and SIGTERM raise (on Windows: Ctrl-C and the closing of the window).
    pub fn on_signals() -> Result<Arc<Self>, ctrlc::Error> {
        let stop = Arc::new(Self::default());
        let theirs = Arc::clone(&stop);
        ctrlc::set_handler(move || theirs.raise())?;
        Ok(stop)
    }

    pub fn raise(&self) {
        // Under the lock, so that no thread looks before and falls asleep after.
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.raised.store(true, Ordering::Release);
        self.woken.notify_all();
    }

    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Waits until the flag is raised, at most for `time`, and says whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = self.woken.wait_timeout_while(held, time, |()| !self.is_raised());
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        self.is_raised()
    }
}

/// Raises the flag when dropped: also when the thread that holds it ends by a panic.
pub struct RaiseAtEnd<'a>(pub &'a Stop);

impl Drop for RaiseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

//! When to stop: at a signal, or when a thread ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is raised once. Threads look at it between two calls.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that SIGINT and SIGTERM raise.
    pub fn on_signals() -> Result<Self, ctrlc::Error> {
        let stop = Self::default();
        let signalled = stop.clone();
        ctrlc::set_handler(move || signalled.raise())?;
        Ok(stop)
    }

    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Raises the flag when dropped: also when the thread that holds it ends by a panic.
pub struct RaiseAtEnd<'a>(pub &'a Stop);

impl Drop for RaiseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

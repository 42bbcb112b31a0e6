//! A case and how to run it. Its operations are byte records, so that a fuzzer can make them too.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use proptest::prelude::*;

use super::{Config, Op, Record, TIME_LIMIT, run};

/// A configuration and operations. `Debug` prints their meaning and how to run them again.
#[derive(Clone)]
pub(super) struct Case(pub(super) Record, pub(super) Vec<Record>);

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:?}", Config::decode(self.0))?;
        self.1.iter().try_for_each(|op| writeln!(f, "{:?}", Op::decode(*op)))?;
        write!(f, "run({:?}, &{:?})", self.0, self.1)
    }
}

/// Cases of fewer than `most` operations.
pub(super) fn cases(most: usize) -> impl Strategy<Value = Case> {
    let ops = prop::collection::vec(any::<Record>(), 1..most);
    (any::<Record>(), ops).prop_map(|(config, ops)| Case(config, ops))
}

impl Case {
    /// Runs the case on a thread of its own, so that a hanging call or an endless loop fails.
    pub(super) fn run(self) {
        let (done, result) = mpsc::channel();
        let running = thread::spawn(move || {
            run(self.0, &self.1);
            let _ = done.send(());
        });
        match result.recv_timeout(TIME_LIMIT) {
            Err(RecvTimeoutError::Timeout) => panic!("a call does not end"),
            _ => running.join().unwrap_or_else(|panic| resume_unwind(panic)),
        }
    }
}

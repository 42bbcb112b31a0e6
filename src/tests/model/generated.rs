//! Cases at random, and those of them that found something.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use proptest::prelude::*;

use super::ops::{Config, Op, Record};
use super::run;
use crate::tests::NET;

/// A case that says what it means when it fails.
#[derive(Clone)]
struct Case(Record, Vec<Record>);

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:?}", Config::decode(self.0))?;
        self.1.iter().try_for_each(|op| writeln!(f, "{:?}", Op::decode(*op)))?;
        write!(f, "run({:?}, &{:?})", self.0, self.1)
    }
}

fn case() -> impl Strategy<Value = Case> {
    let ops = prop::collection::vec(any::<Record>(), 1..40);
    (any::<Record>(), ops).prop_map(|(config, ops)| Case(config, ops))
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// Runs a case on a thread of its own, so that a loop without a system call is a failure, too.
fn within_the_net(case: Case) {
    let (done, result) = mpsc::channel();
    let running = thread::spawn(move || {
        run(case.0, &case.1);
        let _ = done.send(());
    });
    match result.recv_timeout(NET) {
        Err(RecvTimeoutError::Timeout) => panic!("a call does not end"),
        _ => running.join().unwrap_or_else(|panic| resume_unwind(panic)),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_message_has_one_outcome_and_every_error_is_heard(case in case()) {
        within_the_net(case);
    }
}

/// What the generator seldom comes upon.
#[test]
fn a_batch_and_then_a_datagram_of_it_meet_different_errors() {
    let config = [0, 0, 43, 4, 0, 0, 0, 0];
    let ops = [[90, 20, 48, 6, 80, 40, 0, 0], [32, 43, 0, 0, 4, 56, 0, 0]];
    within_the_net(Case(config, ops.to_vec()));
}

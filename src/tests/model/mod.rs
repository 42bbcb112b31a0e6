//! A stateful model: any calls on two sockets, under a kernel that says anything.
//!
//! After each call the model knows of every message whether it is delivered, failed (and with which
//! error) or still the caller's, by the contract of [`BatchSocket`](crate::BatchSocket) alone. What
//! arrived, read through the standard library, must agree; so must what waits in a socket with what
//! is received, and every error that the kernel said is heard once. A call may make only so many
//! system calls as its messages and the kernel's answers explain.
//!
//! [`exhaustive`] has no generator: it runs small cases under every sequence of answers.
//!
//! What a fuzzer needs is apart from the generator: [`ops`] makes operations out of bytes, and
//! [`run`] panics at a fault.

mod errnos;
mod exhaustive;
mod found;
mod judge;
mod kernel;
mod messages;
mod ops;
mod receive;
mod send;
mod world;

use std::fmt;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use proptest::prelude::*;

use super::NET;

use ops::{Config, Op, Record};
use world::World;

/// Runs a case: its configuration, then its operations.
fn run(config: Record, ops: &[Record]) {
    let mut world = World::new(Config::decode(config));
    for op in ops {
        world.step(Op::decode(*op));
    }
    world.finish();
}

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

//! A stateful model on real sockets: any operations of one to three threads on two sockets.
//!
//! Datagrams are numbered and checked byte by byte. What was reported as sent is received exactly
//! once, in order for each sender and destination; what was not reported is not received; a message
//! that no system sends fails, and no other does.
//!
//! [`ops`] makes operations out of bytes, and [`run::run`] panics at a fault: a fuzzer needs no more.

#[path = "../common/mod.rs"]
mod common;
mod datagram;
mod doubles;
mod net;
mod ops;
mod receive;
mod run;
mod send;

use std::fmt;
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

use ops::{Config, Op, Record};

/// Each case chooses for itself.
const BACKEND: Option<mmsg::Backend> = None;

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
    let ops = prop::collection::vec(any::<Record>(), 1..60);
    (any::<Record>(), ops).prop_map(|(config, ops)| Case(config, ops))
}

fn config() -> ProptestConfig {
    // Where the environment asks for another number (PROPTEST_CASES), it gets that.
    let default = ProptestConfig::default();
    let cases = if common::is_emulated() { default.cases.min(16) } else { default.cases };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

/// Runs a case on a thread of its own, so that a call without an end is a failure.
fn within_the_net(case: Case) {
    let (done, result) = mpsc::channel();
    let running = thread::spawn(move || {
        run::run(case.0, &case.1);
        let _ = done.send(());
    });
    match result.recv_timeout(common::NET) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a call does not end"),
        _ => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_message_is_received_once_and_in_order(case in case()) {
        within_the_net(case);
    }
}

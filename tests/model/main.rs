//! A stateful model on real sockets: arbitrary operations of one to three threads on two sockets.
//!
//! Datagrams are numbered and checked byte by byte. Each datagram reported as sent is received exactly once, in order
//! for each sender and destination, and no other is received. Invalid messages fail, and no others.
//!
//! [`ops`] decodes operations from bytes, and [`run::run`] panics if something is wrong, which is all that a fuzzer
//! needs.

mod case;
#[path = "../common/mod.rs"]
mod common;
mod datagram;
mod net;
mod ops;
mod receive;
mod run;
mod send;

use proptest::prelude::*;

use case::cases;
use common::TIME_LIMIT;
use ops::{Config, Op, Record};
use run::run;

/// Each case selects its own.
const BACKEND: Option<mmsg::Backend> = None;

fn config() -> ProptestConfig {
    // The environment may ask for another number (PROPTEST_CASES).
    let default = ProptestConfig::default();
    let cases = if common::is_emulated() { default.cases.min(16) } else { default.cases };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_message_is_received_once_and_in_order(case in cases(60)) {
        case.run();
    }
}

//! A stateful model on real sockets: any operations of one to three threads on two sockets.
//!
//! Datagrams are numbered and checked byte by byte. A datagram that was reported as sent is received exactly
//! once, in order for each sender and destination; no other is received; a message that no system sends fails,
//! and no other does.
//!
//! [`ops`] makes operations out of bytes, and [`run::run`] panics at a fault: a fuzzer needs no more.

mod case;
#[path = "../common/mod.rs"]
mod common;
mod datagram;
mod doubles;
mod net;
mod ops;
mod receive;
mod run;
mod send;

use proptest::prelude::*;

use case::cases;
use common::NET;
use ops::{Config, Op, Record};
use run::run;

/// Each case chooses for itself.
const BACKEND: Option<mmsg::Backend> = None;

fn config() -> ProptestConfig {
    // Where the environment asks for another number (PROPTEST_CASES), it gets that.
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

//! Cases at random, and those of them that found something.

#[path = "../../../tests/common/case.rs"]
mod case;

use proptest::prelude::*;

use super::ops::{Config, Op, Record};
use super::run;
use crate::tests::NET;
use case::{Case, cases};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_has_one_outcome_and_every_error_is_heard(case in cases(40)) {
        case.run();
    }
}

/// The generator seldom makes this one.
#[test]
fn a_batch_and_then_a_datagram_of_it_meet_different_errors() {
    let config = [0, 0, 43, 4, 0, 0, 0, 0];
    let ops = [[90, 20, 48, 6, 80, 40, 0, 0], [32, 43, 0, 0, 4, 56, 0, 0]];
    Case(config, ops.to_vec()).run();
}

//! Random answers of the system, for property tests.

use proptest::prelude::*;

use super::*;

/// Answers to the calls for many messages and for one, errors among them.
pub(super) fn fates(
    codes: &'static [i32],
    many: Call,
    one: Call,
) -> impl Strategy<Value = Vec<(Call, Fate)>> {
    let fail = prop::sample::select(codes).prop_map(Fate::Fail);
    let of_many = prop_oneof![Just(Fate::Kernel), (1usize..9).prop_map(Fate::AtMost), fail.clone()];
    let of_one = prop_oneof![3 => Just(Fate::Kernel), 1 => fail];
    let permitted = prop_oneof![Just(Fate::Kernel), Just(Fate::Fail(errno::EPERM))];
    prop::collection::vec(
        prop_oneof![
            4 => of_many.prop_map(move |fate| (many, fate)),
            6 => of_one.prop_map(move |fate| (one, fate)),
            1 => permitted.prop_map(|fate| (Call::Permitted, fate)),
        ],
        0..24,
    )
}

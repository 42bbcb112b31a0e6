//! Runs as the naive twin finds them, and at their bounds.

use super::super::*;
use super::twin::{Counted, Place, Spec, check, runs, start};
use crate::ancillary::{ControlBuf, SendMeta};
use crate::send::msg::SendMsg;
use proptest::prelude::*;
use std::io::IoSlice;

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let len = prop_oneof![8 => Just(100), 2 => Just(99), 1 => Just(0), 2 => Just(9_000), 1 => Just(40_000)];
    // A stretch of equal messages now and then, so that the caps are met.
    let count = prop_oneof![4 => 1usize..8, 1 => 60usize..70, 1 => Just(90)];
    let place = prop_oneof![Just(Place::Start), Just(Place::Beside), Just(Place::Apart)];
    let kind = prop_oneof![6 => Just(0usize), 1 => 1usize..6];
    let spec = (0usize..4, len, kind, place).prop_map(|(dest, len, kind, place)| Spec {
        dest,
        len,
        kind,
        place,
    });
    prop::collection::vec((spec, count), 1..8).prop_map(|stretches| {
        stretches.into_iter().flat_map(|(spec, count)| std::iter::repeat_n(spec, count)).collect()
    })
}

proptest! {
    #[test]
    fn runs_are_those_of_the_naive_twin(
        specs in specs(),
        rejected_len in prop_oneof![Just(usize::MAX), Just(100)],
        max_segments in prop_oneof![Just(MAX_SEGMENTS), 1..=MAX_SEGMENTS],
    ) {
        let limits = Limits { rejected_len, max_segments, ..Limits::NONE };
        check(&specs, &[limits]);
    }
}

#[test]
fn a_message_whose_control_messages_have_a_segment_size_stays_alone() {
    let mut control = ControlBuf::new();
    let (level, ty) = numbers::SEGMENT.expect("Linux has it");
    control.push(level, ty, &75u16.to_ne_bytes()).expect("there is space");
    let msgs = [SendMsg::new(&[0; 100]).with_control(&control); 3];
    assert_eq!(runs(&msgs, Limits::NONE), [1, 1, 1]);
}

#[test]
fn d6_messages_that_ask_for_a_timestamp_stay_alone() {
    for (level, ty) in [numbers::TIMESTAMPING, numbers::STAMP_NUMBER].into_iter().flatten() {
        let mut control = ControlBuf::new();
        control.push(level, ty, &1u32.to_ne_bytes()).expect("there is space");
        let msgs = [SendMsg::new(&[0; 100]).with_control(&control); 3];
        assert_eq!(runs(&msgs, Limits::NONE), [1, 1, 1]);
    }
}

#[test]
fn d20_a_run_takes_as_many_buffers_as_fit() {
    let memory = [0; 40];
    let parts: Vec<_> = memory.chunks(10).map(IoSlice::new).collect();
    let msgs = [SendMsg::gather(&parts); 9];
    for (capacity, first) in [(3, 1), (4, 2), (11, 3), (12, 4), (31, 8), (32, 9)] {
        let mut msgs = msgs.iter();
        let msg = msgs.next().expect("nine");
        let options = msg.options();
        let mut run = start(msg, &options, Limits::NONE, capacity);
        let mut joined = Counted::default();
        let next = run.join(&mut msgs, &mut joined);
        assert_eq!(
            (run.count(), joined.buffers, next.is_none()),
            (first, (first - 1) * 4, first == 9)
        );
    }
}

#[test]
fn d35_a_segment_size_of_0_is_none() {
    let memory = [0; 100];
    let sizes = [(0, None), (1, Some(1)), (99, Some(99)), (100, None), (u16::MAX, None)];
    for (size, expected) in sizes {
        let meta = SendMeta::new().with_segment_size(size);
        for msg in
            [SendMsg::new(&memory).with_meta(&meta), SendMsg::new(&memory).with_segment_size(size)]
        {
            assert_eq!(segment_size(msg.len(), &msg.options()), expected);
        }
    }
    assert_eq!(segment_size(memory.len(), &SendMsg::new(&memory).options()), None);
}

#[test]
fn s5_a_run_has_at_most_so_many_segments_and_the_size_of_a_datagram() {
    let memory = [0; 65_000];
    let dest: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    let small = vec![SendMsg::to(dest, &memory[..1]); 2 * MAX_SEGMENTS + 2];
    assert_eq!(runs(&small, Limits::NONE), [MAX_SEGMENTS, MAX_SEGMENTS, 2]);
    let large = vec![SendMsg::to(dest, &memory[..1_472]); 50];
    assert_eq!(runs(&large, Limits::NONE), [44, 6]);
    let half = vec![SendMsg::to(dest, &memory[..32_754]); 2];
    assert_eq!(runs(&half, Limits::NONE), [1, 1]);
}

/// An IPv4 header counts in its own length field, and an IPv4-mapped destination has one.
#[test]
fn s5_the_longest_batch_is_that_of_the_protocol_that_carries_it() {
    let most = |dest: &str| max_bytes(DestRef::Addr(Some(&dest.parse().expect("an address"))));
    assert_eq!((most("192.0.2.1:9"), most("[::ffff:192.0.2.1]:9")), (65_507, 65_507));
    assert_eq!((most("[2001:db8::1]:9"), max_bytes(DestRef::Addr(None))), (65_527, 65_507));
}

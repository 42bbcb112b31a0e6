//! Runs as the naive twin finds them, and at their bounds.

use super::*;
use crate::ancillary::{ControlBuf, SendMeta};
use crate::send::msg::SendMsg;
use proptest::prelude::*;
use std::io::IoSlice;

/// More than any run here has.
const BUFFERS: usize = 1024;

/// The lengths of the runs that a slice of messages falls into.
fn runs(msgs: &[SendMsg<'_>], limits: Limits) -> Vec<usize> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for msg in msgs {
        if runs.last_mut().is_none_or(|run| run.take(msg).is_none()) {
            runs.push(Run::start(msg, limits, BUFFERS));
        }
    }
    assert_eq!(joined(msgs, limits), runs.iter().map(Run::count).collect::<Vec<_>>());
    runs.iter().map(Run::count).collect()
}

/// The same by `join`, which reads most messages in another way.
fn joined(msgs: &[SendMsg<'_>], limits: Limits) -> Vec<usize> {
    let (mut counts, mut msgs) = (Vec::new(), msgs.iter());
    let mut next = msgs.next();
    while let Some(msg) = next {
        let mut run = Run::start(msg, limits, BUFFERS);
        let mut bytes = msg.len();
        next = run.join(&mut msgs, |data| bytes += data.len());
        assert_eq!(run.bytes(), bytes);
        counts.push(run.count());
    }
    counts
}

/// The naive twin: checks whole prefixes by the written rules.
fn naive(msgs: &[SendMsg<'_>], limits: Limits) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut rest = msgs;
    while !rest.is_empty() {
        let longest = (1..=rest.len()).rev().find(|n| *n == 1 || is_batch(&rest[..*n], limits));
        let count = longest.expect("one is always a run");
        counts.push(count);
        rest = &rest[count..];
    }
    counts
}

fn is_batch(msgs: &[SendMsg<'_>], limits: Limits) -> bool {
    let first = &msgs[0];
    let (last, others) = msgs.split_last().expect("not empty");
    let v6 = matches!(first.dest(), Some(SocketAddr::V6(a)) if a.ip().to_ipv4_mapped().is_none());
    let same = |msg: &SendMsg<'_>| {
        let all = |msg: &SendMsg<'_>| (msg.dest(), msg.meta(), msg.options().control().to_vec());
        all(msg) == all(first)
    };
    // The cheap checks come first: most prefixes are no GSO batch.
    msgs.len() <= limits.max_segments
        && first.meta().segment_size.is_none()
        && first.meta().timestamp_id.is_none()
        && first.len() < limits.rejected_len
        && last.len() <= first.len()
        && others.iter().all(|msg| msg.len() == first.len())
        && msgs.iter().all(|msg| !msg.is_empty() && same(msg))
        && msgs.iter().map(SendMsg::len).sum::<usize>() <= if v6 { 65_527 } else { 65_507 }
}

#[derive(Clone, Debug)]
struct Spec {
    dest: usize,
    len: usize,
    kind: usize,
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let len = prop_oneof![8 => Just(100), 2 => Just(99), 1 => Just(0), 2 => Just(9_000), 1 => Just(40_000)];
    // A stretch of equal messages now and then, so that the caps are met.
    let count = prop_oneof![4 => 1usize..8, 1 => 60usize..70, 1 => Just(90)];
    let stretch = (0usize..4, len, prop_oneof![6 => Just(0usize), 1 => 1usize..6], count);
    prop::collection::vec(stretch, 1..8).prop_map(|stretches| {
        let each = stretches.into_iter().flat_map(|(dest, len, kind, count)| {
            std::iter::repeat_n(Spec { dest, len, kind }, count)
        });
        each.collect()
    })
}

proptest! {
    #[test]
    fn runs_are_those_of_the_naive_twin(
        specs in specs(),
        refused in prop_oneof![Just(usize::MAX), Just(100)],
        max_segments in prop_oneof![Just(MAX_SEGMENTS), 1..=MAX_SEGMENTS],
    ) {
        static MEMORY: [u8; 40_000] = [0; 40_000];
        let memory = &MEMORY;
        let dests = [None, "127.0.0.1:1".parse().ok(), "[::1]:1".parse().ok(), "[::ffff:127.0.0.1]:1".parse().ok()];
        let mut control = ControlBuf::new();
        control.push(1, 2, b"x").expect("there is space");
        let gathers: Vec<[IoSlice<'_>; 2]> = specs.iter()
            .map(|spec| [IoSlice::new(&memory[..spec.len / 2]), IoSlice::new(&memory[spec.len / 2..spec.len])])
            .collect();
        // Two that are equal, so that both are compared by value.
        let tos = [SendMeta::new().with_tos(1); 2];
        let numbered = SendMeta::new().with_timestamp_id(7);
        let msgs: Vec<SendMsg<'_>> = specs.iter().zip(&gathers).enumerate().map(|(i, (spec, gather))| {
            let mut msg = SendMsg::new(&memory[..spec.len]);
            if spec.kind == 3 {
                msg = SendMsg::gather(gather);
            }
            if let Some(dest) = dests[spec.dest] {
                msg = msg.with_dest(dest);
            }
            match spec.kind {
                1 => msg.with_meta(&tos[i % 2]),
                2 => msg.with_control(&control),
                4 => msg.with_segment_size(7),
                5 => msg.with_meta(&numbered),
                _ => msg,
            }
        }).collect();
        let limits = Limits { rejected_len: refused, max_segments, ..Limits::NONE };
        prop_assert_eq!(runs(&msgs, limits), naive(&msgs, limits));
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
        let mut run = Run::start(msgs.next().expect("nine"), Limits::NONE, capacity);
        let mut buffers = 0;
        let next = run.join(&mut msgs, |_| buffers += 1);
        assert_eq!((run.count(), buffers, next.is_none()), (first, (first - 1) * 4, first == 9));
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

//! The naive twin of finding runs, and messages to compare the two by.

use std::io::IoSlice;

use super::super::*;
use crate::ancillary::{ControlBuf, SendMeta};
use crate::send::msg::SendMsg;

/// More than any run here has.
const BUFFERS: usize = 1024;

/// The lengths of the runs that a slice of messages falls into.
pub(super) fn runs(msgs: &[SendMsg<'_>], limits: Limits) -> Vec<usize> {
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

/// A message: which destination, how long, and what it has beside a payload.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) dest: usize,
    pub(crate) len: usize,
    pub(crate) kind: usize,
}

/// Compares the runs of these messages with those of the twin.
pub(crate) fn check(specs: &[Spec], limits: Limits) {
    static MEMORY: [u8; 40_000] = [0; 40_000];
    let memory = &MEMORY;
    let dests = [
        None,
        "127.0.0.1:1".parse().ok(),
        "[::1]:1".parse().ok(),
        "[::ffff:127.0.0.1]:1".parse().ok(),
    ];
    let mut control = ControlBuf::new();
    control.push(1, 2, b"x").expect("there is space");
    let gathers: Vec<[IoSlice<'_>; 2]> = specs
        .iter()
        .map(|spec| {
            [IoSlice::new(&memory[..spec.len / 2]), IoSlice::new(&memory[spec.len / 2..spec.len])]
        })
        .collect();
    // Two that are equal, so that both are compared by value.
    let tos = [SendMeta::new().with_tos(1); 2];
    let numbered = SendMeta::new().with_timestamp_id(7);
    let msgs: Vec<SendMsg<'_>> = specs
        .iter()
        .zip(&gathers)
        .enumerate()
        .map(|(i, (spec, gather))| {
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
        })
        .collect();
    assert_eq!(runs(&msgs, limits), naive(&msgs, limits));
}

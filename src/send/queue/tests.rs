//! A queue compared with a naive twin: a list of messages and their costs.

use std::collections::VecDeque;
use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::control::ControlBuf;
use crate::send::chunk;
use crate::{Ecn, RecvMeta, UnixAddr};

#[derive(Clone, Debug)]
struct Pushed {
    dest: Option<SocketAddr>,
    len: usize,
    ecn: Option<Ecn>,
    settings: usize,
    gathered: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Push(Pushed),
    /// The closure writes the first number of bytes, and leaves the second number unused.
    PushWith(Pushed, usize, usize),
    /// To this number of destinations.
    PushToAll(Pushed, usize),
    Discard(usize),
    /// A flush that sends up to this many datagrams of one half.
    Send(usize),
    Clear,
}

fn dests() -> [Option<SocketAddr>; 5] {
    let of = |addr: &str| Some(addr.parse().expect("an address"));
    [None, of("192.0.2.1:1"), of("192.0.2.1:2"), of("[2001:db8::1]:1"), of("192.0.2.2:1")]
}

fn pushed() -> impl Strategy<Value = Pushed> {
    // Mostly equal to the previous message.
    let len = prop_oneof![4 => Just(3usize), 1 => 0..5usize];
    let ecn = prop_oneof![3 => Just(None), 1 => Just(Some(Ecn::Ect0))];
    let settings = prop_oneof![3 => Just(0usize), 1 => 0..5usize];
    let dest = prop_oneof![2 => Just(1usize), 1 => 0..5usize];
    (dest, len, ecn, settings, any::<bool>()).prop_map(|(dest, len, ecn, settings, gathered)| {
        Pushed { dest: dests()[dest], len, ecn, settings, gathered }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => pushed().prop_map(Step::Push),
        4 => (pushed(), 0..9usize, 0..40usize).prop_map(|(msg, len, spare)| Step::PushWith(msg, len, spare)),
        1 => (pushed(), 0..4usize).prop_map(|(msg, dests)| Step::PushToAll(msg, dests)),
        4 => (0..9usize).prop_map(Step::Discard),
        4 => (0..9usize).prop_map(Step::Send),
        1 => Just(Step::Clear),
    ]
}

/// A queued message: destination, payload, settings.
type Seen = (Option<SocketAddr>, Vec<u8>, SendMeta);

fn seen(msg: &SendMsg<'_>) -> Seen {
    (msg.dest(), msg.slices().flatten().copied().collect(), msg.meta())
}

/// Calls `then` with the message, whose bytes begin with `number`.
fn with_msg<R>(pushed: &Pushed, number: u8, then: impl FnOnce(SendMsg<'_>) -> R) -> R {
    let metas = [SendMeta::new().with_hop_limit(1), SendMeta::new().with_hop_limit(2)];
    let received = RecvMeta { local: Some([127, 0, 0, 1].into()), ..RecvMeta::default() };
    let data: Vec<u8> = (0..pushed.len).map(|i| number.wrapping_add(i as u8)).collect();
    let (head, tail) = data.split_at(pushed.len / 2);
    let parts = [head, tail].map(std::io::IoSlice::new);
    let msg = if pushed.gathered { SendMsg::gather(&parts) } else { SendMsg::new(&data) };
    let msg = pushed.dest.map_or(msg, |dest| msg.with_dest(dest));
    let msg = pushed.ecn.map_or(msg, |ecn| msg.with_ecn(ecn));
    then(match pushed.settings {
        0 => msg,
        1 | 2 => msg.with_meta(&metas[pushed.settings - 1]),
        3 => msg.with_reply(&received),
        _ => msg.with_reply(&received).with_meta(&metas[0]),
    })
}

proptest! {
    #[test]
    fn a_queue_holds_what_was_pushed_and_counts_it(
        steps in prop::collection::vec(step(), 0..60),
        capacity in 500..6000usize,
    ) {
        let mut queue = SendQueue::new(capacity);
        let mut twin: VecDeque<(Seen, usize)> = VecDeque::new();
        let count = |twin: &VecDeque<(Seen, usize)>| twin.iter().map(|(_, cost)| cost).sum::<usize>();
        for (number, step) in (0u8..).zip(steps) {
            match step {
                Step::Push(pushed) => with_msg(&pushed, number, |msg| {
                    let fits = SendQueue::cost(&msg) <= capacity - count(&twin);
                    assert_eq!(queue.push(&msg).is_ok(), fits);
                    if fits {
                        twin.push_back((seen(&msg), SendQueue::cost(&msg)));
                    }
                }),
                Step::PushWith(pushed, len, spare) => with_msg(&pushed, number, |msg| {
                    let fits = SendQueue::cost(&msg).saturating_add(len + spare) <= capacity - count(&twin);
                    let write = |space: &mut [u8]| {
                        assert_eq!(space.len(), len + spare);
                        space.fill(number);
                        Some(len)
                    };
                    assert_eq!(queue.push_with(&msg, len + spare, write).is_ok(), fits);
                    if fits {
                        let (dest, data, meta) = seen(&msg);
                        let written = [data, vec![number; len]].concat();
                        twin.push_back(((dest, written, meta), SendQueue::cost(&msg) + len));
                    }
                }),
                Step::PushToAll(pushed, dests_count) => with_msg(&pushed, number, |msg| {
                    let to = dests().into_iter().flatten().cycle().take(dests_count);
                    let mut after = twin.clone();
                    for (i, dest) in to.clone().enumerate() {
                        let msg = msg.with_dest(dest);
                        let cost = if i == 0 { SendQueue::cost(&msg) } else { SendQueue::OVERHEAD };
                        after.push_back((seen(&msg), cost));
                    }
                    let fits = count(&after) <= capacity;
                    assert_eq!(queue.push_to_all(&msg, to).is_ok(), fits);
                    if fits {
                        twin = after;
                    }
                }),
                Step::Discard(n) => {
                    for _ in 0..n {
                        assert_eq!(queue.discard_front(), twin.pop_front().is_some());
                    }
                }
                Step::Send(n) => {
                    let mut chunk = chunk::empty();
                    let offered = queue.fill(&mut chunk, n);
                    assert!(offered.iter().map(seen).eq(twin.iter().take(offered.len()).map(|(seen, _)| seen.clone())));
                    assert!(!offered.is_empty() || twin.is_empty() || n == 0);
                    let sent = offered.len();
                    queue.advance(sent);
                    twin.drain(..sent);
                }
                Step::Clear => {
                    queue.clear();
                    twin.clear();
                }
            }
            assert_eq!((queue.len(), queue.bytes()), (twin.len(), count(&twin)));
            assert!(queue.iter().map(|msg| seen(&msg)).eq(twin.iter().map(|(seen, _)| seen.clone())));
        }
    }
}

#[test]
fn a_queue_that_each_flush_drains_uses_one_memory() {
    let mut queue = SendQueue::for_batch(100, 100);
    // By one call, or by two.
    for first in [100, 40] {
        let rounds = (0..5).map(|_| {
            (0..100).for_each(|_| queue.push(&SendMsg::new(&[0; 100])).expect("it fits"));
            let front = queue.front().and_then(|msg| msg.slices().next()).map(<[u8]>::as_ptr);
            queue.advance(first);
            queue.advance(100 - first);
            front
        });
        let rounds: Vec<_> = rounds.collect();
        assert_eq!(rounds[3], rounds[4]);
    }
}

/// The queued messages, and the bytes that they count.
fn contents(queue: &SendQueue) -> (Vec<Seen>, usize) {
    (queue.iter().map(|msg| seen(&msg)).collect(), queue.bytes())
}

#[test]
fn what_a_closure_does_not_finish_is_not_in_the_queue() {
    let mut queue = SendQueue::new(1 << 12);
    let meta = SendMeta::new().with_source([127, 0, 0, 1].into());
    let msg = SendMsg::new(b"header").with_meta(&meta);
    for _ in 0..3 {
        queue.push(&msg).expect("it fits");
        let before = contents(&queue);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            queue.push_with(&msg, 500, |space| {
                space.fill(1);
                std::panic::resume_unwind(Box::new("the caller's"))
            })
        }));
        assert!(panicked.is_err());
        for too_many in [501, usize::MAX] {
            assert_eq!(queue.push_with(&msg, 500, |_| Some(too_many)), Err(PushError::TooLong));
        }
        // The caller has nothing to send, which is no error.
        let nothing = |space: &mut [u8]| {
            space.fill(1);
            None
        };
        assert_eq!(queue.push_with(&msg, 500, nothing), Ok(()));
        assert_eq!(contents(&queue), before);
    }
    // Nor does it count against the bound: datagrams still fit up to the last byte.
    let rest = queue.remaining() - SendQueue::cost(&msg);
    queue.push_with(&msg, rest, |space| Some(space.len())).expect("it fits");
    assert_eq!((queue.len(), queue.remaining()), (4, 0));
}

#[test]
fn a_closure_for_which_there_is_no_space_is_not_called() {
    let not_called = |_: &mut [u8]| panic!("it does not fit");
    let mut queue = SendQueue::new(1 << 12);
    queue.push(&SendMsg::new(b"a")).expect("it fits");
    assert_eq!(queue.push_with(&SendMsg::new(&[]), 4000, not_called), Err(PushError::Full));
    for len in [1 << 12, u32::MAX as usize, usize::MAX] {
        assert_eq!(queue.push_with(&SendMsg::new(b"a"), len, not_called), Err(PushError::TooLong));
    }
    let longest = SendQueue::new(usize::MAX).push_with(&SendMsg::new(b"a"), usize::MAX, not_called);
    // With a 32-bit `usize` the length is valid, but no memory holds it.
    assert!(matches!(longest, Err(PushError::TooLong | PushError::OutOfMemory)), "{longest:?}");
}

#[test]
fn what_closures_write_is_adjacent_as_pushes_are() {
    let mut queue = SendQueue::new(1 << 16);
    let data = [7; 100];
    // The first pushes grow the memory.
    (0..100).for_each(|_| queue.push(&SendMsg::new(&data)).expect("it fits"));
    queue.clear();
    for i in 0..20 {
        match i % 2 {
            0 => queue.push(&SendMsg::new(&data)).expect("it fits"),
            _ => queue
                .push_with(&SendMsg::new(&data[..8]), 1500, |space| {
                    space[..92].fill(7);
                    Some(92)
                })
                .expect("it fits"),
        }
    }
    let places = queue.iter().filter_map(|msg| msg.slices().next()).map(<[u8]>::as_ptr_range);
    let places: Vec<_> = places.collect();
    assert!(places.windows(2).all(|pair| pair[0].end == pair[1].start));
    assert!(queue.iter().all(|msg| msg.slices().eq([&data[..]])));
}

#[test]
fn what_a_queue_cannot_store_is_rejected_as_it_is_pushed() {
    let mut queue = SendQueue::new(1 << 10);
    let mut control = ControlBuf::new();
    control.push(1, 2, b"data").expect("it fits");
    let msg = SendMsg::new(b"data");
    assert_eq!(queue.push(&msg.with_control(&control)), Err(PushError::HasControl));
    let to_unix = msg.with_unix_dest(UnixAddr::Abstract(b"name"));
    assert_eq!(queue.push(&to_unix), Err(PushError::HasUnixDest));
    assert_eq!(SendQueue::cost(&to_unix), usize::MAX);
    assert_eq!(queue.push(&SendMsg::new(&[0; 1 << 10])), Err(PushError::TooLong));
    assert_eq!((queue.len(), queue.bytes()), (0, 0));
    for error in [PushError::HasControl, PushError::HasUnixDest] {
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_queue_for_a_batch_is_full_once_it_holds_the_batch() {
    let mut queue = SendQueue::for_batch(2, 3);
    let settings = SendMeta::new();
    let msg = SendMsg::new(b"abc").with_meta(&settings);
    assert_eq!([(); 3].map(|()| queue.push(&msg)), [Ok(()), Ok(()), Err(PushError::Full)]);
}

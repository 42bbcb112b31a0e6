//! GSO batches and their headers, compared with a naive twin that checks whole prefixes.

use std::cell::RefCell;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::LazyLock;

use super::*;
use crate::ancillary::{ControlBuf, Ecn, RecvMeta, SendMeta};
use crate::send::prepare::prepare;
use crate::sys::{SendStorage, borrow};

/// A message to make: its destination, its length, its kind of settings, and where its payload lies.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) dest: usize,
    pub(crate) len: usize,
    pub(crate) kind: usize,
    pub(crate) place: Place,
}

pub(crate) const KINDS: usize = 8;

/// Where a payload lies in memory: at the start, or after the previous payload, with or without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Start,
    Beside,
    Apart,
}

/// Pseudo-random bytes, so that a misplaced payload shows.
static MEMORY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..1 << 18).map(|_| next()).collect()
});

/// A payload as one buffer and as two. The two touch unless the place is `Apart`.
struct PayloadForms {
    whole: &'static [u8],
    parts: [IoSlice<'static>; 2],
}

fn payloads(specs: &[Spec]) -> Vec<PayloadForms> {
    let (memory, mut end): (&'static [u8], _) = (&MEMORY, 0);
    let mut payload = |spec: &Spec| {
        let gap = usize::from(spec.place == Place::Apart);
        let start = if spec.place == Place::Start { 0 } else { end + gap };
        let start = if start + spec.len < memory.len() { start } else { 0 };
        let (half, whole) = (spec.len / 2, &memory[start..start + spec.len]);
        end = start + spec.len;
        let other = &memory[start + half + gap..end + gap];
        PayloadForms { whole, parts: [IoSlice::new(&whole[..half]), IoSlice::new(other)] }
    };
    specs.iter().map(&mut payload).collect()
}

/// The batch that the first messages form.
pub(crate) fn first_batch(msgs: &[SendMsg<'_>], max_segments: usize) -> GsoBatch {
    let mut joining = Joining::begin(&msgs[0], max_segments);
    let _ = msgs[1..].iter().take_while(|msg| joining.takes(msg)).count();
    joining.batch
}

/// Compares the batches of these messages with the twin's, and the headers with the messages.
pub(crate) fn check(specs: &[Spec], max_segments: usize) {
    const DESTS: [Option<SocketAddr>; 4] = [
        None,
        Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1)),
        Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 1)),
        Some(SocketAddr::new(IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()), 1)),
    ];
    let mut control = ControlBuf::new();
    control.push(1, 2, b"x").expect("there is space");
    let payloads = payloads(specs);
    // Two equal values at different addresses, so that they are compared by value.
    let tos = [SendMeta::new().with_tos(1); 2];
    // Replies from one address to two messages. Nothing else of their metadata counts.
    let asked = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)].map(|local| {
        let local = Some(local);
        [1, 2].map(|n| {
            let dest = Some(Ipv4Addr::from(n).into());
            RecvMeta { local, dest, interface: Some(n), ..RecvMeta::default() }
        })
    });
    let numbered = SendMeta::new().with_timestamp_id(7);
    let make = |i: usize| {
        let (spec, payload) = (&specs[i], &payloads[i]);
        let mut msg = match spec.kind {
            3 => SendMsg::gather(&payload.parts),
            _ => SendMsg::new(payload.whole),
        };
        if let Some(dest) = DESTS[spec.dest] {
            msg = msg.with_dest(dest);
        }
        match spec.kind {
            1 => msg.with_meta(&tos[i % 2]),
            2 => msg.with_control(&control),
            4 => msg.with_segment_size(7),
            5 => msg.with_meta(&numbered),
            6 => msg.with_ecn(Ecn::Ect1),
            7 => msg.with_reply(&asked[spec.dest % 2][i % 2]),
            _ => msg,
        }
    };
    let msgs: Vec<SendMsg<'_>> = (0..specs.len()).map(make).collect();
    assert_eq!(batches(&msgs, max_segments), naive(&msgs, max_segments));
    check_headers(&msgs, max_segments);
}

/// The number of messages in each batch.
fn batches(msgs: &[SendMsg<'_>], max_segments: usize) -> Vec<usize> {
    let (mut counts, mut rest) = (Vec::new(), msgs);
    while !rest.is_empty() {
        let GsoBatch { messages, bytes, segment } = first_batch(rest, max_segments);
        let own = &rest[..messages];
        assert_eq!((bytes, segment), (own.iter().map(SendMsg::len).sum(), own[0].len()));
        counts.push(messages);
        rest = &rest[messages..];
    }
    counts
}

/// The naive twin: checks whole prefixes by the written rules.
fn naive(msgs: &[SendMsg<'_>], max_segments: usize) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut rest = msgs;
    while !rest.is_empty() {
        let count = longest(rest, max_segments);
        counts.push(count);
        rest = &rest[count..];
    }
    counts
}

fn longest(msgs: &[SendMsg<'_>], max_segments: usize) -> usize {
    let max = msgs.len().min(max_segments);
    (2..=max).rev().find(|n| is_batch(&msgs[..*n])).unwrap_or(1)
}

fn is_batch(msgs: &[SendMsg<'_>]) -> bool {
    let first = &msgs[0];
    let (last, others) = msgs.split_last().expect("not empty");
    // A batch never mixes a reply's settings with those of `with_meta`.
    let has = |msg: &SendMsg<'_>| (msg.meta.is_some(), msg.has_metas());
    let same = |msg: &SendMsg<'_>| {
        let all = |msg: &SendMsg<'_>| (msg.dest(), msg.meta(), msg.segment_size(), has(msg));
        all(msg) == all(first) && msg.raw_control() == first.raw_control()
    };
    // The cheap checks come first: most prefixes are no GSO batch.
    first.segment_size().is_none()
        && first.meta().timestamp_id.is_none()
        && last.len() <= first.len()
        && others.iter().all(|msg| msg.len() == first.len())
        && msgs.iter().all(|msg| !msg.is_empty() && same(msg))
        && msgs.iter().map(SendMsg::len).sum::<usize>() <= 65_507
}

/// Wires the messages, and compares the payloads that the headers point to.
fn check_headers(msgs: &[SendMsg<'_>], max_segments: usize) {
    // Less than a long list needs, so that the memory for copies runs out.
    const COPIES: usize = 1 << 18;
    thread_local! {
        static STORAGE: RefCell<SendStorage> = const { RefCell::new(SendStorage::new()) };
        static SOCKET: UdpSocket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    }
    STORAGE.with_borrow_mut(|storage| {
        storage.reserve(msgs.len(), COPIES).expect("there is memory");
        let (mut headers, mut batches) = (storage.begin(), Vec::new());
        let (rejected, singly_from) = (&[][..], usize::MAX);
        let segmenting = Segmenting { max_segments, tos: true, rejected, singly_from };
        let prepared = SOCKET.with(|socket| {
            prepare(&mut headers, &mut batches, borrow(socket), msgs, Some(&segmenting))
        });
        assert_eq!(headers.len(), batches.len());
        let bytes: usize = msgs.iter().map(SendMsg::len).sum();
        let mut rest = msgs;
        for (batch, payload) in batches.iter().zip(headers.payloads()) {
            assert_eq!(batch.messages, longest(rest, max_segments), "{batch:?}");
            let own;
            (own, rest) = rest.split_at(batch.messages);
            let expected: Vec<u8> =
                own.iter().flat_map(SendMsg::slices).flatten().copied().collect();
            let size = explicit_segment_size(&own[0]).map_or(own[0].len(), usize::from);
            assert_eq!((batch.bytes, batch.segment), (expected.len(), size));
            assert!(payload == expected, "{batch:?} has other bytes");
        }
        // Not every system has a control message for each setting.
        let is_full = bytes > COPIES - MAX_BATCH_BYTES;
        let may_end = is_full || prepared.is_err() || cfg!(not(linux_like));
        assert!(rest.is_empty() || may_end, "it ends early");
    });
}

#[cfg(test)]
mod rules {
    use proptest::prelude::*;

    use super::*;
    use crate::sys::MAX_SEGMENTS;

    fn specs() -> impl Strategy<Value = Vec<Spec>> {
        let len = prop_oneof![8 => Just(100), 2 => Just(99), 1 => Just(0), 2 => Just(9_000), 1 => Just(40_000)];
        // Some long runs of equal messages, to reach the limits.
        let count = prop_oneof![4 => 1usize..8, 1 => 60usize..70, 1 => Just(90)];
        let place = prop_oneof![Just(Place::Start), Just(Place::Beside), Just(Place::Apart)];
        let kind = prop_oneof![6 => Just(0usize), 1 => 1usize..KINDS];
        let spec = (0usize..4, len, kind, place).prop_map(|(dest, len, kind, place)| Spec {
            dest,
            len,
            kind,
            place,
        });
        prop::collection::vec((spec, count), 1..8).prop_map(|stretches| {
            let each =
                stretches.into_iter().flat_map(|(spec, count)| std::iter::repeat_n(spec, count));
            each.collect()
        })
    }

    proptest! {
        #[test]
        fn batches_are_those_of_the_naive_twin(
            specs in specs(),
            max_segments in prop_oneof![Just(MAX_SEGMENTS), 1..=MAX_SEGMENTS],
        ) {
            check(&specs, max_segments);
        }
    }

    fn all(msgs: &[SendMsg<'_>]) -> Vec<usize> {
        batches(msgs, MAX_SEGMENTS)
    }

    /// Or with so many that a segment size has no space.
    #[test]
    fn messages_with_a_segment_size_or_a_timestamp_among_raw_control_messages_stay_alone() {
        let types = [numbers::SEGMENT, numbers::TIMESTAMPING, numbers::STAMP_NUMBER];
        let number = &75u32.to_ne_bytes()[..];
        let types = types.into_iter().flatten().map(|ty| (ty, number));
        for ((level, ty), data) in types.chain([((1, 2), &[0; CONTROL_SPACE / 2][..])]) {
            let mut control = ControlBuf::new();
            control.push(1, 2, b"before it").expect("there is space");
            control.push(level, ty, data).expect("there is space");
            assert_eq!(all(&[SendMsg::new(&[0; 100]).with_control(&control); 3]), [1, 1, 1]);
        }
    }

    /// Or a message would leave with another's settings: replies by their interfaces, for one.
    #[test]
    fn messages_share_only_equal_settings() {
        let ip = |text: &str| Some(text.parse().expect("an address"));
        let ips = [None, ip("127.0.0.1"), ip("169.254.1.1"), ip("ff02::1"), ip("fe80::1")];
        let mut received = Vec::new();
        for (local, dest) in ips.iter().flat_map(|local| ips.map(|ip| (*local, ip))) {
            received.extend([None, Some(1), Some(2)].map(|interface| RecvMeta {
                local,
                dest,
                interface,
                ..RecvMeta::default()
            }));
        }
        let metas = [SendMeta::new(), SendMeta::new().with_interface(2)];
        let msg = SendMsg::new(b"data");
        let replies = received.iter().map(|received| msg.with_reply(received));
        let replies = replies.flat_map(|msg| [msg, msg.by_interface()]);
        let all: Vec<_> = replies
            .chain([msg])
            .flat_map(|msg| [msg, msg.with_meta(&metas[0]), msg.with_meta(&metas[1])])
            .collect();
        // A meta has the last word over a reply, and the message itself over the meta.
        let meta = metas[1].with_tos(0b1111);
        for settings in all.iter().map(|msg| msg.with_meta(&meta).with_ecn(Ecn::Ect0).meta()) {
            assert_eq!((settings.interface, settings.tos), (Some(2), Some(0b1110)));
        }
        let mut controls = [ControlBuf::new(), ControlBuf::new()];
        controls[0].push(9, 1, b"data").expect("there is space");
        controls[1].push(9, 2, b"data").expect("there is space");
        let [one, other] = controls.each_ref().map(|control| msg.with_control(control));
        assert!(!one.same_settings(&other));
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
            let is_equal = one.meta() == other.meta();
            assert!(is_equal || !one.same_settings(other), "{:?} {:?}", one.meta(), other.meta());
        }
    }

    #[test]
    fn a_segment_size_of_0_means_one_datagram() {
        let memory = [0; 100];
        let sizes = [(0, None), (1, Some(1)), (99, Some(99)), (100, None), (u16::MAX, None)];
        for (size, expected) in sizes {
            let msg = SendMsg::new(&memory).with_segment_size(size);
            assert_eq!(explicit_segment_size(&msg), expected);
        }
        assert_eq!(explicit_segment_size(&SendMsg::new(&memory)), None);
    }

    #[test]
    fn a_batch_keeps_to_both_limits() {
        let memory = [0; 65_000];
        for dest in ["127.0.0.1:1", "[::1]:1"] {
            let dest: SocketAddr = dest.parse().expect("an address");
            let small = vec![SendMsg::to(dest, &memory[..1]); 2 * MAX_SEGMENTS + 2];
            assert_eq!(all(&small), [MAX_SEGMENTS, MAX_SEGMENTS, 2]);
            let large = vec![SendMsg::to(dest, &memory[..1_472]); 50];
            assert_eq!(all(&large), [44, 6]);
            let half = vec![SendMsg::to(dest, &memory[..32_754]); 2];
            assert_eq!(all(&half), [1, 1]);
        }
    }
}

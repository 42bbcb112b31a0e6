//! Batches compared with a naive twin that sends and receives the same datagrams one at a time with std.
//!
//! Whatever the sizes, destinations, batch sizes and buffers: the same datagrams must fail with the same errors, and
//! the same bytes must arrive in the same slices, from the same sources, in the same order.

mod common;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket;

use mmsg::{
    Backend, BatchSocket, BatchSocketExt, MmsgBuf, RecvBatch, RecvFlags, RecvMsg, SendMsg,
    SendQueue,
};
use proptest::collection::vec;
use proptest::prelude::*;

use common::BACKENDS;
use common::recv::OwnedDatagram;
use common::sockets::{addr, udp4};

/// Every arena here selects its own.
const BACKEND: Option<Backend> = None;

/// A datagram to send: its receiver and the lengths of its parts.
#[derive(Clone, Debug)]
struct Outgoing {
    to: usize,
    parts: Vec<usize>,
}

/// A round: datagrams sent as one batch, and how to receive them.
#[derive(Clone, Debug)]
struct Round {
    from: usize,
    outgoing: Vec<Outgoing>,
    /// Buffers for received datagrams; a receiver uses them in turn.
    shapes: Vec<Vec<usize>>,
    /// Messages offered to one receive.
    offered: usize,
    full_len: bool,
}

/// The outcome of a round: which datagrams failed and why, and what each receiver got.
type Outcome = (Vec<(usize, i32)>, [Vec<Received>; 2]);

/// A received datagram: its bytes by buffer, its source, and its full length if known.
#[derive(Clone, Debug, PartialEq)]
struct Received {
    slices: Vec<Vec<u8>>,
    truncated: bool,
    from: usize,
    full_len: Option<usize>,
}

fn outgoing() -> impl Strategy<Value = Outgoing> {
    // Few and mostly small parts, so that a round fits any receive buffer.
    let part = prop_oneof![6 => 0usize..40, 2 => 0usize..700, 1 => Just(0)];
    // Longer than any datagram.
    let too_long = Just(vec![70_000]);
    let parts = prop_oneof![24 => vec(part, 0..4), 1 => too_long];
    (0usize..2, parts).prop_map(|(to, parts)| Outgoing { to, parts })
}

fn round() -> impl Strategy<Value = Round> {
    let shape = prop_oneof![
        2 => Just(vec![2_100]),
        2 => vec(prop_oneof![Just(0usize), 1usize..30, 1usize..1_000], 0..5),
        1 => vec(0usize..20, 1..2),
    ];
    (0usize..2, vec(outgoing(), 0..40), vec(shape, 1..5), 1usize..24, any::<bool>()).prop_map(
        |(from, outgoing, shapes, offered, full_len)| Round {
            from,
            outgoing,
            shapes,
            offered,
            full_len,
        },
    )
}

/// Two senders and two receivers.
struct Sockets {
    senders: [UdpSocket; 2],
    receivers: [UdpSocket; 2],
}

impl Sockets {
    fn new() -> Self {
        Self { senders: [udp4(), udp4()], receivers: [udp4(), udp4()] }
    }

    fn source(&self, from: Option<std::net::SocketAddr>) -> usize {
        let from = from.expect("an Internet address");
        self.senders.iter().position(|sender| addr(sender) == from).expect("one of the senders")
    }
}

fn payloads(round: &Round) -> Vec<Vec<u8>> {
    let payload = |(i, one): (usize, &Outgoing)| common::payload(i, one.parts.iter().sum());
    round.outgoing.iter().enumerate().map(payload).collect()
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().expect("the system's error")
}

/// The naive twin: `send_to` and `recv_from`.
fn naive(sockets: &Sockets, round: &Round) -> Outcome {
    let (mut failed, mut counts) = (Vec::new(), [0, 0]);
    for (i, (one, data)) in round.outgoing.iter().zip(payloads(round)).enumerate() {
        let to = addr(&sockets.receivers[one.to]);
        match sockets.senders[round.from].send_to(&data, to) {
            Ok(_) => counts[one.to] += 1,
            Err(error) => failed.push((i, errno(&error))),
        }
    }
    let mut buffer = vec![0; 65_535];
    let got = [0, 1].map(|receiver| {
        let mut arrived = Vec::new();
        while arrived.len() < counts[receiver] {
            let (len, from) =
                sockets.receivers[receiver].recv_from(&mut buffer).expect("it arrives");
            let mut rest = &buffer[..len];
            let mut slices = Vec::new();
            for capacity in &round.shapes[arrived.len() % round.shapes.len()] {
                let (slice, more) = rest.split_at(rest.len().min(*capacity));
                slices.extend((!slice.is_empty()).then(|| slice.to_vec()));
                rest = more;
            }
            let truncated = !rest.is_empty();
            // Only Linux reports it on request.
            let linux = cfg!(any(target_os = "linux", target_os = "android"));
            let full_len = (round.full_len && linux || !truncated).then_some(len);
            arrived.push(Received {
                slices,
                truncated,
                from: sockets.source(Some(from)),
                full_len,
            });
        }
        arrived
    });
    (failed, got)
}

/// Sends batches through an arena and continues after datagrams that fail.
fn batched(arena: &mut MmsgBuf, sockets: &Sockets, round: &Round) -> Outcome {
    let data = payloads(round);
    let parts: Vec<Vec<IoSlice<'_>>> =
        round.outgoing.iter().zip(&data).map(|(one, data)| split(data, &one.parts)).collect();
    let msgs: Vec<_> = round
        .outgoing
        .iter()
        .zip(&parts)
        .map(|(one, parts)| SendMsg::gather(parts).with_dest(addr(&sockets.receivers[one.to])))
        .collect();
    let (mut failed, mut done) = (Vec::new(), 0);
    while done < msgs.len() {
        match arena.send(&sockets.senders[round.from], &msgs[done..]) {
            Ok(count) => done += count,
            Err(error) => {
                failed.push((done, errno(&error)));
                done += 1;
            }
        }
    }
    let got = [0, 1].map(|receiver| receive(arena, sockets, round, receiver, &failed));
    (failed, got)
}

/// Splits `data` into parts of these lengths.
fn split<'a>(mut data: &'a [u8], lens: &[usize]) -> Vec<IoSlice<'a>> {
    let part = |len: &usize| {
        let (part, rest) = data.split_at(*len);
        data = rest;
        IoSlice::new(part)
    };
    lens.iter().map(part).collect()
}

fn receive(
    arena: &mut MmsgBuf,
    sockets: &Sockets,
    round: &Round,
    receiver: usize,
    failed: &[(usize, i32)],
) -> Vec<Received> {
    let count = expected(round, receiver, failed);
    let flags = if round.full_len { RecvFlags::FULL_LEN } else { RecvFlags::NONE };
    let mut arrived = Vec::new();
    while arrived.len() < count {
        let shapes = round.shapes.iter().cycle().skip(arrived.len() % round.shapes.len());
        let mut memory: Vec<Vec<Vec<u8>>> = shapes
            .take(round.offered)
            .map(|shape| shape.iter().map(|len| vec![0xEE; *len]).collect())
            .collect();
        let mut buffers: Vec<Vec<IoSliceMut<'_>>> = memory
            .iter_mut()
            .map(|parts| parts.iter_mut().map(|p| IoSliceMut::new(p)).collect())
            .collect();
        // One buffer takes the plain path, several the scattered one.
        let mut msgs: Vec<_> = buffers
            .iter_mut()
            .map(|parts| match &mut parts[..] {
                [one] => RecvMsg::new(one),
                several => RecvMsg::scatter(several),
            })
            .collect();
        let socket = &sockets.receivers[receiver];
        let n = arena.recv_with(socket, &mut msgs, flags).expect("they arrive");
        assert!(0 < n && n <= round.offered);
        arrived.extend(msgs[..n].iter().map(|msg| Received {
            slices: msg.message().slices().map(<[u8]>::to_vec).collect(),
            truncated: msg.truncated(),
            from: sockets.source(msg.addr()),
            full_len: msg.message().full_len(),
        }));
    }
    arrived
}

/// How many datagrams a receiver should get.
fn expected(round: &Round, receiver: usize, failed: &[(usize, i32)]) -> usize {
    let sent = |(i, one): &(usize, &Outgoing)| {
        one.to == receiver && !failed.iter().any(|(index, _)| index == i)
    };
    round.outgoing.iter().enumerate().filter(sent).count()
}

/// The same with one of the trait's ways, into a [`RecvBatch`].
fn by_trait(way: usize, sockets: &Sockets, round: &Round, slot: usize) -> [Vec<OwnedDatagram>; 2] {
    let socket: &dyn BatchSocket = &sockets.senders[round.from];
    let data = payloads(round);
    let all = round.outgoing.iter().zip(&data);
    // A failure would end a flush, so there are none here.
    let good = all.filter(|(_, data)| data.len() < 65_000);
    let msgs: Vec<_> = good
        .clone()
        .map(|(one, data)| SendMsg::to(addr(&sockets.receivers[one.to]), data))
        .collect();
    let sent = match way {
        0 => socket.send_batch(&msgs),
        1 => socket.send_each(&msgs, common::no_failure),
        _ => {
            let mut queue = SendQueue::new(1 << 20);
            msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
            socket.flush(&mut queue)
        }
    };
    assert_eq!(sent.expect("they are taken"), msgs.len());
    let mut batch = RecvBatch::new(round.offered, slot);
    [0, 1].map(|receiver| {
        let count = good.clone().filter(|(one, _)| one.to == receiver).count();
        let mut got = Vec::new();
        while got.len() < count {
            sockets.receivers[receiver].recv_into(&mut batch).expect("they arrive");
            got.extend(batch.iter().map(OwnedDatagram::from));
        }
        got
    })
}

fn config() -> ProptestConfig {
    // A case makes a few hundred system calls, which are slow in an emulated machine. The environment may ask for
    // fewer cases (PROPTEST_CASES).
    let default = ProptestConfig::default();
    let cases = default.cases.min(if common::is_emulated() { 16 } else { 48 });
    ProptestConfig { cases, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn batches_match_single_messages(rounds in vec(round(), 1..5)) {
        let sockets = Sockets::new();
        // Each arena goes through all rounds, so that nothing left behind by one may show in the next.
        let mut arenas: Vec<_> = BACKENDS.iter().map(|one| MmsgBuf::with_backend(*one)).collect();
        for round in &rounds {
            let expected = naive(&sockets, round);
            for arena in &mut arenas {
                let outcome = batched(arena, &sockets, round);
                prop_assert_eq!(&outcome, &expected, "by {:?}", arena);
            }
        }
    }

    #[test]
    fn every_way_to_send_matches_single_messages(
        mut round in round(),
        slot in prop_oneof![1usize..60, Just(2_100)],
    ) {
        round.outgoing.retain(|one| one.parts.iter().sum::<usize>() < 65_000);
        round.shapes = vec![vec![slot]];
        let sockets = Sockets::new();
        let (_, expected) = naive(&sockets, &round);
        let expected = expected.map(|arrived| {
            let got = |one: &Received| OwnedDatagram {
                data: one.slices.concat(),
                from: Some(addr(&sockets.senders[one.from])),
                truncated: one.truncated,
            };
            arrived.iter().map(got).collect::<Vec<_>>()
        });
        for backend in BACKENDS {
            // The only test here that uses the backend of the process.
            backend.make_process_default().expect("this platform has it");
            for way in 0..3 {
                prop_assert_eq!(&by_trait(way, &sockets, &round, slot), &expected, "{:?}", backend);
            }
        }
    }
}

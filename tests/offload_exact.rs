//! A socket with `Offload` receives exactly what one without receives, for any sequence of sends: the same datagrams,
//! in order for each destination, on both backends, with and without GRO.

mod common;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use mmsg::control::ControlBuf;
use mmsg::{
    Ancillary, Backend, BatchSocket, BatchSocketExt, Ecn, Offload, RecvBatch, SendMeta, SendMsg,
    SendQueue,
};
use proptest::prelude::*;
use socket2::SockRef;

use common::{BACKENDS, is_wine, no_failure, skip};

/// Tests use the backend of the process, or try each in turn.
const BACKEND: Option<Backend> = None;

/// A datagram to send.
#[derive(Clone, Debug)]
struct Spec {
    dest: usize,
    len: usize,
    ecn: Option<Ecn>,
    gathered: bool,
}

/// A received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    payload: Vec<u8>,
    from: Option<SocketAddr>,
    tos: Option<u8>,
}

const RECEIVERS: usize = 3;

/// Three receivers: IPv4 with GRO, IPv4 without, IPv6 with.
fn receivers() -> io::Result<[Offload<UdpSocket>; RECEIVERS]> {
    let receiver = |addr: &str, gro| {
        let socket = UdpSocket::bind(addr)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        // Root may exceed the system's limit; others send fewer datagrams at a time.
        let _ = SockRef::from(&socket).set_recv_buffer_size(4 << 20);
        Ancillary::TOS.require(&socket)?;
        Offload::builder().gro(gro).build(socket)
    };
    Ok([
        receiver("127.0.0.1:0", true)?,
        receiver("127.0.0.1:0", false)?,
        receiver("[::1]:0", true)?,
    ])
}

/// Runs of similar datagrams with others between them, as servers send them.
fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let len = prop_oneof![4 => Just(100usize), 4 => Just(1_200), 1 => Just(0), 1 => Just(1), 1 => Just(5_000), 2 => 0usize..1_500];
    let ecn = prop_oneof![4 => Just(None), 1 => Just(Some(Ecn::Ect0)), 1 => Just(Some(Ecn::Ect1))];
    let gathered = prop_oneof![2 => Just(false), 1 => Just(true)];
    let stretch = (0..RECEIVERS, len, ecn, gathered, 1usize..12);
    prop::collection::vec(stretch, 1..8).prop_map(|stretches| {
        let each = stretches.into_iter().flat_map(|(dest, len, ecn, gathered, count)| {
            std::iter::repeat_n(Spec { dest, len, ecn, gathered }, count)
        });
        each.collect()
    })
}

/// Bytes that identify the datagram.
fn payload(index: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (index * 31 + i) as u8).collect()
}

/// Receives `count` datagrams.
fn receive(socket: &Offload<UdpSocket>, count: usize) -> Vec<Received> {
    let mut batch = RecvBatch::for_gro(16);
    let mut seen = Vec::new();
    while seen.len() < count {
        socket.recv_into(&mut batch).expect("what was sent arrives");
        assert!(batch.messages().all(|message| !message.truncated()));
        seen.extend(batch.iter().map(|datagram| Received {
            payload: datagram.data().to_vec(),
            from: datagram.addr(),
            tos: datagram.meta().tos,
        }));
    }
    seen
}

/// Sends with `send_batch` until nothing is left.
fn send_all(socket: &dyn BatchSocket, msgs: &[SendMsg<'_>]) {
    let mut rest = msgs;
    while !rest.is_empty() {
        let sent = socket.send_batch(rest).expect("loopback takes it");
        rest = &rest[sent..];
    }
}

/// The ways to send.
#[derive(Clone, Copy, Debug)]
enum Way {
    Slice,
    Each,
    Queue,
}

fn check(specs: &[Spec], backend: Backend, way: Way) {
    backend.make_process_default().expect("this platform has it");
    let receivers = receivers().expect("loopback sockets");
    let sender_v4 =
        Offload::new(UdpSocket::bind("127.0.0.1:0").expect("a socket")).expect("loopback");
    let sender_v6 = Offload::new(UdpSocket::bind("[::1]:0").expect("a socket")).expect("loopback");

    for (v6, sender) in [(false, &sender_v4), (true, &sender_v6)] {
        let mine: Vec<(usize, &Spec)> =
            specs.iter().enumerate().filter(|(_, spec)| (spec.dest == 2) == v6).collect();
        let payloads: Vec<Vec<u8>> = mine.iter().map(|(i, spec)| payload(*i, spec.len)).collect();
        let parts: Vec<[io::IoSlice<'_>; 2]> = payloads
            .iter()
            .map(|p| p.split_at(p.len() / 3))
            .map(|(a, b)| [io::IoSlice::new(a), io::IoSlice::new(b)])
            .collect();
        let msgs: Vec<SendMsg<'_>> = mine
            .iter()
            .zip(payloads.iter().zip(&parts))
            .map(|((_, spec), (payload, parts))| {
                let msg =
                    if spec.gathered { SendMsg::gather(parts) } else { SendMsg::new(payload) };
                let dest = receivers[spec.dest].get_ref().local_addr().expect("it is bound");
                let msg = msg.with_dest(dest);
                spec.ecn.map_or(msg, |ecn| msg.with_ecn(ecn))
            })
            .collect();
        match way {
            Way::Slice => send_all(sender, &msgs),
            Way::Each => {
                let sent = sender.send_each(&msgs, no_failure);
                assert_eq!(sent.expect("loopback takes it"), msgs.len());
            }
            Way::Queue => {
                let mut queue = SendQueue::new(1 << 20);
                msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
                while !queue.is_empty() {
                    sender.flush(&mut queue).expect("loopback takes it");
                }
            }
        }
        let sent = sender.counters();
        assert_eq!(sent.sent, mine.len() as u64);
        assert_eq!(sent.sent_bytes, mine.iter().map(|(_, spec)| spec.len as u64).sum::<u64>());
        let from = sender.get_ref().local_addr().ok();
        for (dest, receiver) in receivers.iter().enumerate() {
            let expected: Vec<Received> = mine
                .iter()
                .filter(|(_, spec)| spec.dest == dest)
                .map(|(i, spec)| Received {
                    payload: payload(*i, spec.len),
                    from,
                    // Wine sends no control messages.
                    tos: Some(spec.ecn.filter(|_| !is_wine()).map_or(0, |ecn| ecn as u8)),
                })
                .collect();
            assert_eq!(receive(receiver, expected.len()), expected, "at receiver {dest}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn received_datagrams_equal_those_sent(
        specs in specs(),
        way in prop::sample::select(&[Way::Slice, Way::Each, Way::Queue][..]),
    ) {
        for backend in BACKENDS {
            check(&specs, *backend, way);
        }
    }
}

/// Two loopback sockets with offload on both.
fn pair() -> (Offload<UdpSocket>, Offload<UdpSocket>, SocketAddr) {
    let bound = || UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let receiver = bound();
    receiver.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    let to = receiver.local_addr().expect("it is bound");
    (Offload::new(bound()).expect("loopback"), Offload::new(receiver).expect("loopback"), to)
}

fn gso(socket: &Offload<UdpSocket>) -> bool {
    if !socket.gso() {
        skip("GSO batches", "no segmentation offload on this kernel");
    }
    socket.gso()
}

#[test]
fn s6_runs_end_where_the_kernel_would_segment_wrongly() {
    let (sender, receiver, to) = pair();
    if !gso(&sender) {
        return;
    }
    let lens = [100, 100, 40, 100, 0, 100, 100, 200];
    let payloads: Vec<_> = lens.iter().enumerate().map(|(i, len)| payload(i, *len)).collect();
    let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::to(to, payload)).collect();
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), lens.len());
    // 100+100+40 | 100 | empty | 100+100 | 200
    let counters = sender.counters();
    assert_eq!((counters.sent_batches, counters.sent_segments), (2, 5));
    let seen: Vec<_> =
        receive(&receiver, lens.len()).into_iter().map(|seen| seen.payload).collect();
    assert_eq!(seen, payloads);
}

#[test]
fn s6_a_gso_batch_is_whole_however_its_buffers_lie_in_memory() {
    const COUNT: usize = 6;
    let (sender, receiver, to) = pair();
    // Lengths around the limit below which buffers are copied.
    for len in [1, 8, 33, 767, 768, 769] {
        // Bit i: whether buffer i + 1 starts where buffer i ends.
        for adjacent in 0..1 << (COUNT - 1) {
            let starts: Vec<_> = (0..COUNT)
                .scan(0, |start, i| {
                    let begins = *start;
                    *start += len + usize::from(adjacent >> i & 1 == 0);
                    Some(begins)
                })
                .collect();
            let memory = payload(adjacent, COUNT * (len + 1));
            let payloads: Vec<_> = starts.iter().map(|start| &memory[*start..][..len]).collect();
            let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::to(to, payload)).collect();
            assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), COUNT);
            let seen = receive(&receiver, COUNT);
            let seen: Vec<_> = seen.iter().map(|seen| &seen.payload[..]).collect();
            assert_eq!(seen, payloads, "{len} bytes, side by side: {adjacent:b}");
        }
    }
}

#[test]
fn s6_a_grouped_queue_keeps_the_order_of_each_destination() {
    let receivers = [pair(), pair()];
    let sender = &receivers[0].0;
    let dests = [receivers[0].2, receivers[1].2];
    let mut queue = SendQueue::new(1 << 20).grouped_by_dest();
    let order = [0, 0, 1, 0, 0, 1, 1, 0];
    let payloads: Vec<_> = (0..order.len()).map(|i| payload(i, 100)).collect();
    for (i, payload) in order.iter().zip(&payloads) {
        queue.push(&SendMsg::to(dests[*i], payload)).expect("there is space");
    }
    assert_eq!(sender.flush(&mut queue).expect("loopback takes it"), order.len());
    for (i, (_, receiver, _)) in receivers.iter().enumerate() {
        let to_it = order.iter().zip(&payloads).filter(|(to, _)| **to == i);
        let expected: Vec<_> = to_it.map(|(_, payload)| payload.clone()).collect();
        let seen = receive(receiver, expected.len());
        assert_eq!(seen.into_iter().map(|seen| seen.payload).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn s2_one_datagram_has_no_segment_size() {
    let (sender, receiver, to) = pair();
    assert_eq!(sender.send_batch(&[SendMsg::to(to, b"alone")]).expect("loopback takes it"), 1);
    assert_eq!(sender.counters().sent_batches, 0);
    assert_eq!(receive(&receiver, 1)[0].payload, b"alone");
}

#[test]
fn s3_the_socket_option_is_never_set() {
    let (sender, receiver, to) = pair();
    if !gso(&sender) {
        return;
    }
    let msgs = [SendMsg::to(to, b"one"), SendMsg::to(to, b"two")];
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), 2);
    assert_eq!(sender.counters().sent_batches, 1);
    // A long payload sent with std stays whole, so the socket's own segment size is not set.
    sender.get_ref().send_to(&[7; 3_000], to).expect("loopback takes it");
    let lens: Vec<_> = receive(&receiver, 3).iter().map(|seen| seen.payload.len()).collect();
    assert_eq!(lens, [3, 3, 3_000]);
}

#[test]
fn s12_both_ways_can_be_switched_while_running() {
    let (sender, receiver, to) = pair();
    if !gso(&sender) {
        return;
    }
    let msgs = [SendMsg::to(to, b"one"), SendMsg::to(to, b"two")];
    assert!(!sender.set_gso(false));
    assert!(!receiver.set_gro(false).expect("it is a UDP socket"));
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), 2);
    assert_eq!((sender.counters().sent, sender.counters().sent_batches), (2, 0));
    assert_eq!(receive(&receiver, 2).len(), 2);
    assert!(sender.set_gso(true));
    assert!(receiver.set_gro(true).expect("it is a UDP socket"));
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), 2);
    assert_eq!(sender.counters().sent_batches, 1);
    assert_eq!(receive(&receiver, 2).len(), 2);
    assert_eq!(receiver.counters().received_coalesced, 1);
}

#[cfg(unix)]
#[test]
fn s13_a_socket_without_offload_is_a_plain_socket() {
    let (a, b) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    let (a, b) = (Offload::new(a).expect("a Unix socket"), Offload::new(b).expect("a Unix socket"));
    assert!(!a.gso() && !a.gro());
    let sent = a.send_batch(&[SendMsg::new(b"one"), SendMsg::new(b"two")]);
    assert_eq!(sent.expect("there is space"), 2);
    let mut batch = RecvBatch::new(4, 100);
    assert_eq!(b.recv_into(&mut batch).expect("they are there"), 2);
    assert_eq!(b.counters().received, 2);
}

#[test]
fn s4_a_message_with_its_own_segment_size_is_sent_as_it_is() {
    let (sender, receiver, to) = pair();
    if !gso(&sender) {
        return;
    }
    let data = payload(3, 1_000);
    let meta = SendMeta::new().with_segment_size(300);
    let msgs = [SendMsg::to(to, b"before"), SendMsg::to(to, &data).with_meta(&meta)];
    for on in [true, false] {
        // Without GSO, the crate segments it in user space.
        assert_eq!(sender.set_gso(on), on);
        send_all(&sender, &msgs);
        let seen = receive(&receiver, 5);
        let lens: Vec<_> = seen.iter().map(|seen| seen.payload.len()).collect();
        assert_eq!(lens, [6, 300, 300, 300, 100]);
        assert_eq!(
            seen[1..].iter().flat_map(|seen| seen.payload.clone()).collect::<Vec<_>>(),
            data
        );
    }
}

#[test]
fn r3_a_short_slot_reports_truncation_and_the_next_message_is_whole() {
    let (sender, receiver, to) = pair();
    if !(gso(&sender) && receiver.gro()) {
        return;
    }
    let payloads: Vec<_> = (0..8).map(|i| payload(i, 1_000)).collect();
    let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::to(to, payload)).collect();
    let mut batch = RecvBatch::new(4, 2_048);
    for _ in 0..2 {
        assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), 8);
        // The plain socket accepts any buffer; `Offload` would reject these.
        assert_eq!(receiver.get_ref().recv_into(&mut batch).expect("it is there"), 1);
        let message = batch.messages().next().expect("one message");
        assert!(message.truncated());
        let datagrams: Vec<_> = batch.iter().map(|d| (d.data().to_vec(), d.truncated())).collect();
        let truncated = (payloads[2][..48].to_vec(), true);
        assert_eq!(
            datagrams,
            [(payloads[0].clone(), false), (payloads[1].clone(), false), truncated]
        );
    }
    sender.get_ref().send_to(b"whole", to).expect("loopback takes it");
    assert_eq!(receive(&receiver, 1)[0].payload, b"whole");
}

#[test]
fn p4_gso_and_gro_report_what_is_on() {
    let (sender, _, _) = pair();
    let off = Offload::builder().gso(false).gro(false);
    let plain = off.build(UdpSocket::bind("127.0.0.1:0").expect("a socket")).expect("loopback");
    assert!(!plain.gso() && !plain.gro());
    assert_eq!(sender.gro(), sender.set_gro(true).expect("it is a UDP socket"));
}

#[test]
fn raw_control_messages_apply_to_every_datagram_of_a_gso_batch() {
    let (sender, receiver, to) = pair();
    if !gso(&sender) {
        return;
    }
    Ancillary::TOS.require(receiver.get_ref()).expect("it is a UDP socket");
    let mut control = ControlBuf::new();
    // The number of IP_TOS on Linux, and in ws2ipdef.h for Windows. Only these systems have GSO.
    let (ip, tos) = (0, if cfg!(windows) { 3 } else { 1 });
    control.push(ip, tos, &0x48i32.to_ne_bytes()).expect("there is space");
    let msgs = [SendMsg::to(to, b"one").with_control(&control); 3];
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), 3);
    assert_eq!(sender.counters().sent_batches, 1);
    assert!(receive(&receiver, 3).iter().all(|seen| seen.tos == Some(0x48)));
}

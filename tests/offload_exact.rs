//! A socket with `Offload` receives exactly what one without receives. (`model` sends at random.)

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use mmsg::control::ControlBuf;
use mmsg::{Ancillary, Backend, BatchSocket, Offload, RecvBatch, SendMsg};

use common::skip;

/// No test here depends on the backend.
const BACKEND: Option<Backend> = None;

/// A received datagram.
struct Received {
    payload: Vec<u8>,
    tos: Option<u8>,
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
fn runs_end_where_the_kernel_would_segment_wrongly() {
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
fn one_datagram_has_no_segment_size() {
    let (sender, receiver, to) = pair();
    assert_eq!(sender.send_batch(&[SendMsg::to(to, b"alone")]).expect("loopback takes it"), 1);
    assert_eq!(sender.counters().sent_batches, 0);
    assert_eq!(receive(&receiver, 1)[0].payload, b"alone");
}

#[test]
fn the_socket_option_is_never_set() {
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
fn both_ways_can_be_switched_off_while_running() {
    let (sender, receiver, to) = pair();
    if !gso(&sender) {
        return;
    }
    let msgs = [SendMsg::to(to, b"one"), SendMsg::to(to, b"two")];
    assert!(!sender.set_gso(false));
    receiver.disable_gro().expect("it is a UDP socket");
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), 2);
    assert_eq!((sender.counters().sent, sender.counters().sent_batches), (2, 0));
    assert_eq!(receive(&receiver, 2).len(), 2);
    assert!(sender.set_gso(true));
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), 2);
    assert_eq!(sender.counters().sent_batches, 1);
    assert_eq!(receive(&receiver, 2).len(), 2);
    assert_eq!(receiver.counters().received_coalesced, 0);
}

#[cfg(unix)]
#[test]
fn a_socket_without_offload_is_a_plain_socket() {
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
fn a_message_with_its_own_segment_size_is_sent_as_it_is() {
    let (sender, receiver, to) = pair();
    if !gso(&sender) {
        return;
    }
    let data = payload(3, 1_000);
    let msgs = [SendMsg::to(to, b"before"), SendMsg::to(to, &data).with_segment_size(300)];
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
fn gso_and_gro_report_what_is_on() {
    let off = Offload::builder().gso(false).gro(false);
    let plain = off.build(UdpSocket::bind("127.0.0.1:0").expect("a socket")).expect("loopback");
    assert!(!plain.gso() && !plain.gro());
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

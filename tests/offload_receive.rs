//! What `Offload` receives: space for what the kernel coalesces, and what is counted.
#![cfg(target_os = "linux")]

mod common;

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use common::recv::{memory, recv_msgs};
use common::sockets::{addr, settle, udp4};
use common::{numbered, skip};
use mmsg::{Backend, BatchSocket, Offload, RecvBatch, RecvFlags, RecvMsg, SendMsg};

/// Whichever the process has.
const BACKEND: Option<Backend> = None;

/// The longest UDP payload: what the length field of IPv6 leaves (RFC 8200, RFC 768).
const NEEDED: usize = 65_527;

/// A sender, a receiver with GRO on, and its address; `None`, and a word on it, without offload.
fn pair(test: &str) -> Option<(Offload<UdpSocket>, Offload<UdpSocket>, SocketAddr)> {
    let (sender, receiver) = (udp4(), udp4());
    let to = addr(&receiver);
    let sender = Offload::new(sender).expect("a UDP socket");
    let receiver = Offload::new(receiver).expect("a UDP socket");
    if !(sender.gso() && receiver.gro()) {
        skip(test, "no segmentation offload on this kernel");
        return None;
    }
    Some((sender, receiver, to))
}

fn send(sender: &Offload<UdpSocket>, to: SocketAddr, payloads: &[Vec<u8>]) {
    let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::to(to, payload)).collect();
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), payloads.len());
    settle();
}

#[track_caller]
fn check_rejected(result: std::io::Result<usize>) {
    let error = result.expect_err("there is too little space");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let reason = error.to_string();
    assert!(reason.contains("65527") || reason.contains("65,527"), "{reason}");
}

#[test]
fn d19_buffers_too_small_for_gro_are_rejected_and_nothing_is_lost() {
    let name = "d19_buffers_too_small_for_gro_are_rejected_and_nothing_is_lost";
    let Some((sender, receiver, to)) = pair(name) else { return };
    let sent = numbered(40, 1_200);
    send(&sender, to, &sent);
    for slot in [1, 1_500, 2_400, NEEDED - 1] {
        check_rejected(receiver.recv_into(&mut RecvBatch::new(64, slot)));
        check_rejected(receiver.recv_into(&mut RecvBatch::new(1, slot)));
        check_rejected(receiver.recv_into_with(&mut RecvBatch::new(4, slot), RecvFlags::DONT_WAIT));
        // One message with too little space is enough, wherever it stands.
        for short in [0, 1, 2] {
            let mut memory = memory(3, NEEDED);
            memory[short].truncate(slot);
            check_rejected(receiver.recv_batch(&mut recv_msgs(&mut memory)));
            check_rejected(receiver.recv_batch(&mut recv_msgs(&mut memory)[short..=short]));
        }
        let mut parts = [vec![0; slot / 2], vec![], vec![0; slot - slot / 2]];
        let mut buffers = parts.each_mut().map(|part| IoSliceMut::new(part));
        check_rejected(receiver.recv_batch(&mut [RecvMsg::scatter(&mut buffers)]));
    }
    assert_eq!(receiver.counters().received, 0);

    let mut batch = RecvBatch::new(64, NEEDED);
    let mut came = Vec::new();
    while came.len() < sent.len() {
        receiver.recv_into(&mut batch).expect("they are there");
        assert!(!batch.iter().any(|datagram| datagram.truncated()));
        came.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
    }
    assert_eq!(came, sent);
}

#[test]
fn d19_several_buffers_may_make_up_the_space_for_gro() {
    let Some((sender, receiver, to)) = pair("d19_several_buffers_may_make_up_the_space_for_gro")
    else {
        return;
    };
    let sent = numbered(3, 100);
    send(&sender, to, &sent);
    let mut parts = [vec![0; 150], vec![0; NEEDED - 150]];
    let mut buffers = parts.each_mut().map(|part| IoSliceMut::new(part));
    let mut msgs = [RecvMsg::scatter(&mut buffers)];
    assert_eq!(receiver.recv_batch(&mut msgs).expect("it is there"), 1);
    let datagrams = msgs[0].datagrams().map(|d| d.slices().collect::<Vec<_>>().concat());
    assert!(datagrams.eq(sent));
}

#[test]
fn d19_any_buffer_will_do_without_gro_and_for_a_peek() {
    let name = "d19_any_buffer_will_do_without_gro_and_for_a_peek";
    let Some((sender, receiver, to)) = pair(name) else { return };
    assert_eq!(receiver.recv_batch(&mut []).expect("no call"), 0);
    send(&sender, to, &[b"data".to_vec()]);
    // A peek leaves the message where it is.
    let mut memory = memory(2, 2);
    let flags = RecvFlags::PEEK | RecvFlags::FULL_LEN;
    let mut msgs = recv_msgs(&mut memory);
    assert_eq!(receiver.recv_batch_with(&mut msgs, flags).expect("it is there"), 1);
    assert_eq!((msgs[0].data(), msgs[0].full_len()), (&b"da"[..], Some(4)));

    assert!(!receiver.set_gro(false).expect("a UDP socket"));
    assert_eq!(receiver.recv_into(&mut RecvBatch::new(1, 1_500)).expect("it is there"), 1);
}

#[test]
fn d29_a_peek_is_not_counted_as_received() {
    let Some((sender, receiver, to)) = pair("d29_a_peek_is_not_counted_as_received") else {
        return;
    };
    let mut batch = RecvBatch::for_gro(2);
    let mut memory = memory(2, 65_535);
    for round in 1..=2 {
        send(&sender, to, &numbered(3, 100));
        for _ in 0..2 {
            let peeked = receiver.recv_into_with(&mut batch, RecvFlags::PEEK);
            assert_eq!(peeked.expect("it is there"), 1);
            let peeked = receiver.recv_batch_with(&mut recv_msgs(&mut memory), RecvFlags::PEEK);
            assert_eq!(peeked.expect("it is there"), 1);
        }
        let received = match round {
            1 => receiver.recv_into(&mut batch),
            _ => receiver.recv_batch(&mut recv_msgs(&mut memory)),
        };
        assert_eq!(received.expect("it is there"), 1);
        let counters = receiver.counters();
        assert_eq!((counters.received, counters.received_bytes), (3 * round, 300 * round));
        assert_eq!((counters.received_coalesced, counters.received_segments), (round, 3 * round));
    }
}

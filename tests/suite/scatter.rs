//! Messages received into several buffers.

use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;

use mmsg::{BatchSocket, Flags, MmsgBuf, Offload, RecvMeta, RecvMsg, SendMsg};

use crate::common::recv::{in_one_receive, memory, payloads, recv_msgs};
use crate::common::sockets::{addr, borrow, settle, udp4};
use crate::common::{code, errno, payload};

const TEXT: &[u8] = b"HELLO-R-U-THERE";

/// Calls `test` with the plain socket and through an `Offload` without GRO.
fn each_way(test: impl Fn(&dyn BatchSocket, &UdpSocket)) {
    let socket = udp4();
    test(&socket, &socket);
    let offload = Offload::builder().gro(false).build(&socket).expect("a UDP socket");
    test(&offload, &socket);
}

/// Splits `bytes` behind each of `ends`.
fn split<'a>(mut bytes: &'a mut [u8], ends: &[usize]) -> Vec<IoSliceMut<'a>> {
    let mut parts = Vec::new();
    for len in ends {
        let (part, rest) = bytes.split_at_mut(*len);
        parts.push(IoSliceMut::new(part));
        bytes = rest;
    }
    parts.push(IoSliceMut::new(bytes));
    parts
}

#[test]
fn a_gathered_message_is_received_into_several_buffers() {
    let words = [&b"HELLO-"[..], b"R-", b"U-", b"THERE"].map(IoSlice::new);
    each_way(|way, socket| {
        let connected = udp4();
        connected.connect(addr(socket)).expect("connecting only stores the peer");
        let dialed = SendMsg::gather(&words);
        let froms: [(&dyn BatchSocket, _, _); 2] = [
            (way, dialed.with_dest(addr(socket)), addr(socket)),
            (&connected, dialed, addr(&connected)),
        ];
        for (from, msg, source) in froms {
            assert_eq!(from.send_batch(&[msg]).expect("loopback takes it"), 1);
            let mut bytes = [0xEE; 32];
            let mut parts = split(&mut bytes, &[1, 2, 4, 4]);
            let mut msgs = [RecvMsg::scatter(&mut parts)];
            assert_eq!(way.recv_batch(&mut msgs).expect("it arrives"), 1);
            let [msg] = &msgs;
            assert!(msg.slices().eq([&b"H"[..], b"EL", b"LO-R", b"-U-T", b"HERE"]));
            let message = msg.message();
            assert_eq!((msg.data(), message.data()), (&b"H"[..], &b"H"[..]));
            assert_eq!((message.addr(), message.truncated()), (Some(source), false));
            // What is only a part of the message says so.
            let parts: Vec<_> = message.datagrams().map(|d| (d.data(), d.truncated())).collect();
            assert_eq!(parts, [(&b"H"[..], true)]);
            assert_eq!((&bytes[..15], bytes[15]), (TEXT, 0xEE));
        }
    });
}

#[test]
fn messages_of_one_and_of_several_buffers_share_a_call() {
    each_way(|way, socket| {
        let to = addr(socket);
        let words = [IoSlice::new(b"R-"), IoSlice::new(b"U-"), IoSlice::new(b"THERE")];
        let sent = [SendMsg::to(to, b"HELLO-"), SendMsg::gather(&words).with_dest(to)];
        assert_eq!(way.send_batch(&sent).expect("loopback takes them"), 2);
        settle();
        let (mut one, mut other) = ([0; 32], [0; 32]);
        let mut parts = split(&mut other, &[1, 2, 4, 4]);
        let mut msgs = [RecvMsg::new(&mut one), RecvMsg::scatter(&mut parts)];
        for msgs in msgs.chunks_mut(in_one_receive(2)) {
            assert_eq!(way.recv_batch(msgs).expect("they are there"), msgs.len());
        }
        assert!(msgs[0].slices().eq([b"HELLO-"]) && msgs[0].data() == b"HELLO-");
        assert_eq!(msgs[1].slices().collect::<Vec<_>>().concat(), b"R-U-THERE");
        for (msg, is_part) in msgs.iter().zip([false, true]) {
            let message = msg.message();
            assert_eq!((message.addr(), message.truncated()), (Some(to), false));
            assert!(message.datagrams().all(|datagram| datagram.truncated() == is_part));
        }
    });
}

#[test]
fn every_length_fills_the_buffers_in_order() {
    each_way(|way, socket| {
        for len in 0..=12 {
            let data = payload(len, len);
            way.send_batch(&[SendMsg::to(addr(socket), &data)]).expect("loopback takes it");
            let (mut head, mut middle, mut tail) = ([0xEE; 2], [0xEE; 3], [0xEE; 4]);
            let mut none = [];
            let mut parts = [&mut head[..], &mut none, &mut middle, &mut tail].map(IoSliceMut::new);
            let mut msgs = [RecvMsg::scatter(&mut parts)];
            assert_eq!(way.recv_batch(&mut msgs).expect("it arrives"), 1);
            let [msg] = &msgs;
            assert_eq!(msg.message().truncated(), len > 9, "{len}");
            let is_part = |datagram: mmsg::Datagram<'_>| datagram.truncated();
            assert_eq!(msg.message().datagrams().map(is_part).collect::<Vec<_>>(), [len > 2]);
            let came: Vec<_> = msg.slices().collect();
            assert_eq!(came.concat(), data[..len.min(9)]);
            let lens: Vec<_> = came.iter().map(|part| part.len()).collect();
            let left = |before: usize, most: usize| len.saturating_sub(before).min(most);
            assert_eq!(lens, [left(0, 2), 0, left(2, 3), left(5, 4)]);
            assert!(tail[left(5, 4)..].iter().all(|byte| *byte == 0xEE));
        }
    });
}

#[test]
fn the_message_can_be_changed_and_received_again() {
    let socket = udp4();
    let (mut head, mut tail) = ([0; 2], [0; 8]);
    let mut parts = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)];
    let mut msgs = [RecvMsg::scatter(&mut parts)];
    for data in [&b"onetwo"[..], b"12345", b""] {
        socket.send_to(data, addr(&socket)).expect("loopback takes it");
        assert_eq!(socket.recv_batch(&mut msgs).expect("it arrives"), 1);
        assert_eq!(msgs[0].slices().collect::<Vec<_>>().concat(), data);
        msgs[0].data_mut().fill(b'-');
        assert_eq!(msgs[0].data(), &b"--"[..data.len().min(2)]);
    }
    msgs[0].fill(b"from a double", None, RecvMeta::default());
    assert!(msgs[0].slices().eq([&b"fr"[..], b"om a dou"]) && msgs[0].message().truncated());
}

#[test]
fn no_buffers_and_empty_ones_truncate_a_message() {
    let socket = udp4();
    let (mut none, mut empty) = ([], [IoSliceMut::new(&mut []), IoSliceMut::new(&mut [])]);
    let mut msgs = [RecvMsg::scatter(&mut none), RecvMsg::scatter(&mut empty)];
    for msg in msgs.chunks_mut(1) {
        socket.send_to(b"lost", addr(&socket)).expect("loopback takes it");
        assert_eq!(socket.recv_batch(msg).expect("it arrives"), 1);
        assert_eq!((msg[0].message().truncated(), msg[0].data()), (true, &[][..]));
        assert_eq!(msg[0].message().datagrams().count(), 1);
    }
    assert_eq!(msgs.map(|msg| msg.slices().count()), [0, 2]);
}

/// In a batch the kernel would receive what comes before such a message, and return its error to a later call.
#[test]
fn too_many_buffers_are_an_error_before_anything_is_received() {
    let (near, far) = (udp4(), udp4());
    for place in [0, 1, 4].into_iter().filter(|place| *place < in_one_receive(5)) {
        for data in [b"one", b"two"] {
            near.send_to(data, addr(&far)).expect("loopback takes it");
        }
        settle();
        let (mut memory, mut bytes) = (memory(5, 8), vec![[0; 1]; 1_025]);
        let mut parts: Vec<_> = bytes.iter_mut().map(|byte| IoSliceMut::new(byte)).collect();
        let mut msgs = recv_msgs(&mut memory);
        msgs[place] = RecvMsg::scatter(&mut parts);
        assert_eq!(code(far.recv_batch(&mut msgs)), errno::EMSGSIZE);
        far.send_to(b"innocent", addr(&near)).expect("no error waits");
        assert_eq!(payloads(&near, 1), [b"innocent"]);
        assert_eq!(payloads(&far, 2), [b"one", b"two"]);
    }
    let mut bytes = vec![[0; 1]; 1_024];
    let mut parts: Vec<_> = bytes.iter_mut().map(|byte| IoSliceMut::new(byte)).collect();
    near.send_to(TEXT, addr(&far)).expect("loopback takes it");
    let mut msgs = [RecvMsg::scatter(&mut parts)];
    assert_eq!(MmsgBuf::new().recv(borrow(&far), &mut msgs, Flags::NONE).expect("it arrives"), 1);
    assert_eq!(msgs[0].slices().collect::<Vec<_>>().concat(), TEXT);
}

#[test]
fn an_offload_counts_the_bytes_of_all_buffers() {
    let socket = Offload::builder().gro(false).build(udp4()).expect("a UDP socket");
    let to = addr(socket.get_ref());
    for len in [15, 16, 17] {
        socket.send_batch(&[SendMsg::to(to, &[1; 17][..len])]).expect("loopback takes it");
        let mut bytes = [0; 16];
        let mut parts = split(&mut bytes, &[4]);
        let mut msgs = [RecvMsg::scatter(&mut parts)];
        assert_eq!(socket.recv_batch(&mut msgs).expect("it arrives"), 1);
    }
    let counters = socket.state().counters();
    assert_eq!((counters.received, counters.received_bytes, counters.truncated), (3, 47, 1));
}

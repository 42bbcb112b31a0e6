//! Payload sizes from 0 to the maximum, in one buffer and in many, and messages longer than their buffers.

use std::io::IoSlice;
use std::net::UdpSocket;

use mmsg::{BatchSocket, RecvBatch, RecvMsg, SendMsg};

use crate::common::recv::{data_of, fill, memory, payloads, recv_msgs};
use crate::common::sockets::{addr, connected, settle, udp4, udp6};
use crate::common::{code, errno, payload};

/// Empty, one byte, a full Ethernet frame, and IPv4's maximum.
const SIZES: [usize; 4] = [0, 1, 1_472, 65_507];

fn send(from: &UdpSocket, to: &UdpSocket, data: &[u8]) {
    assert_eq!(from.send_batch(&[SendMsg::to(addr(to), data)]).expect("it is taken"), 1);
}

fn each_size_is_received(from: &UdpSocket, to: &UdpSocket, sizes: &[usize]) {
    let mut buffer = vec![0; 65_535];
    let mut batch = RecvBatch::new(2, 65_535);
    for &size in sizes {
        let data = payload(size, size);
        send(from, to, &data);
        let mut msgs = [RecvMsg::new(&mut buffer)];
        assert_eq!(to.recv_batch(&mut msgs).expect("it arrives"), 1);
        let msg = &msgs[0];
        assert_eq!((msg.message().len(), msg.message().is_empty()), (size, size == 0));
        assert!(
            msg.data() == data
                && msg.message().addr() == Some(addr(from))
                && !msg.message().truncated()
        );

        send(from, to, &data);
        assert_eq!(to.recv_into(&mut batch).expect("it arrives"), 1);
        let datagram = batch.iter().next().expect("one was counted");
        assert_eq!((datagram.len(), datagram.is_empty()), (size, size == 0));
        assert!(datagram.data() == data && datagram.addr() == Some(addr(from)));
        assert!(!datagram.truncated());
    }
}

#[test]
fn every_size_over_ipv4() {
    each_size_is_received(&udp4(), &udp4(), &SIZES);
}

#[test]
fn every_size_over_ipv6() {
    let (Some(from), Some(to)) = (udp6(), udp6()) else { return };
    // IPv6's length field excludes the IP header, which allows 20 bytes more.
    each_size_is_received(&from, &to, &[0, 1, 1_472, 65_507, 65_527]);
}

#[test]
fn too_many_buffers_are_the_kernels_error() {
    let (a, b) = connected();
    let parts = vec![IoSlice::new(b"x"); 1_025];
    assert_eq!(a.send_batch(&[SendMsg::gather(&parts[1..])]).expect("1,024 are taken"), 1);
    assert_eq!(payloads(&b, 1), [b"x".repeat(1_024)]);
    assert_eq!(code(a.send_batch(&[SendMsg::gather(&parts)])), errno::EMSGSIZE);
}

#[test]
fn messages_that_were_not_counted_keep_what_they_held() {
    let (from, to) = (udp4(), udp4());
    let mut memory = memory(3, 16);
    let mut msgs = recv_msgs(&mut memory);
    for data in [b"first", b"other", b"third"] {
        from.send_to(data, addr(&to)).expect("it is taken");
    }
    settle();
    fill(&to, &mut msgs);
    from.send_to(b"new", addr(&to)).expect("it is taken");
    assert_eq!(to.recv_batch(&mut msgs).expect("one is there"), 1);
    assert_eq!(data_of(&msgs), [&b"new"[..], b"other", b"third"]);
    assert!(msgs.iter().all(|msg| msg.message().addr() == Some(addr(&from))));
}

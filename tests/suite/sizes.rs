//! Payload sizes from nothing to the largest, in one buffer and in many.

use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;

use mmsg::{BatchSocket, RecvBatch, RecvMsg, SendMsg};

use crate::common::recv::{collect, in_one_receive, payloads, recv_msgs};
use crate::common::sockets::{addr, connected, settle, udp4, udp6};
use crate::common::{code, errno, payload};

/// Nothing, one byte, a full Ethernet frame, the most that IPv4 allows.
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
        assert_eq!((msg.len(), msg.is_empty(), msg.full_len()), (size, size == 0, Some(size)));
        assert!(msg.data() == data && msg.addr() == Some(addr(from)) && !msg.truncated());

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
    // Without the IP header in its length field, IPv6 carries 20 bytes more.
    each_size_is_received(&from, &to, &[0, 1, 1_472, 65_507, 65_527]);
}

#[test]
fn every_size_in_one_batch() {
    let (from, to) = (udp4(), udp4());
    let sent: Vec<_> = SIZES.iter().map(|&size| payload(size, size)).collect();
    let msgs: Vec<_> = sent.iter().map(|data| SendMsg::to(addr(&to), data)).collect();
    assert_eq!(from.send_batch(&msgs).expect("they are taken"), 4);
    assert!(payloads(&to, 4) == sent);
}

/// Lengths of buffers that follow no order, empty ones first, last and between.
const UNEVEN: [usize; 9] = [0, 1, 3, 0, 0, 700, 64, 9_000, 0];

#[test]
fn a_datagram_gathered_from_uneven_buffers_is_one() {
    let (from, to) = (udp4(), udp4());
    let data = payload(7, UNEVEN.iter().sum());
    let mut rest = &data[..];
    let parts = UNEVEN.map(|len| {
        let (part, after) = rest.split_at(len);
        rest = after;
        IoSlice::new(part)
    });
    let msg = SendMsg::gather(&parts).with_dest(addr(&to));
    assert_eq!(msg.len(), data.len());
    assert_eq!(from.send_batch(&[msg, msg]).expect("they are taken"), 2);
    assert!(payloads(&to, 2).iter().all(|got| *got == data));
}

#[test]
fn a_datagram_is_scattered_over_uneven_buffers() {
    let (from, to) = (udp4(), udp4());
    let capacity: usize = UNEVEN.iter().sum();
    for size in [0, 1, 2, 4, 5, 704, 767, 768, 769, capacity - 1, capacity, capacity + 1] {
        let data = payload(size, size);
        send(&from, &to, &data);
        let mut memory = UNEVEN.map(|len| vec![0xEE; len]);
        let mut buffers = memory.each_mut().map(|part| IoSliceMut::new(part));
        let mut msgs = [RecvMsg::scatter(&mut buffers)];
        assert_eq!(to.recv_batch(&mut msgs).expect("it arrives"), 1);
        let msg = &msgs[0];
        let kept = size.min(capacity);
        assert_eq!((msg.len(), msg.truncated()), (kept, size > capacity));
        let slices: Vec<_> = msg.slices().collect();
        assert!(slices.iter().all(|slice| !slice.is_empty()));
        assert_eq!(slices.concat(), data[..kept]);
        assert_eq!(msg.datagrams().count(), 1);

        // Buffer by buffer, each filled before the next, and the rest left as it was.
        let filled = memory.concat();
        assert_eq!(filled[..kept], data[..kept]);
        assert!(filled[kept..].iter().all(|byte| *byte == 0xEE));
    }
}

#[test]
fn the_bytes_in_the_first_buffer_can_be_changed_in_place() {
    let (from, to) = (udp4(), udp4());
    for lens in [[4, 8], [12, 0], [0, 12]] {
        send(&from, &to, b"0123456789");
        let mut memory = lens.map(|len| vec![0; len]);
        let mut buffers = memory.each_mut().map(|part| IoSliceMut::new(part));
        let mut msgs = [RecvMsg::scatter(&mut buffers)];
        assert_eq!(to.recv_batch(&mut msgs).expect("it arrives"), 1);
        let expected = msgs[0].data().to_vec();
        assert_eq!(msgs[0].data_mut(), expected, "buffers of {lens:?}");
        msgs[0].data_mut().fill(b'x');
        assert!(msgs[0].data().iter().all(|byte| *byte == b'x'));
    }
}

#[test]
fn no_buffers_make_an_empty_datagram() {
    let (from, to) = (udp4(), udp4());
    let none = SendMsg::gather(&[]).with_dest(addr(&to));
    let empty = [IoSlice::new(&[]), IoSlice::new(&[])];
    let msgs = [none, SendMsg::gather(&empty).with_dest(addr(&to)), SendMsg::to(addr(&to), &[])];
    assert!(msgs.iter().all(SendMsg::is_empty));
    assert_eq!(from.send_batch(&msgs).expect("they are taken"), 3);
    let got = collect(&to, 3);
    assert!(got.iter().all(|got| got.data.is_empty() && got.from == Some(addr(&from))));
}

#[test]
fn a_buffer_of_no_bytes_truncates_every_datagram() {
    let (from, to) = (udp4(), udp4());
    for _ in 0..4 {
        send(&from, &to, b"four");
    }
    let (mut none, mut empty) = ([], [IoSliceMut::new(&mut []), IoSliceMut::new(&mut [])]);
    let mut msgs =
        [RecvMsg::new(&mut []), RecvMsg::scatter(&mut none), RecvMsg::scatter(&mut empty)];
    let mut count = 0;
    while count < 3 {
        count += to.recv_batch(&mut msgs[count..]).expect("four are there");
    }
    for msg in &mut msgs {
        assert_eq!((msg.len(), msg.truncated(), msg.addr()), (0, true, Some(addr(&from))));
        assert!(msg.data().is_empty() && msg.data_mut().is_empty());
        assert_eq!((msg.slices().count(), msg.datagrams().count()), (0, 1));
    }
    assert_eq!(payloads(&to, 1), [b"four"]);
}

#[test]
fn more_buffers_than_the_kernel_takes_are_its_error() {
    let (a, b) = connected();
    let parts = vec![IoSlice::new(b"x"); 1_025];
    assert_eq!(a.send_batch(&[SendMsg::gather(&parts[1..])]).expect("1,024 are taken"), 1);
    assert_eq!(payloads(&b, 1), [b"x".repeat(1_024)]);
    assert_eq!(code(a.send_batch(&[SendMsg::gather(&parts)])), errno::EMSGSIZE);

    a.send(b"still there").expect("the queue has space");
    let mut bytes = vec![[0; 1]; 1_025];
    let mut buffers: Vec<_> = bytes.iter_mut().map(|byte| IoSliceMut::new(byte)).collect();
    let mut msgs = [RecvMsg::scatter(&mut buffers)];
    assert_eq!(code(b.recv_batch(&mut msgs)), errno::EMSGSIZE);
    assert_eq!(payloads(&b, 1), [b"still there"]);
}

#[test]
fn d13_too_many_buffers_are_rejected_before_anything_is_received() {
    let (near, far) = (udp4(), udp4());
    // Messages that the call does not offer are not looked at.
    for place in [0, 1, 4].into_iter().filter(|place| *place < in_one_receive(5)) {
        for data in [b"one", b"two"] {
            send(&near, &far, data);
        }
        settle();
        let mut memory = vec![vec![0; 8]; 5];
        let mut bytes = vec![[0; 1]; 1_025];
        let mut buffers: Vec<_> = bytes.iter_mut().map(|byte| IoSliceMut::new(byte)).collect();
        let mut msgs = recv_msgs(&mut memory);
        msgs[place] = RecvMsg::scatter(&mut buffers);
        assert_eq!(code(far.recv_batch(&mut msgs)), errno::EMSGSIZE);
        // No other call returns it, and nothing is lost.
        send(&far, &near, b"innocent");
        assert_eq!(payloads(&near, 1), [b"innocent"]);
        assert_eq!(payloads(&far, 2), [b"one", b"two"]);
    }
}

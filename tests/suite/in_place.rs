//! Payloads changed in place, and the counts of a batch.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, RecvMeta, SendMsg};

use crate::common::numbered;
use crate::common::recv::in_one_receive;
use crate::common::sockets::{addr, settle, udp4};

fn invert(data: &mut [u8]) {
    data.iter_mut().for_each(|byte| *byte = !*byte);
}

fn inverted(data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut data = data.to_vec();
    data.iter_mut().for_each(|data| invert(data));
    data
}

#[test]
fn a_datagram_is_changed_and_sent_back_from_where_it_is() {
    let (client, server) = (udp4(), udp4());
    let count = in_one_receive(20);
    let data = numbered(count, 16);
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(addr(&server), data)).collect();
    assert_eq!(client.send_batch(&msgs).expect("they are taken"), count);
    settle();
    let mut batch = RecvBatch::new(32, 64);
    assert_eq!(server.recv_into(&mut batch).expect("they are there"), count);
    let replies = batch.iter_mut().filter_map(|mut datagram| {
        invert(datagram.data_mut());
        let datagram = datagram.into_datagram();
        datagram.reply(&datagram.data()[8..])
    });
    let sent = server.send_each(replies, |i, error| panic!("reply {i}: {error}"));
    assert_eq!(sent.expect("there is space"), count);
    settle();
    assert_eq!(client.recv_into(&mut batch).expect("they are there"), count);
    let expected = inverted(&data);
    assert!(batch.iter().map(|datagram| datagram.data()).eq(expected.iter().map(|d| &d[8..])));
}

const SOURCE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

/// Adds messages as if they had been received.
fn push(batch: &mut RecvBatch, messages: &[(&[u8], Option<u16>)]) {
    batch.clear();
    for (data, segment_size) in messages {
        let mut meta = RecvMeta::default();
        meta.segment_size = *segment_size;
        assert!(batch.push(Some(SOURCE), data, meta));
    }
}

#[test]
fn coalesced_messages_are_changed_segment_by_segment() {
    let mut batch = RecvBatch::new(8, 8);
    for _ in 0..2 {
        push(&mut batch, &[(b"aabbc", Some(2)), (b"single", None), (b"ddee", Some(2))]);
        let numbered: Vec<_> = batch
            .iter_mut()
            .enumerate()
            .map(|(i, mut datagram)| {
                let before = datagram.data().to_vec();
                datagram.data_mut().fill(b'0' + i as u8);
                assert_eq!(datagram.addr(), Some(SOURCE));
                (before, datagram.truncated())
            })
            .collect();
        let expected = [&b"aa"[..], b"bb", b"c", b"single", b"dd", b"ee"];
        assert_eq!(numbered, expected.map(|data| (data.to_vec(), false)));
        assert_eq!((batch.datagram_count(), batch.truncated()), (6, false));
        assert!(batch.messages().map(|m| m.data()).eq([&b"00112"[..], b"333333", b"4455"]));
    }
    // One message is too long for its slot: one segment is truncated and the next one lost.
    push(&mut batch, &[(b"aabbccdde", Some(3)), (b"abcdefghij", None)]);
    let got: Vec<_> = batch.iter_mut().map(|d| (d.len(), d.truncated())).collect();
    assert_eq!(got, [(3, false), (3, false), (2, true), (8, true)]);
    assert_eq!((batch.datagram_count(), batch.truncated()), (4, true));
}

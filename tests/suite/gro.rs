//! GRO: coalesced messages are split into their datagrams.

use std::net::UdpSocket;

use mmsg::control::ControlBuf;
use mmsg::{BatchSocket, RecvBatch, SendMsg};

use crate::common::linux::{SOL_UDP, UDP_GRO, UDP_SEGMENT, set_option};
use crate::common::sockets::{addr, settle, udp4, udp6};
use crate::common::{payload, skip};

/// A sender and a receiver with GRO on, for each family; none where the kernel has no GRO.
fn pairs() -> Vec<(UdpSocket, UdpSocket)> {
    let pairs = [Some((udp4(), udp4())), udp6().zip(udp6())].into_iter().flatten();
    let has_gro = |(_, to): &(UdpSocket, UdpSocket)| {
        let set = set_option(to, SOL_UDP, UDP_GRO, 1);
        if let Err(error) = &set {
            skip(format_args!("no GRO: {error}"));
        }
        set.is_ok()
    };
    pairs.filter(has_gro).collect()
}

/// Sends `data` as one GSO batch; false where the kernel has no GSO.
fn send_gso_batch(from: &UdpSocket, to: &UdpSocket, data: &[u8], segment: u16) -> bool {
    let mut control = ControlBuf::new();
    control.push(SOL_UDP, UDP_SEGMENT, &segment.to_ne_bytes()).expect("there is space");
    let msg = SendMsg::to(addr(to), data).with_control(&control);
    match from.send_batch(&[msg]) {
        Ok(count) => assert_eq!(count, 1),
        Err(error) => {
            skip(format_args!("no GSO: {error}"));
            return false;
        }
    }
    settle();
    true
}

/// Also if it ends between two datagrams: then an empty one follows.
#[test]
fn a_truncated_coalesced_message_gives_its_whole_datagrams_and_says_so() {
    let cases = [(250, 2, 50), (301, 3, 1), (99, 0, 99), (100, 1, 0), (300, 3, 0), (1_000, 10, 0)];
    for ((from, to), (slot, whole, rest)) in pairs().iter().flat_map(|p| cases.map(|c| (p, c))) {
        let data = payload(slot, 1_037);
        if !send_gso_batch(from, to, &data, 100) {
            return;
        }
        let datagrams = data.chunks(100).take(whole).map(|datagram| (datagram.to_vec(), false));
        let expected: Vec<_> =
            datagrams.chain([(data[100 * whole..][..rest].to_vec(), true)]).collect();
        let mut batch = RecvBatch::new(1, slot);
        assert_eq!(to.recv_into(&mut batch).expect("it is there"), 1);
        assert!(batch.messages().all(|message| message.truncated()));
        let got = batch.iter().map(|datagram| (datagram.data().to_vec(), datagram.truncated()));
        assert_eq!(got.collect::<Vec<_>>(), expected);
    }
}

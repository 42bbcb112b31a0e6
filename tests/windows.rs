//! Windows only: metadata, options, batches and errors on real sockets.
//!
//! Wine supports fewer control messages than Windows. Tests of the others are skipped by name there;
//! `src/sys/windows/tests.rs` tests their bytes.
#![cfg(windows)]

mod common;

use std::io;
use std::net::{IpAddr, UdpSocket};

use mmsg::{Ancillary, BatchSocket, Ecn, Offload, RecvBatch, RecvMeta, SendMeta, SendMsg};

use common::recv::payloads;
use common::sockets::{addr, dual_stack, settle, udp4, udp6};
use common::{is_wine, skip};

const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Msg);

/// A loopback socket for each family that the machine has.
fn sockets() -> impl Iterator<Item = UdpSocket> {
    [Some(udp4()), udp6()].into_iter().flatten()
}

/// Sends a message with these options and returns the metadata that it arrives with.
fn metadata(receiver: &UdpSocket, meta: SendMeta) -> RecvMeta {
    let to = addr(receiver);
    let sender = UdpSocket::bind((to.ip(), 0)).expect("a socket of the family");
    let sent = sender.send_batch(&[SendMsg::to(to, b"data").with_meta(&meta)]);
    assert_eq!(sent.expect("the options are taken"), 1, "{meta:?}");
    let mut batch = RecvBatch::new(4, 64);
    assert_eq!(receiver.recv_into(&mut batch).expect("one is there"), 1);
    let datagram = batch.iter().next().expect("one datagram");
    assert_eq!((datagram.data(), datagram.addr()), (&b"data"[..], Some(addr(&sender))));
    *datagram.meta()
}

#[test]
fn the_destination_and_the_interface_arrive() {
    for socket in sockets() {
        assert_eq!(Ancillary::DEST.enable(&socket).expect("it is set"), Ancillary::DEST);
        let meta = metadata(&socket, SendMeta::new());
        assert_eq!(meta.dest, Some(addr(&socket).ip()));
        assert!(meta.interface.is_some_and(|index| index > 0), "{meta:?}");
        assert_eq!(meta.reply_meta().source, meta.dest);
    }
}

#[test]
fn the_hop_limit_arrives() {
    for socket in sockets() {
        assert_eq!(Ancillary::HOP_LIMIT.enable(&socket).expect("it is set"), Ancillary::HOP_LIMIT);
        assert!(metadata(&socket, SendMeta::new()).hop_limit.is_some_and(|hops| hops > 0));
        let meta = metadata(&socket, SendMeta::new().with_hop_limit(33));
        if is_wine() {
            skip("Wine sends no control messages");
        } else {
            assert_eq!(meta.hop_limit, Some(33));
        }
    }
}

#[test]
fn the_tos_byte_arrives() {
    for socket in sockets() {
        assert_eq!(Ancillary::TOS.enable(&socket).expect("it is set"), Ancillary::TOS);
        assert_eq!(metadata(&socket, SendMeta::new()).ecn(), Some(Ecn::NotEct));
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let meta = metadata(&socket, SendMeta::new().with_tos(ecn as u8));
            if is_wine() {
                skip("Wine sends no control messages");
            } else {
                assert_eq!(meta.ecn(), Some(ecn));
            }
        }
    }
}

#[test]
fn a_reply_leaves_from_the_address_that_was_asked() {
    for socket in sockets() {
        let _ = Ancillary::DEST.enable(&socket).expect("it is set");
        let meta = metadata(&socket, SendMeta::new());
        assert_eq!(metadata(&socket, meta.reply_meta()).dest, meta.dest);
    }
}

#[test]
fn a_dual_stack_socket_reports_both_families() {
    let Some(socket) = dual_stack() else { return };
    let wanted = Ancillary::DEST | Ancillary::HOP_LIMIT;
    assert_eq!(wanted.enable(&socket).expect("it is set"), wanted);
    for ip in ["127.0.0.1", "::1"] {
        let ip: IpAddr = ip.parse().expect("an address");
        let sender = UdpSocket::bind((ip, 0)).expect("a loopback socket");
        sender.send_to(b"data", (ip, addr(&socket).port())).expect("it is taken");
        let mut batch = RecvBatch::new(1, 64);
        socket.recv_into(&mut batch).expect("one is there");
        let datagram = batch.iter().next().expect("one datagram");
        if datagram.meta().dest.is_none() && ip.is_ipv4() && is_wine() {
            skip("Wine reports IPv6 alone");
            continue;
        }
        let destination = datagram.meta().dest.map(|ip| ip.to_canonical());
        assert_eq!(destination, Some(ip));
        assert!(datagram.meta().hop_limit.is_some());
        let reply = datagram.reply(b"reply").expect("it has a source");
        assert_eq!(socket.send_batch(&[reply]).expect("it is sent"), 1);
        let mut buffer = [0; 8];
        let (len, _) = sender.recv_from(&mut buffer).expect("the reply");
        assert_eq!(&buffer[..len], b"reply");
    }
}

#[test]
fn options_that_windows_lacks_are_unsupported() {
    let socket = udp4();
    let all = Ancillary::TIMESTAMP | Ancillary::DROPPED | Ancillary::ERRORS | Ancillary::GRO;
    assert_eq!(all.enable(&socket).expect("no error of the socket"), Ancillary::NONE);
    let meta = SendMeta::new().with_transmit_time(std::time::Duration::from_nanos(1));
    let late = SendMsg::to(addr(&socket), b"late").with_meta(&meta);
    let error = socket.send_batch(&[late]).expect_err("no transmit times");
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn a_receive_takes_one_message() {
    for (socket, nonblocking) in sockets().zip([false, true]) {
        socket.set_nonblocking(nonblocking).expect("a mode");
        for i in 0..10u8 {
            socket.send_to(&[i; 3], addr(&socket)).expect("it is taken");
        }
        settle();
        let mut batch = RecvBatch::new(64, 64);
        for i in 0..10u8 {
            assert_eq!(socket.recv_into(&mut batch).expect("one is there"), 1);
            assert!(batch.iter().all(|datagram| datagram.data() == [i; 3]));
        }
    }
}

#[test]
fn an_unreachable_port_does_not_fail_a_receive_of_others() {
    for socket in sockets() {
        let gone = UdpSocket::bind((addr(&socket).ip(), 0)).expect("a port");
        // It hears only itself. (Another test could get the port of a closed socket.)
        gone.connect(addr(&gone)).expect("connecting only stores the peer");
        for _ in 0..3 {
            socket.send_to(b"to nobody", addr(&gone)).expect("it is taken");
        }
        settle();
        socket.send_to(b"to myself", addr(&socket)).expect("it is taken");
        assert_eq!(payloads(&socket, 1), [b"to myself"]);
    }
}

#[test]
fn offload_sends_what_the_plain_socket_would() {
    let receiver = udp4();
    let sender = Offload::new(udp4()).expect("nothing is set on it");
    assert!(!sender.state().gro(), "nothing is coalesced");
    if is_wine() {
        assert!(!sender.state().gso());
        skip("Wine has no segmentation");
    }
    let data: Vec<Vec<u8>> = (0..50u8).map(|i| vec![i; 100 - usize::from(i % 7)]).collect();
    let to = addr(&receiver);
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(to, data)).collect();
    assert_eq!(sender.send_batch(&msgs).expect("all are sent"), 50);
    assert_eq!(payloads(&receiver, 50), data);
    let whole = SendMsg::to(to, b"aabbc").with_segment_size(2);
    assert_eq!(sender.send_batch(&[whole]).expect("it is sent"), 1);
    assert_eq!(payloads(&receiver, 3), [&b"aa"[..], b"bb", b"c"]);
}

//! Metadata of messages received on loopback, in all ways.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::SystemTime;

use crate::kit::receive::{OwnedMessage, Way};
use crate::kit::{LOOPBACK, addr, at, dual_stack, enable_all, has_timestamps, index, udp4, udp6};
use mmsg::{Ancillary, BatchSocket, Ecn, RecvMeta, SendMeta, SendMsg};
use socket2::SockRef;

/// All metadata of received messages.
const RECEIVING: [Ancillary; 8] = [
    Ancillary::DEST,
    Ancillary::TOS,
    Ancillary::HOP_LIMIT,
    Ancillary::TIMESTAMP,
    Ancillary::HARDWARE_TIMESTAMP,
    Ancillary::GRO,
    Ancillary::DROPPED,
    Ancillary::ORIGINAL_DEST,
];

/// All of them, and the options that fill the error queue.
fn everything() -> Ancillary {
    let others = Ancillary::ERRORS | Ancillary::SEND_TIMESTAMP;
    RECEIVING.into_iter().fold(others, |all, option| all | option)
}

fn send(from: &UdpSocket, msg: SendMsg<'_>) {
    let sent = from.send_batch(&[msg]);
    assert_eq!(sent.expect("loopback takes it"), 1);
}

/// Overflows a small receive buffer, empties it and returns how many datagrams were lost.
fn overflow(from: &UdpSocket, to: SocketAddr, full: &UdpSocket) -> u32 {
    const SENT: u32 = 400;
    let capacity = SockRef::from(full).recv_buffer_size().expect("its receive buffer");
    assert!(capacity < SENT as usize * 256, "{capacity} bytes are too many for this test");
    for _ in 0..SENT {
        from.send_to(&[0; 100], to).expect("loopback takes it");
    }
    full.set_nonblocking(true).expect("an open socket");
    let kept = (0..).take_while(|_| full.recv(&mut [0; 100]).is_ok()).count();
    full.set_nonblocking(false).expect("an open socket");
    let kept = u32::try_from(kept).expect("at most what was sent");
    assert!((1..SENT).contains(&kept), "{kept} fit");
    SENT - kept
}

#[test]
fn each_option_fills_its_fields_and_no_other() {
    let here = SystemTime::UNIX_EPOCH;
    let full = |to: SocketAddr| {
        let mut full = RecvMeta::default();
        (full.dest, full.interface) = (Some(to.ip()), Some(index(LOOPBACK)));
        full.local = full.dest;
        (full.tos, full.hop_limit) = (Some(0xb9), Some(9));
        (full.timestamp, full.original_dest) = (Some(here), Some(to));
        full
    };
    for bind in [udp4, udp6] {
        let from = bind();
        // By the options of the socket: not every system sends both with an IPv4 datagram.
        let handle = SockRef::from(&from);
        let is_v4 = addr(&from).is_ipv4();
        let set = if is_v4 {
            handle.set_tos_v4(0xb9).and_then(|()| handle.set_ttl_v4(9))
        } else {
            handle.set_tclass_v6(0xb9).and_then(|()| handle.set_unicast_hops_v6(9))
        };
        set.expect("a UDP socket");
        for option in RECEIVING {
            let to = bind();
            let full = full(addr(&to));
            let mut expected = RecvMeta::default();
            let taken = option.enable(&to).expect("it is a socket");
            match if cfg!(target_os = "linux") { option } else { taken } {
                Ancillary::DEST => {
                    (expected.dest, expected.interface) = (full.dest, full.interface);
                    expected.local = full.local;
                }
                Ancillary::TOS => expected.tos = full.tos,
                Ancillary::HOP_LIMIT => expected.hop_limit = full.hop_limit,
                Ancillary::TIMESTAMP => expected.timestamp = full.timestamp,
                Ancillary::ORIGINAL_DEST => expected.original_dest = full.original_dest,
                // Device timestamps, segment sizes and losses do not occur here.
                _ => {}
            }
            for way in Way::ALL {
                send(&from, SendMsg::to(addr(&to), b"data"));
                let mut got = way.receive(&to, 1).remove(0);
                got.meta.timestamp = got.meta.timestamp.map(|_| here);
                // Of IPv4 datagrams Linux alone reports this host's own address, and FreeBSD no interface.
                if is_v4 && cfg!(not(target_os = "linux")) {
                    (got.meta.interface, got.meta.local) = (expected.interface, expected.local);
                }
                assert_eq!(got.meta, expected, "{option:?} {way:?}");
            }
        }
    }
}

/// Checks all fields at once, for a message from `from` to `to`, an address of `receiver`.
fn check_everything(from: &UdpSocket, receiver: &UdpSocket, to: SocketAddr) {
    let reported_as = match to.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        v6 => v6,
    };
    let lost = overflow(from, to, receiver);
    for (i, way) in Way::ALL.into_iter().enumerate() {
        let (tos, hops) = (0xb8 | i as u8 & 3, 100 + i as u8);
        let payload: Vec<u8> = (0..450u16).map(|i| i as u8).collect();
        let meta = SendMeta::new().with_tos(tos).with_hop_limit(hops);
        let before = SystemTime::now();
        send(from, SendMsg::to(to, &payload).with_meta(&meta).with_segment_size(100));
        let single = SendMsg::to(to, b"single").with_meta(&meta);
        send(from, single.with_segment_size(6).with_ecn(Ecn::Ce));
        let got = way.receive(receiver, 2);
        let after = SystemTime::now();

        let message = OwnedMessage { raw: Vec::new(), ..got[0].clone() };
        assert!(!message.control_truncated && !message.truncated, "{way:?} {message:?}");
        assert_eq!(message.addr.map(|a| a.ip().to_canonical()), Some(addr(from).ip()));
        assert!(message.datagrams.iter().map(Vec::as_slice).eq(payload.chunks(100)));
        assert_eq!(message.data, payload);
        let stamp = message.meta.timestamp.expect("asked for");
        assert!(before <= stamp && stamp <= after, "{before:?} {stamp:?} {after:?}");
        let mut expected = RecvMeta::default();
        expected.dest = Some(reported_as);
        expected.local = Some(reported_as);
        expected.interface = Some(index(LOOPBACK));
        (expected.tos, expected.hop_limit) = (Some(tos), Some(hops));
        expected.timestamp = Some(stamp);
        expected.segment_size = Some(100);
        expected.dropped = Some(lost);
        expected.original_dest = Some(to);
        assert_eq!(message.meta, expected, "{way:?}");

        assert_eq!(got[1].datagrams, [b"single"]);
        assert_eq!((got[1].meta.segment_size, got[1].meta.ecn()), (None, Some(Ecn::Ce)));
        assert_eq!(got[1].meta.dropped, Some(lost), "the count is of all, not since the last");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn all_metadata_fits_at_once() {
    if !has_timestamps() {
        return;
    }
    for (from, ip) in [(udp4(), "127.0.0.1"), (udp6(), "::1")] {
        let receiver = dual_stack();
        SockRef::from(&receiver).set_recv_buffer_size(8192).expect("a small buffer");
        enable_all(&receiver, everything());
        check_everything(&from, &receiver, at(ip, &receiver));
    }
}

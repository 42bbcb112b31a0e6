//! GSO over devices and routes that reject it, in network namespaces.
//!
//! Needs root, or the right to make namespaces, and the program `ip`.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::common::linux::{cpus, in_namespace, run_on};
use crate::common::{TIME_LIMIT, numbered, skip};
use crate::veth::{DEVICE, FAR, FAR_ROUTED, Far, NEAR, ip, with_far_end, without_checksum_offload};
use mmsg::offload::GsoStatus;
use mmsg::options::Fragmentation;
use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

fn bound(addr: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((addr, 0)).expect("an address of this namespace");
    socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    socket
}

/// A sender at the near end and a receiver at the far end; prints why and returns `None` if the kernel has no GSO.
fn pair(far: &Far, gro: bool) -> Option<(Offload<UdpSocket>, Offload<UdpSocket>)> {
    // Packets that two CPUs send through a device may overtake each other, fragments above all.
    run_on(cpus()[0]);
    let near = Offload::new(bound(NEAR)).expect("a UDP socket");
    let receiver = far.enter(|| bound(Ipv4Addr::UNSPECIFIED));
    let receiver = Offload::builder().gro(gro).build(receiver).expect("a UDP socket");
    if !near.state().gso() {
        skip("no segmentation offload on this kernel");
        return None;
    }
    // The first datagram resolves the neighbour.
    near.get_ref().send_to(b"first", at(FAR, &receiver)).expect("the device is up");
    assert_eq!(receive(&receiver, 1), [b"first"]);
    Some((near, receiver))
}

/// The receiver's port at address `ip`.
fn at(ip: Ipv4Addr, receiver: &Offload<UdpSocket>) -> SocketAddr {
    let port = receiver.get_ref().local_addr().expect("it is bound").port();
    SocketAddr::from((ip, port))
}

fn msgs(to: SocketAddr, payloads: &[Vec<u8>]) -> Vec<SendMsg<'_>> {
    payloads.iter().map(|payload| SendMsg::to(to, payload)).collect()
}

/// Receives exactly `count` datagrams, none of them truncated.
fn receive(receiver: &Offload<UdpSocket>, count: usize) -> Vec<Vec<u8>> {
    let mut batch = RecvBatch::for_gro(16);
    let mut payloads = Vec::new();
    while payloads.len() < count {
        receiver.recv_into(&mut batch).expect("what was sent arrives");
        assert!(batch.messages().all(|message| !message.truncated()));
        payloads.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
    }
    payloads
}

/// Linux before 6.11 returns `EIO`; later ones compute the checksums themselves.
#[test]
fn a_device_without_checksum_offload_carries_everything_one_way_or_the_other() {
    with_far_end(|far| {
        if let Err(error) = without_checksum_offload(DEVICE) {
            return skip(format_args!("its checksum offload stays on: {error}"));
        }
        for gro in [false, true] {
            let Some((near, receiver)) = pair(&far, gro) else { return };
            let payloads = numbered(48, 1_200);
            let msgs = msgs(at(FAR, &receiver), &payloads);
            for _ in 0..2 {
                assert_eq!(near.send_batch(&msgs).expect("the device takes it"), 48);
                assert_eq!(receive(&receiver, 48), payloads);
            }
            let counted = near.state().counters();
            assert_eq!((counted.sent, counted.rejected_size), (96, 0));
            // At most one batch is tried: then GSO is off for a minute.
            let rejected = counted.rejected_unsupported;
            assert!(rejected <= 1);
            let (segments, status) =
                if rejected == 0 { (96, GsoStatus::On) } else { (0, GsoStatus::Rejected) };
            assert_eq!((counted.sent_segments, near.state().gso_status()), (segments, status));
        }
    });
}

/// The first batch fills the send buffer for three seconds, while the kernel looks for an address that no host has.
#[test]
fn the_rest_of_a_call_does_not_wait_for_another_timeout() {
    with_far_end(|far| {
        let Some((near, _receiver)) = pair(&far, false) else { return };
        SockRef::from(near.get_ref()).set_send_buffer_size(1).expect("the least there is");
        near.get_ref().set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
        let nobody = SocketAddr::from(([10, 77, 0, 3], 9));
        let (short, long) = (numbered(10, 900), numbered(10, 1_000));
        let two = [msgs(nobody, &short), msgs(nobody, &long)].concat();
        // On a machine that is a second late, the next datagram finds space: hence several tries.
        let sent = || near.send_batch(&two).expect("the first batch is taken");
        assert!((0..5).any(|_| sent() == 10));
    });
}

#[test]
fn a_route_with_a_small_mtu_gets_fragments_and_gso_stays_on() {
    with_far_end(|far| {
        ip(&format!("route add {FAR_ROUTED}/32 dev {DEVICE} mtu 600")).expect("a route");
        for gro in [false, true] {
            let Some((near, receiver)) = pair(&far, gro) else { return };
            let (narrow, wide) = (at(FAR_ROUTED, &receiver), at(FAR, &receiver));
            // A single datagram of this length is delivered.
            let long = numbered(16, 1_000);
            near.get_ref().send_to(&long[0], narrow).expect("it is sent in fragments");
            assert_eq!(receive(&receiver, 1), long[..1]);

            // Two such batches in a call: one is tried. Messages before it use GSO; so does the next call for messages
            // that fit the route or have another destination.
            let short = numbered(16, 500);
            let more = numbered(16, 1_100);
            let all = [msgs(narrow, &short), msgs(narrow, &long), msgs(narrow, &more)].concat();
            for round in 1..=2 {
                assert_eq!(near.send_batch(&all).expect("the device takes it"), 48);
                let expected = [&short[..], &long, &more].concat();
                assert_eq!(receive(&receiver, 48), expected);
                let counted = near.state().counters();
                assert_eq!((counted.rejected_size, counted.rejected_unsupported), (round, 0));
                assert_eq!(counted.sent_segments, round * 16);
                assert!(near.state().gso());
            }
            let before = near.state().counters();
            assert_eq!(near.send_batch(&msgs(wide, &long)).expect("the device takes it"), 16);
            assert_eq!(receive(&receiver, 16), long);
            let counted = near.state().counters();
            assert_eq!(counted.sent_segments - before.sent_segments, 16);
            assert_eq!(counted.rejected_size, before.rejected_size);
        }
    });
}

/// One of 51 destinations is over its MTU, as a forged ICMP message can make it.
#[test]
fn a_destination_over_its_mtu_does_not_take_gso_from_the_others() {
    with_far_end(|far| {
        ip(&format!("route add {FAR_ROUTED}/32 dev {DEVICE} mtu 600")).expect("a route");
        let Some((near, receiver)) = pair(&far, true) else { return };
        let (narrow, wide) = (at(FAR_ROUTED, &receiver), at(FAR, &receiver));
        let payloads = numbered(102, 650);
        for sick in [0, 25, 50] {
            let to = |i: usize| if i / 2 == sick { narrow } else { wide };
            let msgs: Vec<_> =
                payloads.iter().enumerate().map(|(i, data)| SendMsg::to(to(i), data)).collect();
            let before = near.state().counters();
            assert_eq!(near.send_batch(&msgs).expect("the device takes it"), 102);
            assert_eq!(receive(&receiver, 102), payloads);
            let after = near.state().counters();
            assert_eq!(after.sent_segments - before.sent_segments, 100, "{sick}");
            assert!(after.send_calls - before.send_calls <= 3, "{sick}");
        }
        // With the don't-fragment bit a datagram fails by itself. What follows goes by GSO.
        Fragmentation::Probe.set(near.get_ref()).expect("an option of every Linux");
        let msgs = [&[SendMsg::to(narrow, &[0; 2_000]); 2][..], &msgs(wide, &payloads)].concat();
        let before = near.state().counters();
        let mut failed = Vec::new();
        let sent = near.send_each(&msgs, |i, error| failed.push((i, error.raw_os_error())));
        assert_eq!(sent.expect("the others are taken"), 104);
        assert_eq!(failed, [0, 1].map(|i| (i, Some(libc::EMSGSIZE))));
        assert_eq!(receive(&receiver, 102), payloads);
        // After an error `send_each` offers one message, then more.
        assert!(near.state().counters().sent_segments - before.sent_segments > 90);
    });
}

/// A call tries at most nine of them, and shorter segments still go by GSO.
#[test]
fn any_number_of_destinations_over_their_mtu_costs_a_few_calls() {
    in_namespace(|| {
        ip("route add local 10.78.0.0/16 dev lo mtu 600 table local").expect("a route");
        let receiver = bound(Ipv4Addr::UNSPECIFIED);
        SockRef::from(&receiver).set_recv_buffer_size(1 << 20).expect("a size");
        let receiver = Offload::builder().gro(false).build(receiver).expect("a UDP socket");
        let near = Offload::new(bound(Ipv4Addr::UNSPECIFIED)).expect("a UDP socket");
        if !near.state().gso() {
            return skip("no segmentation offload on this kernel");
        }
        let narrow = |host: usize| at(Ipv4Addr::new(10, 78, 0, host as u8), &receiver);
        for destinations in [1, 8, 9, 64] {
            // Each destination twice, and another one at the end whose segments are short.
            let pairs = (0..128).map(|i| narrow(i % destinations + 1)).flat_map(|to| [to; 2]);
            let payloads = [numbered(256, 800), numbered(16, 500)].concat();
            let all = pairs.chain([narrow(100); 16]).zip(&payloads);
            let msgs: Vec<_> = all.map(|(to, payload)| SendMsg::to(to, payload)).collect();
            let before = near.state().counters();
            assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), 272);
            let mut plain = RecvBatch::new(272, 1_500);
            while plain.message_count() < 272 {
                receiver.recv_more(&mut plain).expect("what was sent is there");
            }
            assert!(plain.iter().map(|datagram| datagram.data()).eq(&payloads));
            let counted = near.state().counters();
            let rejected = counted.rejected_size - before.rejected_size;
            assert_eq!(rejected, destinations.min(9) as u64);
            assert_eq!(counted.sent_segments - before.sent_segments, 16, "{destinations}");
            let calls = counted.send_calls - before.send_calls;
            assert!(calls <= 2 * rejected + 1, "{destinations}: {calls} calls");
        }
    });
}

/// Each batch is rejected for its own, shorter size, so no rejection tells of the next.
#[test]
fn a_call_meets_at_most_16_rejections() {
    in_namespace(|| {
        ip("route add local 10.78.0.0/16 dev lo mtu 600 table local").expect("a route");
        let near = Offload::new(bound(Ipv4Addr::UNSPECIFIED)).expect("a UDP socket");
        if !near.state().gso() {
            return skip("no segmentation offload on this kernel");
        }
        // What `first` is rejected for, `second` is not, and `first` still is after all that `second` was rejected for.
        let (first, second) =
            (at(Ipv4Addr::new(10, 78, 0, 1), &near), at(Ipv4Addr::new(10, 78, 0, 2), &near));
        let data = [0; 1_000];
        let falling = |to, from: usize, count: usize| {
            (0..count).flat_map(move |i| [(to, from - i); 2]).collect::<Vec<_>>()
        };
        for (sizes, expected) in [
            (
                [falling(first, 900, 1), falling(second, 900, 9), falling(first, 900, 1)].concat(),
                10,
            ),
            (falling(first, 900, 100), 16),
        ] {
            let msgs: Vec<_> =
                sizes.iter().map(|(to, len)| SendMsg::to(*to, &data[..*len])).collect();
            let before = near.state().counters();
            assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), msgs.len());
            let counted = near.state().counters();
            assert_eq!(counted.rejected_size - before.rejected_size, expected);
        }
    });
}

#[test]
fn a_segment_size_beyond_the_route_mtu_is_segmented_in_user_space() {
    with_far_end(|far| {
        ip(&format!("route add {FAR_ROUTED}/32 dev {DEVICE} mtu 600")).expect("a route");
        let Some((near, receiver)) = pair(&far, true) else { return };
        let data = numbered(1, 3_500).concat();
        let msg = SendMsg::to(at(FAR_ROUTED, &receiver), &data).with_segment_size(1_000);
        assert_eq!(near.send_batch(&[msg; 2]).expect("the device takes it"), 2);
        let segments: Vec<_> = data.chunks(1_000).map(<[u8]>::to_vec).collect();
        assert_eq!(receive(&receiver, 8), [segments.clone(), segments].concat());
        let counted = near.state().counters();
        assert_eq!((near.state().gso(), counted.rejected_size, counted.unsent), (true, 1, 0));
    });
}

/// A socket that sees each IPv4 packet as it arrives at the far end.
fn tap(far: &Far) -> io::Result<Socket> {
    // packet(7): the protocol is in network byte order, and packets start with the IP header.
    let protocol = Protocol::from(i32::from((libc::ETH_P_IP as u16).to_be()));
    let tap = far.enter(|| Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol)))?;
    tap.set_read_timeout(Some(TIME_LIMIT))?;
    Ok(tap)
}

/// The don't-fragment bits of the packets to `port`, until they have brought `bytes` bytes. An unsegmented GSO batch
/// is one packet.
fn dont_fragment_bits(mut tap: &Socket, port: u16, mut bytes: usize) -> Vec<bool> {
    let (mut bits, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while bytes > 0 {
        let len = tap.read(&mut buffer).expect("what was sent comes by");
        // RFC 791, section 3.1, without IP options; RFC 768.
        let (ip, udp) = buffer[..len].split_at(20);
        if i32::from(ip[9]) == libc::IPPROTO_UDP && udp[2..4] == port.to_be_bytes() {
            bits.push(ip[6] & 0x40 != 0);
            bytes = bytes.checked_sub(udp.len() - 8).expect("nothing else is sent there");
        }
    }
    bits
}

#[test]
fn the_dont_fragment_bit_is_as_documented() {
    with_far_end(|far| {
        // For each setting, the bit of single datagrams, of a batch that fits the MTU of 1,500 as a whole, and of one
        // that does not. `None` is the kernel's default in a new namespace.
        let cases = [
            (None, [true, true, false]),
            (Some(Fragmentation::Local), [true, true, false]),
            (Some(Fragmentation::Probe), [true; 3]),
            (Some(Fragmentation::Never), [true; 3]),
            (Some(Fragmentation::Allow), [false; 3]),
        ];
        for (setting, expected) in cases {
            let Some((near, receiver)) = pair(&far, false) else { return };
            if let Some(setting) = setting {
                setting.set(near.get_ref()).expect("an option of every Linux");
            }
            let tap = match tap(&far) {
                Ok(tap) => tap,
                Err(error) => return skip(format_args!("no packet socket: {error}")),
            };
            let to = at(FAR, &receiver);
            let ways = [(false, 16, 1_200), (true, 4, 300), (true, 16, 1_200)];
            for ((gso, count, len), expected) in ways.into_iter().zip(expected) {
                near.state().set_gso(gso);
                let before = near.state().counters().sent_batches;
                let payloads = numbered(count, len);
                assert_eq!(near.send_batch(&msgs(to, &payloads)).expect("it is up"), count);
                assert_eq!(near.state().counters().sent_batches - before, u64::from(gso));
                let bits = dont_fragment_bits(&tap, to.port(), count * len);
                assert_eq!(bits, vec![expected; bits.len()], "{setting:?}, {count} of {len}");
                assert_eq!(receive(&receiver, count), payloads);
            }
        }
    });
}

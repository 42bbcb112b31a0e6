//! Per-message options as the receiver sees them, and options that are rejected before the send.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::{fails_alone, queue_of};
use crate::kit::receive::{Way, one, payloads};
use crate::kit::{
    HAS_DUAL_STACK, LOOPBACK, addr, at, bind, dual_stack, enable_all, index, ip, udp4, udp6,
};
use mmsg::control::{CONTROL_SPACE, ControlBuf};
use mmsg::errors::PushError;
use mmsg::{
    Ancillary, BatchSocket, Ecn, Offload, RecvBatch, SendMeta, SendMsg, SendQueue, TransmitClock,
};

fn with_source(text: &str) -> SendMeta {
    SendMeta::new().with_source(ip(text))
}

#[track_caller]
fn send(from: &UdpSocket, msg: SendMsg<'_>) {
    assert_eq!(from.send_batch(&[msg]).expect("loopback takes it"), 1);
}

/// A sender, its destination and the socket there, for IPv4, IPv6 and mapped addresses in both directions.
fn pairs() -> Vec<(UdpSocket, SocketAddr, UdpSocket)> {
    let to_mapped = |to: UdpSocket| (dual_stack(), at("::ffff:127.0.0.1", &to), to);
    let to_itself = |to: UdpSocket, from: UdpSocket| (from, addr(&to), to);
    let mut all = vec![to_itself(udp4(), udp4()), to_itself(udp6(), udp6())];
    if HAS_DUAL_STACK {
        let to_dual = dual_stack();
        all.extend([to_mapped(udp4()), (udp4(), at("127.0.0.1", &to_dual), to_dual)]);
    }
    all
}

/// Those between which the system sends `settings`, all on Linux, with what the receiver is asked to report.
fn pairs_with(settings: SendMeta, reports: Ancillary) -> Vec<(UdpSocket, SocketAddr, UdpSocket)> {
    let mut all = pairs();
    all.retain(|(from, dest, to)| {
        let is_reported = reports.require(to);
        let msg = SendMsg::to(*dest, b"data").with_meta(&settings);
        let sent = is_reported.and_then(|()| from.send_batch(&[msg])).map(|_| one(to));
        assert!(sent.is_ok() || cfg!(not(target_os = "linux")), "{sent:?}");
        sent.is_ok()
    });
    all
}

#[test]
fn ecn_and_tos_survive_both_ways() {
    for (from, dest, to) in pairs_with(SendMeta::new().with_tos(1), Ancillary::TOS) {
        enable_all(&from, Ancillary::TOS);
        for way in Way::ALL {
            for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
                let meta = SendMeta::new().with_tos(0xb8);
                send(&from, SendMsg::to(dest, b"there").with_meta(&meta).with_ecn(ecn));
                let got = way.receive(&to, 1).remove(0);
                assert_eq!((got.meta.tos, got.meta.ecn()), (Some(0xb8 | ecn as u8), Some(ecn)));
                // Replies to the source.
                let back = got.addr.expect("it has a source");
                send(&to, SendMsg::to(back, b"back").with_ecn(ecn));
                let got = way.receive(&from, 1).remove(0);
                assert_eq!((got.meta.tos, got.meta.ecn()), (Some(ecn as u8), Some(ecn)), "{way:?}");
            }
        }
    }
}

#[test]
fn each_message_of_a_batch_has_its_own_options() {
    let all = SendMeta::new().with_tos(1).with_hop_limit(1);
    for (from, dest, to) in pairs_with(all, Ancillary::TOS | Ancillary::HOP_LIMIT) {
        let plain = SendMsg::to(dest, b"data");
        let metas = [(0xff, 255), (0x01, 1), (0x5a, 77)]
            .map(|(tos, hops)| SendMeta::new().with_tos(tos).with_hop_limit(hops));
        let msgs = [plain.with_meta(&metas[0]), plain, plain.with_meta(&metas[1]), plain];
        let msgs = [&msgs[..], &[plain.with_meta(&metas[2])]].concat();
        let expected = [(0xff, 255), (0, 64), (0x01, 1), (0, 64), (0x5a, 77)];
        let sent = from.send_batch(&msgs);
        assert_eq!(sent.expect("they are taken"), 5);
        let seen: Vec<_> = Way::Msgs
            .receive(&to, 5)
            .iter()
            .map(|got| (got.meta.tos.expect("asked"), got.meta.hop_limit.expect("asked")))
            .collect();
        assert_eq!(seen, expected, "to {dest}");
    }
}

#[test]
fn a_chosen_source_is_the_one_that_is_seen() {
    let (from, to) = (bind(([0, 0, 0, 0], 0)), udp4());
    let (plain, dest) = (SendMsg::to(addr(&to), b"data"), addr(&to));
    let others = if cfg!(target_os = "linux") { &[2, 200][..] } else { &[] };
    for last in [1].iter().chain(others).copied() {
        let source = SocketAddr::from(([127, 0, 0, last], addr(&from).port()));
        send(&from, plain.with_meta(&SendMeta::new().with_source(source.ip())));
        assert_eq!(one(&to).addr, Some(source));
        // The source may also be given as an IPv4-mapped address, as an IPv6 socket receives it.
        let mapped = match source.ip() {
            std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            std::net::IpAddr::V6(ip) => ip,
        };
        send(&from, plain.with_meta(&SendMeta::new().with_source(mapped.into())));
        assert_eq!(one(&to).addr, Some(source));
    }
    // The kernel rejects an address of another host.
    let meta = with_source("192.0.2.1");
    let error = from.send_batch(&[SendMsg::to(dest, b"data").with_meta(&meta)]);
    assert!(error.is_err_and(|error| error.raw_os_error().is_some()));
}

/// Equal options of consecutive messages are encoded once, unless their destinations' families differ.
#[cfg(target_os = "linux")]
#[test]
fn equal_options_for_both_families_are_encoded_for_each() {
    let (from, v4, v6) = (dual_stack(), udp4(), udp6());
    for to in [&v4, &v6] {
        enable_all(to, Ancillary::TOS | Ancillary::HOP_LIMIT);
    }
    let meta = SendMeta::new().with_tos(0x2e).with_hop_limit(33);
    let dests = [at("::ffff:127.0.0.1", &v4), addr(&v6)];
    for first in [0, 1] {
        let order = [first, 1 - first, 1 - first, first];
        let msgs = order.map(|i| SendMsg::to(dests[i], b"data").with_meta(&meta));
        let sent = from.send_batch(&msgs);
        assert_eq!(sent.expect("they are taken"), 4);
        for to in [&v4, &v6] {
            for got in Way::Batch.receive(to, 2) {
                assert_eq!((got.meta.tos, got.meta.hop_limit), (Some(0x2e), Some(33)));
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_destination_the_peer_says_which_family_it_is() {
    let options = SendMeta::new().with_tos(0x49).with_hop_limit(21);
    for (from, dest, to) in pairs() {
        enable_all(&to, Ancillary::TOS | Ancillary::HOP_LIMIT);
        from.connect(dest).expect("connecting only stores the peer");
        let source = if dest.ip().to_canonical().is_ipv4() { "127.0.0.1" } else { "::1" };
        let meta = options.with_source(ip(source));
        for msg in [SendMsg::new(b"data"), SendMsg::to(dest, b"data")] {
            send(&from, msg.with_meta(&meta));
            let got = one(&to);
            assert_eq!((got.meta.tos, got.meta.hop_limit), (Some(0x49), Some(21)), "{dest}");
        }
    }
}

#[test]
fn the_interface_can_be_chosen() {
    let loopback = index(LOOPBACK);
    let meta = SendMeta::new().with_interface(loopback);
    for (from, dest, to) in pairs_with(meta, Ancillary::DEST) {
        send(&from, SendMsg::to(dest, b"data").with_meta(&meta));
        assert_eq!(one(&to).meta.interface, Some(loopback));
        let meta = meta.with_interface(0x7fff_fff0);
        let nowhere = SendMsg::to(dest, b"data").with_meta(&meta);
        assert!(from.send_batch(&[nowhere]).is_err(), "there is no such interface");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_transmit_time_is_taken_once_the_clock_is_known() {
    for (from, dest, to) in pairs() {
        if !crate::common::linux::has_option(&from, libc::SOL_SOCKET, libc::SO_TXTIME) {
            continue;
        }
        let msg = SendMsg::to(dest, b"data");
        let at = |time| SendMeta::new().with_transmit_time(time);
        let (start, soon) = (Duration::from_nanos(1), Duration::from_millis(1));
        let unknown =
            from.send_batch(&[msg.with_meta(&at(start))]).expect_err("no clock was selected");
        assert_eq!(unknown.raw_os_error(), Some(libc::EINVAL));
        TransmitClock::Monotonic.select(&from).expect("Linux 4.19");
        let now = TransmitClock::Monotonic.now().expect("Linux has it");
        send(&from, msg.with_meta(&at(now + soon)));
        assert_eq!(payloads(&to, 1), [b"data"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_transmit_clock_shows_the_time_of_the_kernel() {
    let now = || crate::common::linux::time(libc::CLOCK_MONOTONIC);
    let (before, shown) = (now(), TransmitClock::Monotonic.now().expect("Linux has it"));
    assert!(before <= shown && shown <= now());
    assert!(TransmitClock::Tai.now().expect("Linux has it") > Duration::ZERO);
    // An `Instant` is a time of the same clock, up to what passes between two readings: long, if the thread is stopped there.
    let (instant, second) = (Instant::now(), Duration::from_secs(1));
    for clock in [TransmitClock::Monotonic, TransmitClock::Tai] {
        let at = |instant| clock.at(instant).expect("Linux has it");
        let is_second_apart =
            |instant| (at(instant) + second).abs_diff(at(instant + second)) < second / 10;
        assert!((0..100).any(|_| is_second_apart(instant - second) && is_second_apart(instant)));
        assert!(at(instant) <= clock.now().expect("Linux has it"));
    }
}

/// Calls that must reject `bad` at every position and send the messages before it.
#[track_caller]
fn assert_rejected(from: &UdpSocket, to: &UdpSocket, good: SendMsg<'_>, bad: SendMsg<'_>) {
    fails_alone(from, to, [good, bad], None);
    let mut queue = queue_of([good, bad, good]);
    assert_eq!(from.flush(&mut queue).expect("the first is good"), 1);
    assert_invalid(from.flush(&mut queue));
    assert_eq!(queue.front().map(|msg| msg.meta()), Some(bad.meta()));
    assert!(queue.discard_front());
    assert_eq!(from.flush(&mut queue).expect("the last is good"), 1);
    assert_eq!(payloads(to, 2), [b"good"; 2]);
}

#[track_caller]
fn assert_invalid(result: io::Result<usize>) {
    let error = result.expect_err("it cannot be right");
    assert_eq!((error.kind(), error.raw_os_error()), (ErrorKind::InvalidInput, None));
}

#[test]
fn invalid_options_are_rejected_before_the_send() {
    for (from, dest, to) in pairs_with(SendMeta::new().with_tos(1), Ancillary::NONE) {
        let good = SendMsg::to(dest, b"good");
        let v4 = dest.ip().to_canonical().is_ipv4();
        let wrong = if v4 { ["::1", "2001:db8::1"] } else { ["127.0.0.1", "::ffff:127.0.0.1"] };
        for source in wrong {
            assert_rejected(&from, &to, good, good.with_meta(&with_source(source)));
        }
        if v4 && cfg!(target_os = "linux") {
            assert_rejected(&from, &to, good, good.with_meta(&SendMeta::new().with_hop_limit(0)));
        }
        let (mut control, tos) = (ControlBuf::new(), SendMeta::new().with_tos(3));
        let header = control_header();
        let payload = vec![0; CONTROL_SPACE - header];
        control.push(77, 77, &payload).expect("it just fits");
        let both = good.with_meta(&tos).with_control(&control);
        fails_alone(&from, &to, [good, both], None);
        from.connect(dest).expect("connecting only stores the peer");
        let connected = SendMsg::new(b"good");
        assert_rejected(&from, &to, connected, connected.with_meta(&with_source(wrong[0])));
    }
}

/// Length of a control message's header.
fn control_header() -> usize {
    // SAFETY: arithmetic on its argument.
    unsafe { libc::CMSG_LEN(0) as usize }
}

/// IPv4 has no limit of 0, which IPv6 takes.
#[cfg(target_os = "linux")]
#[test]
fn a_hop_limit_of_0_goes_to_a_connected_peer_on_ipv6() {
    let (from, to) = (udp6(), udp6());
    from.connect(addr(&to)).expect("connecting only stores the peer");
    enable_all(&to, Ancillary::HOP_LIMIT);
    let none = SendMeta::new().with_hop_limit(0);
    assert_eq!(from.send_batch(&[SendMsg::new(b"data").with_meta(&none)]).expect("it is taken"), 1);
    let mut batch = RecvBatch::new(1, 16);
    assert_eq!(to.recv_into(&mut batch).expect("it is there"), 1);
    assert_eq!(batch.iter().next().expect("one").meta().hop_limit, Some(0));
}

/// A datagram that `server` received at 127.0.0.7, and its client.
fn asked_at_another_address(server: &UdpSocket) -> (UdpSocket, RecvBatch) {
    enable_all(server, Ancillary::DEST);
    let (client, mut batch) = (udp4(), RecvBatch::new(1, 16));
    enable_all(&client, Ancillary::TOS | Ancillary::HOP_LIMIT);
    client.send_to(b"question", at("127.0.0.7", server)).expect("it is taken");
    assert_eq!(server.recv_into(&mut batch).expect("it is there"), 1);
    (client, batch)
}

#[cfg(target_os = "linux")]
#[test]
fn options_of_a_reply_of_a_meta_and_of_control_messages_apply_together() {
    let mut control = ControlBuf::new();
    control.push(libc::IPPROTO_IP, libc::IP_TOS, &[0x1c]).expect("there is space");
    let hops = SendMeta::new().with_hop_limit(5);
    for server in [bind(([0, 0, 0, 0], 0)), dual_stack()] {
        let (client, batch) = asked_at_another_address(&server);
        let reply = batch.iter().next().and_then(|d| d.reply(b"answer")).expect("it has a source");
        let all = [
            reply.with_meta(&hops).with_control(&control),
            reply.with_control(&control).with_meta(&hops),
        ];
        let two = [reply.with_meta(&hops), reply.with_control(&control)];
        let msgs = [all, two].concat();
        let from = Some(at("127.0.0.7", &server));
        let expected =
            [(0x1c, 5), (0x1c, 5), (0, 5), (0x1c, 64)].map(|(t, h)| (from, Some(t), Some(h)));
        let offload = Offload::new(server.try_clone().expect("it can be")).expect("a UDP socket");
        let sockets: [&dyn BatchSocket; 2] = [&server, &offload];
        for socket in sockets {
            assert_eq!(socket.send_batch(&msgs).expect("they are taken"), 4);
            let got = Way::Msgs.receive(&client, 4);
            let seen = got.iter().map(|got| (got.addr, got.meta.tos, got.meta.hop_limit));
            assert_eq!(seen.collect::<Vec<_>>(), expected);
        }
        // A queue stores the options of both.
        let mut queue = SendQueue::new(1 << 12);
        queue.push(&two[0]).expect("there is space");
        assert_eq!(server.flush(&mut queue).expect("it is taken"), 1);
        let got = one(&client);
        assert_eq!((got.addr, got.meta.hop_limit), (from, Some(5)));
        assert_eq!(queue.push(&two[1]), Err(PushError::HasControl));
    }
}

/// A server sets its own source, and a peer asks at another address.
#[cfg(target_os = "linux")]
#[test]
fn with_meta_has_the_last_word_over_a_reply() {
    for server in [bind(([0, 0, 0, 0], 0)), dual_stack()] {
        let (client, batch) = asked_at_another_address(&server);
        let reply = batch.iter().next().and_then(|d| d.reply(b"good")).expect("it has a source");
        let meta = with_source("127.0.0.8").with_interface(1);
        send(&server, reply.with_meta(&meta));
        assert_eq!(one(&client).addr, Some(at("127.0.0.8", &server)));
        let mut queue = SendQueue::new(1 << 12);
        queue.push(&reply.with_meta(&meta)).expect("there is space");
        assert_eq!(server.flush(&mut queue).expect("it is taken"), 1);
        assert_eq!(one(&client).addr, Some(at("127.0.0.8", &server)));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_option_that_is_set_twice_is_an_error() {
    let server = bind(([0, 0, 0, 0], 0));
    let (client, batch) = asked_at_another_address(&server);
    let reply = batch.iter().next().and_then(|d| d.reply(b"good")).expect("it has a source");
    let (mut tos, mut source) = (ControlBuf::new(), ControlBuf::new());
    tos.push(libc::IPPROTO_IP, libc::IP_TOS, &[0x1c]).expect("there is space");
    source.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &[0; 12]).expect("there is space");
    let meta = SendMeta::new().with_tos(0x1c);
    for (bad, named) in [
        (reply.with_control(&source), "level 0, type 8"),
        (reply.with_meta(&meta).with_control(&tos), "level 0, type 1"),
        (reply.with_ecn(Ecn::Ect0).with_control(&tos), "level 0, type 1"),
    ] {
        fails_alone(&server, &client, [reply, bad], None);
        let error = server.send_batch(&[bad]).expect_err("it is set twice");
        assert!(error.to_string().contains(named), "{error}");
    }

    // A message's own options override its `SendMeta`, and a second `with_meta` replaces the first.
    let other = SendMeta::new().with_tos(0xb8);
    send(&server, reply.with_meta(&meta).with_meta(&other).with_ecn(Ecn::Ect0));
    assert_eq!(one(&client).meta.tos, Some(0xb8 | Ecn::Ect0 as u8));
}

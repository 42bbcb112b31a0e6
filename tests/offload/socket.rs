//! `Offload` on sockets behind a filter, or with options that concern GSO.

use std::io;
use std::net::UdpSocket;

use crate::common::linux::{
    SOL_UDP, UDP_SEGMENT, has_option, has_timestamps, in_namespace, set_option,
};
use crate::common::recv::payloads;
use crate::common::sockets::{addr, refusing, udp4};
use crate::common::{firewall, no_failure, numbered, skip};
use mmsg::control::ControlBuf;
use mmsg::error_queue::{Event, Report, drain_errors};
use mmsg::offload::GsoStatus;
use mmsg::{
    Ancillary, BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMeta, SendMsg, SendQueue,
};

/// udp(7), include/uapi/linux/udp.h
const UDP_CORK: i32 = 1;

/// An `Offload` with GSO; prints why and returns `None` if the kernel has none.
fn with_gso() -> Option<Offload<UdpSocket>> {
    let near = Offload::new(udp4()).expect("a UDP socket");
    if !near.state().gso() {
        skip("no GSO on this kernel");
        return None;
    }
    Some(near)
}

#[track_caller]
fn send_each(near: &impl BatchSocket, msgs: &[SendMsg<'_>]) -> usize {
    let sent = near.send_each(msgs, no_failure);
    sent.expect("the socket takes datagrams")
}

/// A firewall that checks lengths drops a batch although each of its datagrams would pass.
#[test]
fn datagrams_pass_a_filter_that_rejects_their_gso_batch() {
    in_namespace(|| {
        let Some(near) = with_gso() else { return };
        let far = udp4();
        let to = addr(&far);
        if let Err(error) = firewall::reject_longer(1_000) {
            return skip(format_args!("no firewall rule: {error}"));
        }
        let short = numbered(40, 300);
        let long = numbered(1, 1_200);
        let msgs: Vec<_> = short.iter().map(|data| SendMsg::to(to, data)).collect();
        assert_eq!(near.send_batch(&msgs).expect("each of them passes"), 40);
        assert_eq!(send_each(&near, &msgs), 40);
        let mut queue = SendQueue::new(1 << 20);
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
        assert_eq!(near.flush(&mut queue).expect("each of them passes"), 40);
        assert_eq!(payloads(&far, 120), [&short[..], &short, &short].concat());

        // One message does not pass and gets its own error.
        let mixed = [&msgs[..2], &[SendMsg::to(to, &long[0])], &msgs[..2]].concat();
        let mut failed = Vec::new();
        let done = near
            .send_each(&mixed, |i, error: std::io::Error| failed.push((i, error.raw_os_error())));
        assert_eq!(done.expect("the socket takes datagrams"), 5);
        assert_eq!(failed, [(2, Some(libc::EPERM))]);
        assert_eq!(payloads(&far, 4), [&short[..2], &short[..2]].concat());

        // The error is not about GSO, which stays on for batches that pass.
        assert!(near.state().gso());
        let before = near.state().counters();
        assert_eq!((before.rejected_size, before.rejected_unsupported), (0, 0));
        // Behind another message, the batch's error shows only in a second system call.
        let other = SendMsg::to(to, b"another length");
        let behind = [&[other], &msgs[..]].concat();
        assert_eq!(near.send_batch(&behind).expect("each of them passes"), 41);
        assert_eq!(payloads(&far, 41)[1..], short);
        let before = near.state().counters();
        assert_eq!(near.send_batch(&msgs[..3]).expect("each of them passes"), 3);
        assert_eq!(payloads(&far, 3), &short[..3]);
        assert_eq!(near.state().counters().sent_batches, before.sent_batches + 1);

        let data = short.concat();
        let msg = SendMsg::to(to, &data[..3_000]).with_segment_size(300);
        assert_eq!(near.send_batch(&[msg]).expect("each datagram passes"), 1);
        assert_eq!(payloads(&far, 10), &short[..10]);
    });
}

/// Waits for the send timestamps of `count` datagrams and returns their numbers.
fn stamped(socket: &UdpSocket, count: usize) -> Vec<u32> {
    let mut ids = Vec::new();
    while ids.len() < count {
        crate::common::sockets::wait_for_error(socket);
        let mut reports = [Report::EMPTY; 16];
        let taken = drain_errors(socket, &mut reports).expect("it is a socket");
        ids.extend(reports[..taken].iter().map(|report| match report.event {
            Event::Sent { id, time: Some(_), .. } => id,
            event => panic!("{event:?}"),
        }));
    }
    ids
}

/// The kernel would give a whole GSO batch one number and one timestamp.
#[test]
fn each_datagram_has_a_time_of_sending() {
    if !has_timestamps() {
        return;
    }
    let far = udp4();
    let ask = |socket: &UdpSocket| {
        let taken = Ancillary::SEND_TIMESTAMP.enable(socket).expect("it is a socket");
        assert_eq!(taken, Ancillary::SEND_TIMESTAMP);
    };
    // Enabled before the socket is wrapped, or later: then the program turns GSO off.
    let before = udp4();
    ask(&before);
    let Some(after) = with_gso() else { return };
    ask(after.get_ref());
    after.state().set_gso(false);
    let before = Offload::new(before).expect("a UDP socket");
    assert_eq!(before.state().gso_status(), GsoStatus::OffBySendTimestamps);
    for near in [before, after] {
        let data = numbered(11, 100);
        let to = addr(&far);
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(to, data)).collect();
        let joined = data.concat();
        let own = SendMsg::to(to, &joined).with_segment_size(100);
        assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), 11);
        assert_eq!(stamped(near.get_ref(), 11), (0..11).collect::<Vec<_>>());
        assert_eq!(send_each(&near, &msgs), 11);
        assert_eq!(near.send_batch(&[own]).expect("loopback takes it"), 1);
        assert_eq!(stamped(near.get_ref(), 22), (11..33).collect::<Vec<_>>());
        assert_eq!(payloads(&far, 33), [&data[..], &data, &data].concat());
        assert_eq!(near.state().counters().sent_batches, 0);

        set_option(near.get_ref(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0).expect("a flag");
        let near = Offload::new(near.into_inner()).expect("a UDP socket");
        let msgs = [SendMsg::to(to, b"one"), SendMsg::to(to, b"two")];
        assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), 2);
        assert_eq!(near.state().counters().sent_batches, 1);
        assert_eq!(payloads(&far, 2).len(), 2);
    }
}

/// A `get_mut` of `Offload` itself would take precedence and return something other than `()`.
trait GetMut {
    fn get_mut(&mut self) {}
}

impl<S> GetMut for Offload<S> {}

/// With another socket's GSO state, a socket would send wrong datagrams or none.
#[test]
fn the_gso_state_of_one_socket_is_not_used_for_another() {
    let Some(mut first) = with_gso() else { return };
    let () = first.get_mut();
    let far = udp4();
    let data = numbered(3, 100);
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(addr(&far), data)).collect();
    // Each wrapper starts afresh, with no setting or counter of another.
    first.state().set_gso(false);
    assert_eq!(first.send_batch(&msgs).expect("loopback takes it"), 3);
    let second = with_gso().expect("as above");
    assert_eq!((first.state().gso(), second.state().gso()), (false, true));
    let again = Offload::new(first.into_inner()).expect("a UDP socket");
    assert!(again.state().gso());
    assert_eq!((again.state().counters().sent, again.state().counters().send_calls), (0, 0));

    // A socket with `UDP_SEGMENT` set cannot be wrapped, and keeps its setting.
    let own = again.into_inner();
    set_option(&own, SOL_UDP, UDP_SEGMENT, 100).expect("the kernel has GSO");
    let error = Offload::new(&own).expect_err("it would send other datagrams");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(second.send_batch(&msgs).expect("loopback takes it"), 3);
    assert_eq!(own.send_batch(&msgs).expect("loopback takes it"), 3);
    assert_eq!(payloads(&far, 9), [&data[..], &data, &data].concat());
    assert_eq!((second.state().counters().sent, second.state().counters().sent_batches), (3, 1));
}

#[test]
fn a_socket_with_a_segment_size_or_a_cork_of_its_own_is_not_wrapped() {
    for (option, value, name) in [(UDP_SEGMENT, 2, "UDP_SEGMENT"), (UDP_CORK, 1, "UDP_CORK")] {
        let socket = udp4();
        if let Err(error) = set_option(&socket, SOL_UDP, option, value) {
            skip(error);
            continue;
        }
        if !has_option(&socket, SOL_UDP, option) {
            continue;
        }
        for builder in [Offload::builder(), Offload::builder().gso(false).gro(false)] {
            let error = builder.build(&socket).expect_err("it would send other datagrams");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(name), "{error}");
        }
        set_option(&socket, SOL_UDP, option, 0).expect("it was set");
        assert!(Offload::new(&socket).is_ok(), "nothing is set");
    }
}

/// Not even to probe for GSO: a long payload that std sends stays whole. A single message has no segment size.
#[test]
fn the_socket_option_is_never_set() {
    let Some(near) = with_gso() else { return };
    let far = udp4();
    let msgs = [SendMsg::to(addr(&far), b"one"); 2];
    assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), 2);
    assert_eq!(near.send_batch(&msgs[..1]).expect("loopback takes it"), 1);
    assert_eq!(near.state().counters().sent_batches, 1);
    near.get_ref().send_to(&[7; 3_000], addr(&far)).expect("loopback takes it");
    assert!(payloads(&far, 4).iter().map(Vec::len).eq([3, 3, 3, 3_000]));
}

/// Receives messages and returns their TOS.
fn tos(far: &UdpSocket, count: usize) -> Vec<Option<u8>> {
    let (mut batch, mut seen) = (RecvBatch::new(8, 100), Vec::new());
    while seen.len() < count {
        far.recv_into(&mut batch).expect("they are there");
        seen.extend(batch.iter().map(|datagram| datagram.meta().tos));
    }
    seen
}

#[test]
fn a_tos_of_0_overrides_the_sockets_own() {
    let (near, far) = (udp4(), udp4());
    set_option(&near, libc::IPPROTO_IP, libc::IP_TOS, 0x48).expect("a UDP socket");
    Ancillary::TOS.require(&far).expect("a UDP socket");
    let msg = SendMsg::to(addr(&far), b"data");
    let meta = SendMeta::new().with_tos(0);
    let zero = msg.with_meta(&meta);
    let near = Offload::new(near).expect("a UDP socket");
    let msgs = [msg, msg, zero, zero, msg];
    assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), 5);
    assert_eq!(tos(&far, 5), [0x48, 0x48, 0, 0, 0x48].map(Some));
}

#[test]
fn raw_control_messages_apply_to_every_datagram_of_a_gso_batch() {
    let Some(near) = with_gso() else { return };
    let far = udp4();
    Ancillary::TOS.require(&far).expect("a UDP socket");
    let mut control = ControlBuf::new();
    control.push(libc::IPPROTO_IP, libc::IP_TOS, &0x48i32.to_ne_bytes()).expect("there is space");
    let msgs = [SendMsg::to(addr(&far), b"one").with_control(&control); 3];
    assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), 3);
    assert_eq!(near.state().counters().sent_batches, 1);
    assert_eq!(tos(&far, 3), [Some(0x48); 3]);
}

/// Each segment may cause an ICMP error while the others are sent, but the kernel keeps only one error at a time.
#[test]
fn a_segmented_message_to_a_closed_port_fails_no_more_than_two_later_ones() {
    let (near, peer) = (udp4(), refusing());
    near.connect(addr(&peer)).expect("on loopback");
    let near = Offload::new(near).expect("a UDP socket");
    near.state().set_gso(false);
    let sent = near.send_batch(&[SendMsg::new(&[0; 6_400]).with_segment_size(100)]);
    // Now the peer listens.
    peer.connect(addr(near.get_ref())).expect("on loopback");
    let mut failed = usize::from(sent.is_err());
    let numbers = numbered(100, 8);
    let msgs = numbers.iter().map(|data| SendMsg::new(data));
    near.send_each(msgs, |_, error| {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        failed += 1;
    })
    .expect("it goes on");
    assert!(failed <= 2, "{failed} of 100");
}

//! Replies: who gets one, and from which address. A failed reply does not hold up others.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, RecvMeta, RecvMsg, SendMeta, SendMsg};

use crate::common::recv::payloads;
use crate::common::sockets::{addr, udp4};
use crate::common::{code, errno, no_failure, numbered};

/// The reply to a datagram from `source`.
fn reply(source: Option<SocketAddr>, meta: RecvMeta) -> Option<(Option<SocketAddr>, SendMeta)> {
    let mut buffer = [0; 8];
    let mut msg = RecvMsg::new(&mut buffer);
    msg.fill(b"question", source, meta);
    let reply_parts = msg.message().reply(b"answer").map(|reply| {
        assert_eq!(reply.slices().collect::<Vec<_>>(), [b"answer"]);
        (reply.dest(), reply.meta())
    });
    let of_datagram = msg.message().datagrams().next().expect("it is one").reply(b"answer");
    assert_eq!(of_datagram.map(|reply| (reply.dest(), reply.meta())), reply_parts);
    reply_parts
}

#[test]
fn d3_a_message_without_address_or_port_gets_no_reply() {
    let none = RecvMeta::default();
    let unanswerable =
        ["192.0.2.1:0", "[2001:db8::1]:0", "[::ffff:192.0.2.1]:0", "0.0.0.0:68", "[::]:546"];
    for source in unanswerable.into_iter().chain(["[::ffff:0.0.0.0]:68"]) {
        assert_eq!(reply(Some(source.parse().expect("an address")), none), None, "{source}");
    }
    assert_eq!(reply(None, none), None);
    let source = "[2001:db8::1]:7".parse().ok();
    assert_eq!(reply(source, none), Some((source, SendMeta::new())));
}

#[test]
fn d3_a_reply_asks_to_leave_from_the_address_that_was_asked() {
    let source = "192.0.2.1:7".parse().ok();
    let asked = "192.0.2.9".parse().expect("an address");
    let mut meta = RecvMeta::default();
    meta.destination = Some(asked);
    assert_eq!(reply(source, meta), Some((source, SendMeta::new().with_source(asked))));
}

#[test]
fn d3_a_message_of_a_batch_is_answered_as_its_datagrams_are() {
    let (server, client) = (udp4(), udp4());
    client.send_to(b"question", addr(&server)).expect("loopback takes it");
    let mut batch = RecvBatch::new(4, 16);
    server.recv_into(&mut batch).expect("it is there");
    let message = batch.messages().next().expect("it is there");
    let replies = [message.reply(b"one"), message.datagrams().next().and_then(|d| d.reply(b"two"))];
    assert_eq!(server.send_each(replies.iter().flatten(), no_failure).expect("they are taken"), 2);
    assert_eq!(payloads(&client, 2), [b"one", b"two"]);
}

/// Sends these three in all forms of iterators, 15 messages in all.
fn every_form<S: BatchSocket + ?Sized>(socket: &S, msgs: [SendMsg<'_>; 3]) -> usize {
    let mut failed = Vec::new();
    let mut note = |index, error: io::Error| failed.push((index, error));
    let sent = [
        socket.send_each(msgs, no_failure),
        socket.send_each(msgs, &mut note),
        socket.send_each(msgs.iter().filter(|msg| !msg.is_empty()), &mut note),
        socket.send_each(msgs.to_vec(), |_, _| ()),
        socket.send_each(&msgs[..], &mut note),
    ];
    assert!(failed.is_empty(), "{failed:?}");
    sent.into_iter().map(|sent| sent.expect("they are taken")).sum()
}

fn by_value<S: BatchSocket>(socket: S, msgs: [SendMsg<'_>; 3]) -> usize {
    every_form(&socket, msgs)
}

fn by_dyn(socket: &dyn BatchSocket, msgs: [SendMsg<'_>; 3]) -> usize {
    every_form(socket, msgs)
}

#[test]
fn d3_every_form_of_a_socket_sends_every_form_of_an_iterator() {
    let to = udp4();
    let offload = || Offload::new(udp4()).expect("a socket that is one");
    let boxed: Box<dyn BatchSocket> = Box::new(offload());
    let shared = Arc::new(offload());
    let reference = &offload();
    let msgs = [b"a", b"b", b"c"].map(|data| SendMsg::to(addr(&to), data));
    let socket = udp4();
    let sent = [
        by_value(&socket, msgs),
        by_value(offload(), msgs),
        by_dyn(&socket, msgs),
        by_dyn(&offload(), msgs),
        by_dyn(&*boxed, msgs),
        by_dyn(&*shared, msgs),
        boxed.send_each(msgs, no_failure).expect("they are taken"),
        shared.send_each(msgs, no_failure).expect("they are taken"),
        reference.send_each(msgs, no_failure).expect("they are taken"),
        (&socket as &dyn BatchSocket).send_each(msgs, no_failure).expect("they are taken"),
    ];
    let total = 6 * 15 + 4 * 3;
    assert_eq!(sent.iter().sum::<usize>(), total);
    let received = payloads(&to, total);
    assert!(received.chunks(3).all(|three| three == [b"a", b"b", b"c"]));
}

#[test]
fn d3_each_message_of_an_iterator_is_sent_or_reported() {
    let (from, to) = (udp4(), udp4());
    let (good, too_long) = (numbered(600, 32), vec![0; 70_000]);
    let sockets: [&dyn BatchSocket; 2] = [&from, &Offload::new(udp4()).expect("a socket")];
    // Bad messages alone, in pairs, where one portion taken from the iterator ends, and in long runs.
    let bad = |i: usize| [0, 9, 10, 255, 256].contains(&i) || (384..448).contains(&i) || i == 599;
    for socket in sockets {
        let msgs = good
            .iter()
            .enumerate()
            .map(|(i, data)| SendMsg::to(addr(&to), if bad(i) { &too_long[..] } else { data }));
        let mut failed = Vec::new();
        let handled = socket.send_each(msgs, |index, error| {
            assert_eq!(code::<()>(Err(error)), errno::EMSGSIZE);
            failed.push(index);
        });
        assert_eq!(handled.expect("the socket takes datagrams"), 600);
        assert!(failed.into_iter().eq((0..600).filter(|i| bad(*i))));
        let expected = (0..600).filter(|i| !bad(*i)).map(|i| &good[i]);
        assert!(payloads(&to, 600 - 70).iter().eq(expected));
    }
}

/// A datagram from port 0 gets no reply and must not affect others.
#[cfg(target_os = "linux")]
#[test]
fn d3_a_datagram_from_port_0_costs_no_other_reply() {
    use crate::common::{raw::RawSender, skip};
    use std::net::SocketAddr::V4;

    let (server, client) = (udp4(), udp4());
    let V4(to) = addr(&server) else { panic!("an IPv4 socket") };
    let raw = match RawSender::to(to) {
        Ok(raw) => raw,
        Err(error) => return skip("d3_a_datagram_from_port_0_costs_no_other_reply", error),
    };
    for data in [b"0", b"1", b"2"] {
        raw.send_from(0, data).expect("loopback takes it");
        client.send_to(data, to).expect("loopback takes it");
    }
    crate::common::sockets::settle();
    let mut batch = RecvBatch::new(8, 16);
    let mut left = 6;
    while left > 0 {
        left -= server.recv_into(&mut batch).expect("they are there");
        let replies = batch.iter().filter_map(|datagram| datagram.reply(datagram.data()));
        server.send_each(replies, no_failure).expect("loopback takes them");
    }
    assert_eq!(payloads(&client, 3), [b"0", b"1", b"2"]);
}

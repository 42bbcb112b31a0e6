//! Replies: who gets one, and from which address. A failed reply does not hold up others.

use std::net::SocketAddr;

use mmsg::{RecvMeta, RecvMsg, SendMeta};

/// The reply to a datagram from `source`.
fn reply(source: Option<SocketAddr>, meta: RecvMeta) -> Option<(Option<SocketAddr>, SendMeta)> {
    let mut buffer = [0; 8];
    let mut msg = RecvMsg::new(&mut buffer);
    msg.fill(b"question", source, meta);
    let reply_parts = msg.message().reply(b"answer").map(|reply| {
        assert_eq!(reply.slices().collect::<Vec<_>>(), [b"answer"]);
        (reply.dest(), reply.meta())
    });
    let datagram = msg.message().datagrams().next().expect("it is one");
    let of_datagram = datagram.reply(b"answer").map(|reply| (reply.dest(), reply.meta()));
    assert_eq!(of_datagram, reply_parts);
    // Who answers later refuses the same sources.
    let dest = reply_parts.and_then(|(dest, _)| dest);
    assert_eq!([datagram.reply_addr(), msg.message().reply_addr()], [dest; 2]);
    reply_parts
}

#[test]
fn a_message_without_address_or_port_gets_no_reply() {
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

/// A datagram from port 0 gets no reply and must not affect others.
#[cfg(target_os = "linux")]
#[test]
fn a_datagram_from_port_0_costs_no_other_reply() {
    use crate::common::sockets::{addr, settle, udp4};
    use crate::common::{linux::RawSender, no_failure, recv::payloads, skip};
    use mmsg::{BatchSocket, BatchSocketExt, RecvBatch};
    use std::net::SocketAddr::V4;

    let (server, client) = (udp4(), udp4());
    let V4(to) = addr(&server) else { panic!("an IPv4 socket") };
    let raw = match RawSender::to(to) {
        Ok(raw) => raw,
        Err(error) => return skip(error),
    };
    for data in [b"0", b"1", b"2"] {
        raw.send_from(0, data).expect("loopback takes it");
        client.send_to(data, to).expect("loopback takes it");
    }
    settle();
    let mut batch = RecvBatch::new(8, 16);
    let mut left = 6;
    while left > 0 {
        left -= server.recv_into(&mut batch).expect("they are there");
        let replies = batch.iter().filter_map(|datagram| datagram.reply(datagram.data()));
        server.send_each(replies, no_failure).expect("loopback takes them");
    }
    assert_eq!(payloads(&client, 3), [b"0", b"1", b"2"]);
}

//! Address families: source and destination of a datagram.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use mmsg::{BatchSocket, SendMsg};

use crate::common::recv::{collect, data_of, memory, payloads, recv_msgs};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, connected, dual_stack, refusing, settle, udp4, udp6};
use crate::common::{code, numbered, would_block};

/// An answer to the received source reaches the sender.
fn there_and_back(client: &UdpSocket, server: &UdpSocket) {
    let sent = numbered(20, 33);
    let msgs: Vec<_> = sent.iter().map(|data| SendMsg::to(addr(server), data)).collect();
    assert_eq!(client.send_batch(&msgs).expect("loopback takes them"), 20);

    let got = collect(server, 20);
    assert!(got.iter().all(|got| got.from == Some(addr(client))));
    assert!(got.iter().map(|got| &got.data).eq(&sent));

    let answers: Vec<_> = got
        .iter()
        .map(|got| SendMsg::to(got.from.expect("an Internet address"), &got.data))
        .collect();
    assert_eq!(server.send_batch(&answers).expect("loopback takes them"), 20);
    let back = collect(client, 20);
    assert!(back.iter().all(|got| got.from == Some(addr(server))));
    assert!(back.iter().map(|got| &got.data).eq(&sent));
}

#[test]
fn ipv4() {
    there_and_back(&udp4(), &udp4());
}

#[test]
fn ipv6() {
    let (Some(client), Some(server)) = (udp6(), udp6()) else { return };
    there_and_back(&client, &server);
}

/// The address of an IPv4 socket as an IPv6 socket has it.
fn mapped(v4: SocketAddr) -> SocketAddr {
    let IpAddr::V4(ip) = v4.ip() else { panic!("{v4} is not an IPv4 address") };
    SocketAddr::new(ip.to_ipv6_mapped().into(), v4.port())
}

#[test]
fn a_dual_stack_socket_has_ipv4_peers_by_their_mapped_addresses() {
    let (Some(server), client) = (dual_stack(), udp4()) else { return };
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, addr(&server).port()));
    assert_eq!(client.send_batch(&[SendMsg::to(to, b"to both")]).expect("it is taken"), 1);

    let got = collect(&server, 1);
    assert_eq!(got[0].from, Some(mapped(addr(&client))));

    let back = SendMsg::to(mapped(addr(&client)), b"from both");
    assert_eq!(server.send_batch(&[back, back]).expect("it is taken"), 2);
    let got = collect(&client, 2);
    assert!(got.iter().all(|got| got.from == Some(to) && got.data == b"from both"));
}

#[test]
fn one_batch_to_and_from_both_families() {
    let (Some(server), Some(six), four) = (dual_stack(), udp6(), udp4()) else { return };
    let sent = numbered(30, 9);
    let msgs: Vec<_> = sent
        .iter()
        .enumerate()
        .map(|(i, data)| {
            let to = if i % 3 == 0 { mapped(addr(&four)) } else { addr(&six) };
            SendMsg::to(to, data)
        })
        .collect();
    assert_eq!(server.send_batch(&msgs).expect("they are taken"), 30);
    let (to_four, to_six): (Vec<_>, Vec<_>) =
        sent.iter().enumerate().partition(|(i, _)| i % 3 == 0);
    let of = |wanted: Vec<(usize, &Vec<u8>)>| {
        wanted.into_iter().map(|w| w.1.clone()).collect::<Vec<_>>()
    };
    assert_eq!(payloads(&four, 10), of(to_four));
    assert_eq!(payloads(&six, 20), of(to_six));

    let port = addr(&server).port();
    for i in 0u8..10 {
        let (socket, to) = match i % 2 {
            0 => (&four, SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            _ => (&six, SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port))),
        };
        socket.send_to(&[i], to).expect("it is taken");
    }
    let got = collect(&server, 10);
    for (i, got) in (0u8..).zip(got) {
        let from = if i % 2 == 0 { mapped(addr(&four)) } else { addr(&six) };
        assert_eq!((got.data, got.from), (vec![i], Some(from)));
    }
}

#[test]
fn a_connected_socket_sends_without_destinations_and_receives_the_source() {
    let (a, b) = connected();
    let sent = numbered(5, 100);
    let msgs: Vec<_> = sent.iter().map(|data| SendMsg::new(data)).collect();
    assert_eq!(a.send_batch(&msgs).expect("the peer is there"), 5);
    let got = collect(&b, 5);
    assert!(got.iter().all(|got| got.from == Some(addr(&a))));
    assert!(got.iter().map(|got| &got.data).eq(&sent));
}

#[test]
fn a_destination_overrides_the_connected_peer() {
    let ((a, b), other) = (connected(), udp4());
    let msgs = [SendMsg::to(addr(&other), b"to other"), SendMsg::new(b"to peer")];
    assert_eq!(a.send_batch(&msgs).expect("both are there"), 2);
    assert_eq!(payloads(&other, 1), [b"to other"]);
    assert_eq!(payloads(&b, 1), [b"to peer"]);
}

#[test]
fn without_a_connection_a_destination_is_asked_for() {
    let (socket, other) = (udp4(), udp4());
    // As the standard library's call has it.
    let errno = code(socket.send(b"where to?"));
    assert_eq!(code(socket.send_batch(&[SendMsg::new(b"where to?")])), errno);
    // The first of several, and one in the middle.
    let (lost, good) = (SendMsg::new(b"where to?"), SendMsg::to(addr(&other), b"there"));
    assert_eq!(code(socket.send_batch(&[lost, good])), errno);
    assert_eq!(socket.send_batch(&[good, lost, good]).expect("the first is good"), 1);
    assert_eq!(payloads(&other, 1), [b"there"]);
}

#[cfg(unix)]
#[test]
fn unix_datagrams_have_no_internet_address() {
    let (a, b) = unix_pair();
    let sent = numbered(8, 5_000);
    let msgs: Vec<_> = sent.iter().map(|data| SendMsg::new(data)).collect();
    assert_eq!(a.send_batch(&msgs).expect("the queue has space for eight"), 8);

    let mut memory = memory(8, 6_000);
    let mut msgs = recv_msgs(&mut memory);
    assert_eq!(b.recv_batch(&mut msgs).expect("eight are there"), 8);
    assert_eq!(data_of(&msgs), sent);
    assert!(msgs.iter().all(|msg| msg.addr().is_none() && !msg.truncated()));
}

/// A name of 100 bytes is longer than any Internet address: it is truncated, and what lies
/// beside it is intact.
#[cfg(target_os = "linux")]
#[test]
fn a_long_unix_name_is_no_internet_address() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    crate::common::choose_backend();
    let bound = |role: &str| {
        let name = format!("mmsg test {role} {}", std::process::id());
        let name = SocketAddr::from_abstract_name(format!("{name:_<100}")).expect("a name");
        (UnixDatagram::bind_addr(&name).expect("nobody else has the name"), name)
    };
    let ((sender, _), (receiver, name)) = (bound("sender"), bound("receiver"));
    for data in [b"one", b"two"] {
        sender.send_to_addr(data, &name).expect("it is there");
    }
    let mut memory = memory(4, 16);
    let mut msgs = recv_msgs(&mut memory);
    assert_eq!(receiver.recv_batch(&mut msgs).expect("two are there"), 2);
    assert_eq!(data_of(&msgs[..2]), [b"one", b"two"]);
    assert!(msgs.iter().all(|msg| msg.addr().is_none()));
}

#[test]
fn a_connected_socket_receives_nothing_from_strangers() {
    let (taken, stranger) = (refusing(), udp4());
    stranger.send_to(b"let me in", addr(&taken)).expect("the answer comes later");
    settle();
    taken.set_nonblocking(true).expect("it can");
    assert!(would_block(taken.recv_batch(&mut recv_msgs(&mut memory(2, 16)))));
}

//! Address families: source and destination of a datagram.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mmsg::{BatchSocket, SendMsg};

use crate::common::numbered;
use crate::common::recv::{collect, payloads};
use crate::common::sockets::{addr, connected, dual_stack, udp4, udp6};

/// An IPv4 socket's address as an IPv6 socket sees it.
fn mapped(v4: SocketAddr) -> SocketAddr {
    let IpAddr::V4(ip) = v4.ip() else { panic!("{v4} is not an IPv4 address") };
    SocketAddr::new(ip.to_ipv6_mapped().into(), v4.port())
}

#[test]
fn one_batch_to_and_from_both_families() {
    let (Some(server), Some(six), four) = (dual_stack(), udp6(), udp4()) else { return };
    let sent = numbered(30, 9);
    let msgs: Vec<_> = sent
        .iter()
        .enumerate()
        .map(|(i, data)| {
            let to = match i % 6 {
                0 => mapped(addr(&four)),
                3 => addr(&four),
                _ => addr(&six),
            };
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
fn a_destination_overrides_the_connected_peer() {
    let ((a, b), other) = (connected(), udp4());
    let msgs = [SendMsg::to(addr(&other), b"to other"), SendMsg::new(b"to peer")];
    assert_eq!(a.send_batch(&msgs).expect("both are there"), 2);
    assert_eq!(payloads(&other, 1), [b"to other"]);
    assert_eq!(payloads(&b, 1), [b"to peer"]);
}

//! Reports of a router, and its changes to datagrams, in network namespaces.

use std::net::{SocketAddr, UdpSocket};

use super::reply::two_cables;
use crate::kit::net::Route;
use crate::kit::receive::{Way, one, payloads};
use crate::kit::{addr, enable_all, in_error, index, ip, reports, summary};
use mmsg::error_queue::{Event, Report};
use mmsg::options::{Fragmentation, path_mtu};
use mmsg::{Ancillary, BatchSocket, BatchSocketExt, SendMeta, SendMsg};

/// Addresses of [`Route`] in one family.
struct Family {
    any: &'static str,
    client: &'static str,
    /// The router's address on the client's side.
    router: &'static str,
    servers: [&'static str; 2],
    /// An address to which the router has no route.
    nowhere: &'static str,
    /// Length of the IP and UDP headers.
    headers: usize,
}

const V4: Family = Family {
    any: "0.0.0.0:0",
    client: "10.9.1.1:0",
    router: "10.9.1.254",
    servers: ["10.9.2.1", "10.9.2.2"],
    nowhere: "192.0.2.1:9",
    headers: 28,
};

const V6: Family = Family {
    any: "[::]:0",
    client: "[fd09:1::1]:0",
    router: "fd09:1::fe",
    servers: ["fd09:2::1", "fd09:2::2"],
    nowhere: "[2001:db8::1]:9",
    headers: 48,
};

/// Address `i` of the server, with this socket's port.
fn server(family: &Family, i: usize, socket: &UdpSocket) -> SocketAddr {
    SocketAddr::new(ip(family.servers[i]), addr(socket).port())
}

/// Sends with "don't fragment" and learns the path MTU.
fn discover_mtu(socket: &UdpSocket) {
    Fragmentation::Never.set(socket).expect("an option of every Linux");
}

#[test]
fn an_answer_leaves_from_the_address_that_was_asked_of_a_host_with_two() {
    let Some(route) = Route::new() else { return };
    for family in [V4, V6] {
        let answering = route.server.bind(family.any);
        enable_all(&answering, Ancillary::DEST);
        for way in Way::ALL {
            // Connected clients do not receive answers from another address.
            let clients = [0, 1].map(|i| {
                let client = route.client.bind(family.client);
                client.connect(server(&family, i, &answering)).expect("there is a route");
                client.send(b"question").expect("it is taken");
                let got = way.receive(&answering, 1).remove(0);
                assert_eq!(got.meta.dest, Some(ip(family.servers[i])));
                let to = got.addr.expect("it has a source");
                let meta = got.meta.reply_meta();
                let answer = SendMsg::to(to, b"answer").with_meta(&meta);
                assert_eq!(answering.send_batch(&[answer]).expect("it is taken"), 1);
                client
            });
            assert!(clients.iter().all(|client| one(client).data == b"answer"), "{way:?}");
        }
    }
}

#[test]
fn an_answer_to_a_link_local_address_leaves_by_its_interface() {
    // Both cables have the same addresses at their ends.
    let ends = [["fe80::1/64"; 2], ["fe80::2/64"; 2]];
    let Some([asking, answering]) = two_cables(ends[0], ends[1]) else { return };
    let socket = answering.bind("[::]:0");
    enable_all(&socket, Ancillary::DEST);
    for device in ["near0", "near1"] {
        let client = asking.bind("[::]:0");
        let to = format!("[fe80::2%{}]:{}", asking.enter(|| index(device)), addr(&socket).port());
        client.connect(to.parse::<SocketAddr>().expect("an address")).expect("there is a route");
        client.send(b"question").expect("it is taken");
        let got = one(&socket);
        assert_eq!(got.meta.dest, Some(ip("fe80::2")));
        let reply = got.meta.reply_meta();
        assert_eq!((reply.source, reply.interface), (Some(ip("fe80::2")), got.meta.interface));
        // Without the scope in the destination, the reply must use the interface.
        let mut to = got.addr.expect("it has a source");
        if let SocketAddr::V6(to) = &mut to {
            to.set_scope_id(0);
        }
        let answer = SendMsg::to(to, b"answer").with_meta(&reply);
        assert_eq!(socket.send_batch(&[answer]).expect("it is taken"), 1);
        assert_eq!(payloads(&client, 1), [b"answer"], "{device}");
    }
}

#[test]
fn a_packet_too_big_for_a_hop_comes_back_with_its_mtu() {
    let Some(route) = Route::new() else { return };
    for family in [V4, V6] {
        let (from, to) = (route.client.bind(family.client), route.server.bind(family.any));
        discover_mtu(&from);
        enable_all(&from, Ancillary::ERRORS | Ancillary::TIMESTAMP);
        let (dest, other) = (server(&family, 0, &to), server(&family, 1, &to));
        let too_big = vec![7; 1281 - family.headers];
        assert_eq!(from.send_batch(&[SendMsg::to(dest, &too_big)]).expect("unknown yet"), 1);
        let report = &reports(&from, 1)[0];
        let expected = (Event::TooBig { mtu: 1280 }, Some(dest), Some(ip(family.router)));
        assert_eq!((summary(report), report.errno), (expected, libc::EMSGSIZE));
        assert_eq!(
            report.icmp_type.zip(report.icmp_code),
            Some(if dest.is_ipv4() { (3, 4) } else { (2, 0) })
        );
        assert_eq!((report.timestamp.is_some(), report.quote()), (true, &too_big[..64]));

        // The host itself now knows the MTU and rejects the datagram.
        let error = from.send_batch(&[SendMsg::to(dest, &too_big)]).expect_err("too big");
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        let own = reports(&from, 1);
        assert!(own.len() <= 2, "{own:?}");
        for report in own {
            assert_eq!((report.event, report.offender), (Event::TooBig { mtu: 1280 }, None));
            // For IPv4, Linux gives the port that the socket is connected to; this one is not connected.
            let port = if dest.is_ipv4() { 0 } else { dest.port() };
            assert_eq!(report.dest, Some(SocketAddr::new(dest.ip(), port)));
            assert_eq!(report.errno, libc::EMSGSIZE);
            assert_eq!((report.icmp_type, report.timestamp, report.quote()), (None, None, &[][..]));
        }

        // The path MTU applies to every socket with this destination, and a probe ignores it.
        let connected = route.client.bind(family.client);
        connected.connect(dest).expect("there is a route");
        assert_eq!(path_mtu(&connected).expect("it is connected"), 1280);
        Fragmentation::Never.set(&connected).expect("an option of every Linux");
        let error = connected.send(&too_big).expect_err("too big");
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        Fragmentation::Probe.set(&connected).expect("an option of every Linux");
        assert_eq!(connected.send(&too_big).expect("a probe"), too_big.len());

        // A datagram that just fits arrives, and so does one to another destination.
        let fits = vec![7; 1280 - family.headers];
        let msgs = [SendMsg::to(other, &too_big), SendMsg::to(dest, &fits)];
        assert_eq!(from.send_batch(&msgs[..1]).expect("unknown yet"), 1);
        assert!(in_error(&from, crate::kit::TIME_LIMIT));
        assert_eq!(from.send_batch(&msgs[1..]).expect("it is innocent"), 1);
        assert_eq!(payloads(&to, 1), [&fits[..]]);
        let report = &reports(&from, 1)[0];
        assert_eq!((report.event, report.dest), (Event::TooBig { mtu: 1280 }, Some(other)));

        // So it is on a connected socket, whose other errors a send returns.
        let _ = connected.take_error();
        enable_all(&connected, Ancillary::ERRORS);
        assert_eq!(connected.send(&too_big).expect("a probe"), too_big.len());
        assert!(in_error(&connected, crate::kit::TIME_LIMIT));
        assert_eq!(connected.send_batch(&[SendMsg::new(&fits)]).expect("it is innocent"), 1);
        assert_eq!(payloads(&to, 1), [&fits[..]]);
        assert_eq!(reports(&connected, 1)[0].event, Event::TooBig { mtu: 1280 });
    }
}

#[test]
fn hops_that_run_out_come_back_as_time_exceeded() {
    let Some(route) = Route::new() else { return };
    for family in [V4, V6] {
        let (from, to) = (route.client.bind(family.client), route.server.bind(family.any));
        enable_all(&from, Ancillary::ERRORS);
        let plain = SendMsg::to(server(&family, 1, &to), b"data");
        let meta = SendMeta::new().with_hop_limit(1);
        let sent = from.send_batch(&[plain.with_meta(&meta)]);
        assert_eq!(sent.expect("it is taken"), 1);
        let report = &reports(&from, 1)[0];
        let expected = (Event::TimeExceeded, plain.dest(), Some(ip(family.router)));
        assert_eq!((summary(report), report.errno), (expected, libc::EHOSTUNREACH));
        assert_eq!(
            report.icmp_type.zip(report.icmp_code),
            Some(if family.headers == 28 { (11, 0) } else { (3, 0) })
        );
        // One more hop is enough.
        let meta = SendMeta::new().with_hop_limit(2);
        let enough = plain.with_meta(&meta);
        assert_eq!(from.send_batch(&[enough]).expect("it is taken"), 1);
        assert_eq!(payloads(&to, 1), [b"data"]);
    }
}

#[test]
fn a_router_without_a_route_reports_unreachable() {
    let Some(route) = Route::new() else { return };
    for family in [V4, V6] {
        let (from, to) = (route.client.bind(family.client), route.server.bind(family.any));
        enable_all(&from, Ancillary::ERRORS);
        let nowhere: SocketAddr = family.nowhere.parse().expect("an address");
        let msgs = [
            SendMsg::to(nowhere, b"lost"),
            SendMsg::to(server(&family, 0, &to), b"good"),
            SendMsg::to(nowhere, b"lost"),
        ];
        for _ in 0..2 {
            let sent = from.send_each(msgs, |index, error| panic!("{index}: {error}"));
            assert_eq!(sent.expect("each of them is taken"), 3);
            assert_eq!(payloads(&to, 1), [b"good"]);
            for report in reports(&from, 2) {
                let expected = (Event::Unreachable, Some(nowhere), Some(ip(family.router)));
                assert_eq!((summary(&report), report.errno), (expected, libc::ENETUNREACH));
            }
        }
    }
}

/// A relay of 32 sessions to two addresses of a server, all of whose datagrams are too long for the path. It tells each
/// client what a send returns and what a router reports, and passes over the reports of this host itself.
#[test]
fn a_relay_passes_on_each_path_mtu_error_once() {
    let Some(route) = Route::new() else { return };
    for family in [V4, V6] {
        let to = route.server.bind(family.any);
        let (mut by_router, mut by_host) = (0, 0);
        for i in 0..32 {
            let session = route.client.bind(family.client);
            discover_mtu(&session);
            enable_all(&session, Ancillary::ERRORS);
            let too_big = [SendMsg::to(server(&family, i % 2, &to), &[7; 1281])];
            for told in 1..=3 {
                let mut refused = 0;
                let count = session.send_each(too_big, |_, error| {
                    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
                    refused += 1;
                });
                assert_eq!(count.expect("it is a socket"), 1);
                let is_routers = |report: &&Report| report.offender.is_some();
                by_router += reports(&session, 1).iter().filter(is_routers).count();
                by_host += refused;
                assert_eq!(by_router + by_host, 3 * i + told, "{i}");
            }
        }
        assert_eq!(by_router, 2, "one for each path: the host remembers its MTU");
    }
}

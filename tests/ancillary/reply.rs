//! The address a datagram was sent to, this host's address that received it, and the address that the reply leaves
//! from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use crate::kit::net::{Host, warm_up};
use crate::kit::receive::{OwnedMessage, Way, one};
use crate::kit::{at, bind, dual_stack, enable_all, index, ip, udp4};
use mmsg::{Ancillary, BatchSocket, SendMsg};

/// Answers the received datagrams and checks that the answers leave from `source`.
#[track_caller]
fn answer(server: &UdpSocket, got: &OwnedMessage, client: &UdpSocket, source: &str) {
    let to = got.addr.expect("it has a source");
    let meta = got.meta.reply_meta();
    let reply = SendMsg::to(to, b"answer").with_meta(&meta);
    assert_eq!(server.send_batch(&[reply]).expect("the reply can be sent"), 1);
    let mut bytes = [0; 16];
    let (n, from) = client.recv_from(&mut bytes).expect("it arrives");
    assert_eq!((&bytes[..n], from), (&b"answer"[..], at(source, server)));
}

/// A socket, and a function that gives an IPv4 address the form it has on that socket.
type Server = (UdpSocket, fn(&str) -> IpAddr);

/// Sockets on all addresses, one for IPv4 and one for both families, with `DEST` on.
fn servers() -> [Server; 2] {
    let servers: [Server; 2] = [
        (bind((Ipv4Addr::UNSPECIFIED, 0)), ip),
        (dual_stack(), |text| ip(&format!("::ffff:{text}"))),
    ];
    servers.iter().for_each(|(server, _)| enable_all(server, Ancillary::DEST));
    servers
}

#[test]
fn d32_a_reply_to_a_directed_broadcast_leaves_from_this_hosts_own_address() {
    for (server, seen) in servers() {
        let client = udp4();
        client.set_broadcast(true).expect("it is a flag");
        for way in Way::ALL {
            client.send_to(b"who is there?", at("127.255.255.255", &server)).expect("it is taken");
            let got = way.receive(&server, 1).remove(0);
            assert_eq!(got.meta.destination, Some(seen("127.255.255.255")), "{way:?}");
            assert_eq!(got.meta.local, Some(seen("127.0.0.1")), "{way:?}");
            answer(&server, &got, &client, "127.0.0.1");
        }
    }
}

#[test]
fn d32_hosts_with_several_addresses_reply_to_broadcasts_and_groups() {
    let name = "d32_hosts_with_several_addresses_reply_to_broadcasts_and_groups";
    let (Some(near), Some(far)) = (Host::new(name, &[]), Host::new(name, &[])) else { return };
    for host in [&near, &far] {
        for path in ["ipv6/conf/default/accept_dad", "ipv6/conf/all/accept_dad"] {
            host.set(path, "0");
        }
    }
    near.cable("near0", &far, "far0");
    near.ip(&[
        "addr add 10.9.1.1/24 brd + dev near0",
        "addr add fd09:1::1/64 dev near0 nodad",
        "link set near0 up",
        "route add 239.0.0.0/8 dev near0",
    ]);
    far.ip(&[
        // For another network, the kernel itself would choose the first address.
        "addr add 10.9.9.9/24 brd + dev far0",
        "addr add 10.9.1.2/24 brd + dev far0",
        "addr add 10.9.1.3/24 brd + dev far0",
        "addr add fd09:1::2/64 dev far0 nodad",
        "link set far0 up",
    ]);
    warm_up((&near, "10.9.1.1:0"), (&far, "10.9.1.2:0"));
    warm_up((&near, "[fd09:1::1]:0"), (&far, "[fd09:1::2]:0"));

    let client = near.bind("10.9.1.1:0");
    client.set_broadcast(true).expect("it is a flag");
    let server = far.bind("0.0.0.0:0");
    let device = far.within(|| {
        let device = index("far0");
        server
            .join_multicast_v4(&Ipv4Addr::new(239, 7, 7, 7), &Ipv4Addr::new(10, 9, 1, 2))
            .expect("the device has that address");
        device
    });
    enable_all(&server, Ancillary::DEST);
    for dest in ["10.9.1.255", "255.255.255.255", "239.7.7.7", "10.9.1.3"] {
        let own = if dest == "10.9.1.3" { dest } else { "10.9.1.2" };
        client.send_to(b"who is there?", at(dest, &server)).expect("it is taken");
        let got = one(&server);
        assert_eq!((got.meta.destination, got.meta.local), (Some(ip(dest)), Some(ip(own))));
        assert_eq!(got.meta.interface, Some(device));
        answer(&server, &got, &client, own);
    }

    // IPv6 has no broadcast, and reports no local address for a multicast group.
    let (client, server) = (near.bind("[fd09:1::1]:0"), far.bind("[::]:0"));
    enable_all(&server, Ancillary::DEST);
    let mut all_nodes: SocketAddr = at("ff02::1", &server);
    if let SocketAddr::V6(all_nodes) = &mut all_nodes {
        all_nodes.set_scope_id(near.within(|| index("near0")));
    }
    client.send_to(b"who is there?", all_nodes).expect("it is taken");
    let got = one(&server);
    assert_eq!((got.meta.destination, got.meta.local), (Some(ip("ff02::1")), None));
    answer(&server, &got, &client, "fd09:1::2");
}

#[test]
fn d25_a_datagram_queued_before_dest_was_on_has_no_interface() {
    let sockets = [(udp4(), false), (dual_stack(), true)];
    for (server, mapped) in sockets {
        let client = udp4();
        let dest = at("127.0.0.1", &server);
        client.send_to(b"early", dest).expect("it is taken");
        server.peek(&mut [0; 8]).expect("it waits");
        enable_all(&server, Ancillary::DEST);
        let got = one(&server);
        let seen = if mapped { ip("::ffff:127.0.0.1") } else { ip("127.0.0.1") };
        assert_eq!(got.meta.destination, Some(seen));
        assert_eq!((got.meta.interface, got.meta.local), (None, None));
        answer(&server, &got, &client, "127.0.0.1");

        client.send_to(b"late", dest).expect("it is taken");
        let got = one(&server);
        assert!(got.meta.interface.is_some_and(|index| index > 0));
        assert_eq!(got.meta.local, Some(seen));
    }
}

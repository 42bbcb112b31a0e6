//! The address a datagram was sent to, this host's address that received it, and the address that the reply leaves
//! from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

#[cfg(target_os = "linux")]
use crate::kit::net::{Host, warm_up};
use crate::kit::receive::{OwnedMessage, Way, one};
use crate::kit::{HAS_DUAL_STACK, addr, at, bind, dual_stack, enable_all, index, ip, udp4};
use mmsg::{Ancillary, BatchSocket, BatchSocketExt, RecvBatch, SendMeta, SendMsg};

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
fn servers() -> Vec<Server> {
    let mut servers: Vec<Server> = vec![(bind((Ipv4Addr::UNSPECIFIED, 0)), ip)];
    if HAS_DUAL_STACK {
        servers.push((dual_stack(), |text| ip(&format!("::ffff:{text}"))));
    }
    servers.iter().for_each(|(server, _)| enable_all(server, Ancillary::DEST));
    servers
}

#[test]
fn a_reply_to_a_directed_broadcast_leaves_from_this_hosts_own_address() {
    // Other systems have one loopback address, and report no address of this host's own.
    let is_linux = cfg!(target_os = "linux");
    let asked = if is_linux { "127.255.255.255" } else { "127.0.0.1" };
    for (server, seen) in servers() {
        let client = udp4();
        client.set_broadcast(true).expect("it is a flag");
        for way in Way::ALL {
            client.send_to(b"who is there?", at(asked, &server)).expect("it is taken");
            let got = way.receive(&server, 1).remove(0);
            assert_eq!(got.meta.dest, Some(seen(asked)), "{way:?}");
            assert!(got.meta.local == Some(seen("127.0.0.1")) || !is_linux, "{way:?}");
            answer(&server, &got, &client, "127.0.0.1");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn hosts_with_several_addresses_reply_to_broadcasts_and_groups() {
    let (Some(near), Some(far)) = (Host::new(&[]), Host::new(&[])) else { return };
    for host in [&near, &far] {
        for path in ["ipv6/conf/default/accept_dad", "ipv6/conf/all/accept_dad"] {
            host.set(path, "0");
        }
        // No other link-local address, which the kernel would prefer if it came after the one that is named here.
        host.set("ipv6/conf/default/addr_gen_mode", "1");
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
    let device = far.enter(|| {
        let device = index("far0");
        server
            .join_multicast_v4(&Ipv4Addr::new(239, 7, 7, 7), &Ipv4Addr::new(10, 9, 1, 2))
            .expect("the device has that address");
        device
    });
    enable_all(&server, Ancillary::DEST | Ancillary::HOP_LIMIT);
    let hops = SendMeta::new().with_hop_limit(7);
    let ask = |dest| SendMsg::to(dest, b"who is there?").with_meta(&hops);
    for dest in ["10.9.1.255", "255.255.255.255", "239.7.7.7", "10.9.1.3"] {
        let own = if dest == "10.9.1.3" { dest } else { "10.9.1.2" };
        client.send_batch(&[ask(at(dest, &server))]).expect("it is taken");
        let got = one(&server);
        assert_eq!((got.meta.dest, got.meta.local), (Some(ip(dest)), Some(ip(own))));
        assert_eq!((got.meta.interface, got.meta.hop_limit), (Some(device), Some(7)));
        answer(&server, &got, &client, own);
    }

    // IPv6 has no broadcast, and reports no local address for a multicast group.
    let (client, server) = (near.bind("[fd09:1::1]:0"), far.bind("[::]:0"));
    enable_all(&server, Ancillary::DEST | Ancillary::HOP_LIMIT);
    let mut all_nodes: SocketAddr = at("ff02::1", &server);
    if let SocketAddr::V6(all_nodes) = &mut all_nodes {
        all_nodes.set_scope_id(near.enter(|| index("near0")));
    }
    client.send_batch(&[ask(all_nodes)]).expect("it is taken");
    let got = one(&server);
    assert_eq!((got.meta.dest, got.meta.local), (Some(ip("ff02::1")), None));
    assert_eq!(got.meta.hop_limit, Some(7));
    answer(&server, &got, &client, "fd09:1::2");
}

/// Two hosts on two cables whose networks overlap: `far` cannot tell by routes where a question came from.
#[cfg(target_os = "linux")]
pub(super) fn two_cables(near: [&str; 2], far: [&str; 2]) -> Option<[Host; 2]> {
    let hosts = [Host::new(&[])?, Host::new(&[])?];
    for host in &hosts {
        for path in ["ipv6/conf/default/accept_dad", "ipv6/conf/all/accept_dad"] {
            host.set(path, "0");
        }
        // Each interface answers for its own address alone, as on links that do not see each other.
        for (path, value) in [("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "0")] {
            host.set(&format!("ipv4/conf/all/{path}"), value);
            host.set(&format!("ipv4/conf/default/{path}"), value);
        }
    }
    for cable in ["0", "1"] {
        hosts[0].cable(&format!("near{cable}"), &hosts[1], &format!("far{cable}"));
    }
    for (host, end, addrs) in [(&hosts[0], "near", near), (&hosts[1], "far", far)] {
        for (i, addr) in addrs.iter().enumerate() {
            let nodad = if addr.contains(':') { " nodad" } else { "" };
            host.ip(&[
                &format!("link set {end}{i} up"),
                &format!("addr add {addr} dev {end}{i}{nodad}"),
            ]);
        }
    }
    Some(hosts)
}

/// Asks by each cable, the group and the host itself, until 16 answers in a row have come. Counts the answers.
#[cfg(target_os = "linux")]
fn answers(hosts: &[Host; 2], group: IpAddr, near: [&str; 2], far: [&str; 2]) -> usize {
    let any = if group.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let server = hosts[1].bind(any);
    enable_all(&server, Ancillary::DEST);
    hosts[1].enter(|| {
        for cable in ["far0", "far1"] {
            let socket = socket2::SockRef::from(&server);
            let by_index = socket2::InterfaceIndexOrAddress::Index(index(cable));
            let joined = match group {
                IpAddr::V4(group) => socket.join_multicast_v4_n(&group, &by_index),
                IpAddr::V6(group) => server.join_multicast_v6(&group, index(cable)),
            };
            joined.expect("the interface is up");
        }
    });
    let mut answered = 0;
    let mut batch = RecvBatch::new(16, 64);
    for (cable, (from, to)) in near.iter().zip(far).enumerate() {
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let client = hosts[0].enter(|| {
            let device = index(&format!("near{cable}"));
            let scope = if from.starts_with("fe80") { device } else { 0 };
            let mut local = SocketAddr::new(ip(from), 0);
            if let SocketAddr::V6(local) = &mut local {
                local.set_scope_id(scope);
            }
            let client = bind(local);
            socket2::SockRef::from(&client)
                .bind_device(Some(format!("near{cable}").as_bytes()))
                .expect("a device of this namespace");
            client
        });
        for socket in [&client, &server] {
            let time = std::time::Duration::from_millis(200);
            socket.set_read_timeout(Some(time)).expect("a timeout");
        }
        for dest in [group, ip(to)] {
            let mut dest = SocketAddr::new(dest, addr(&server).port());
            if let SocketAddr::V6(dest) = &mut dest {
                dest.set_scope_id(hosts[0].enter(|| index(&format!("near{cable}"))));
            }
            let mut count = 0;
            // The first ones wait for the devices and the neighbours.
            for question in 0..200u8 {
                client.send_to(&[question], dest).expect("there is a route");
                if server.recv_into(&mut batch).is_err() {
                    continue;
                }
                let replies = batch.iter().filter_map(|d| Some(d.reply(d.data())?.by_interface()));
                server.send_each(replies, |_, error| panic!("{error}")).expect("it has space");
                let mut answer = [0; 8];
                // Also by the address of the interface, which the question to a group does not name.
                let is_answered = loop {
                    match client.recv_from(&mut answer) {
                        // Late, to an earlier question.
                        Ok(_) if answer[0] != question => {}
                        answered => break answered.is_ok_and(|(_, from)| from.ip() == ip(to)),
                    }
                };
                count = if is_answered { count + 1 } else { 0 };
                if count == 16 {
                    break;
                }
            }
            answered += count;
        }
    }
    answered
}

#[cfg(target_os = "linux")]
#[test]
fn replies_by_interface_reach_both_links_of_one_network() {
    let groups = ["224.0.0.251", "ff02::fb"].map(ip);
    let networks = [
        (groups[0], ["10.9.1.1", "10.9.1.3"], ["10.9.1.2", "10.9.1.4"], "24"),
        (groups[0], ["169.254.1.1", "169.254.1.3"], ["169.254.1.2", "169.254.1.4"], "16"),
        (groups[1], ["fd09::1", "fd09::3"], ["fd09::2", "fd09::4"], "64"),
        (groups[1], ["fe80::1", "fe80::3"], ["fe80::2", "fe80::4"], "64"),
    ];
    for (group, near, far, bits) in networks {
        let with_bits = |addrs: [&str; 2]| addrs.map(|addr| format!("{addr}/{bits}"));
        let (near_net, far_net) = (with_bits(near), with_bits(far));
        let nets = [&near_net, &far_net].map(|[a, b]| [a.as_str(), b.as_str()]);
        let Some(hosts) = two_cables(nets[0], nets[1]) else { return };
        assert_eq!(answers(&hosts, group, near, far), 64, "{near:?}");
    }
}

/// A reply to this host itself comes back by loopback, whatever its interface is. Of other addresses the routes decide.
#[cfg(target_os = "linux")]
#[test]
fn a_host_that_asks_its_own_address_is_answered() {
    let nets = [["10.9.1.1/24", "169.254.1.3/16"], ["10.9.1.2/24", "169.254.1.4/16"]];
    let Some([_near, far]) = two_cables(nets[0], nets[1]) else { return };
    far.ip(&["addr add fd09::2/64 dev far0 nodad"]);
    // The kernel makes the route to an IPv6 address a moment later.
    warm_up((&far, "[fd09::2]:0"), (&far, "[fd09::2]:0"));
    let mut batch = RecvBatch::new(1, 64);
    for (any, own, interface) in [
        ("0.0.0.0:0", "10.9.1.2", false),
        ("0.0.0.0:0", "169.254.1.4", true),
        ("0.0.0.0:0", "127.0.0.1", false),
        ("[::]:0", "fd09::2", false),
        ("[::]:0", "::1", false),
    ] {
        let (server, client) = (far.bind(any), far.bind(any));
        enable_all(&server, Ancillary::DEST);
        client.send_to(b"who is there?", at(own, &server)).expect("its own address");
        assert_eq!(server.recv_into(&mut batch).expect("it arrives"), 1);
        let reply = batch.iter().next().and_then(|d| d.reply(b"here")).expect("it has a source");
        assert_eq!(reply.meta().interface.is_some(), interface, "{own}");
        assert_eq!(server.send_batch(&[reply]).expect("it is taken"), 1);
        assert_eq!(client.recv(&mut [0; 8]).expect("it arrives"), 4, "{own}");
    }
}

/// The request comes by the first cable, the way back is the second. It asks for the address of the other interface.
#[cfg(target_os = "linux")]
#[test]
fn a_reply_takes_the_route_unless_the_interface_is_asked_for() {
    let networks = [
        (["10.9.1.1/24", "10.9.2.1/24"], ["10.9.1.2/32", "10.9.2.2/24"], "10.9.3.1", 32),
        (["fd09:1::1/64", "fd09:2::1/64"], ["fd09:1::2/128", "fd09:2::2/64"], "fd09:3::1", 128),
    ];
    for (near_nets, far_nets, asking, bits) in networks {
        let Some([near, far]) = two_cables(near_nets, far_nets) else { return };
        let bare = |net: &'static str| net.split('/').next().expect("an address");
        let (asked, any) = (bare(far_nets[1]), if bits == 32 { "0.0.0.0:0" } else { "[::]:0" });
        near.ip(&[
            &format!("addr add {asking}/{bits} dev lo{}", if bits == 32 { "" } else { " nodad" }),
            &format!("route add {}/{bits} dev near0", bare(far_nets[0])),
            &format!("route add {asked}/{bits} via {} dev near0", bare(far_nets[0])),
        ]);
        far.ip(&[&format!("route add {asking}/{bits} via {} dev far1", bare(near_nets[1]))]);
        let server = far.bind(any);
        let client = near.bind(&at(asking, &server).to_string());
        let ends = [asking, asked].map(|ip| SocketAddr::new(self::ip(ip), 0).to_string());
        warm_up((&near, &ends[0]), (&far, &ends[1]));
        warm_up((&far, &ends[1]), (&near, &ends[0]));
        [&client, &server].iter().for_each(|socket| enable_all(socket, Ancillary::DEST));
        client.send_to(b"question", at(asked, &server)).expect("there is a route");
        let mut batch = RecvBatch::new(1, 64);
        assert_eq!(server.recv_into(&mut batch).expect("it arrives"), 1);
        let question = batch.iter().next().expect("it came");
        assert_eq!(question.meta().local, Some(ip(asked)));
        assert_eq!(question.meta().interface, Some(far.enter(|| index("far0"))));
        let reply = |data| question.reply(data).expect("it has a source");
        let replies = [reply(b"lost").by_interface(), reply(b"by the route")];
        // IPv6 falls back to the route; IPv4 asks for the neighbour on a link that does not have it.
        let first = usize::from(bits == 32);
        assert_eq!(server.send_batch(&replies).expect("no error says so"), 2);
        assert_eq!(client.recv_into(&mut batch).expect("it arrives"), 1);
        let got = batch.iter().next().expect("it came");
        assert_eq!(got.data(), [&b"lost"[..], b"by the route"][first]);
        assert_eq!(got.meta().interface, Some(near.enter(|| index("near1"))));
        assert!(server.take_error().expect("it is a socket").is_none());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_datagram_queued_before_dest_was_on_has_no_interface() {
    let sockets = [(udp4(), false), (dual_stack(), true)];
    for (server, mapped) in sockets {
        let client = udp4();
        let dest = at("127.0.0.1", &server);
        client.send_to(b"early", dest).expect("it is taken");
        server.peek(&mut [0; 8]).expect("it waits");
        enable_all(&server, Ancillary::DEST);
        let got = one(&server);
        let seen = if mapped { ip("::ffff:127.0.0.1") } else { ip("127.0.0.1") };
        assert_eq!(got.meta.dest, Some(seen));
        assert_eq!((got.meta.interface, got.meta.local), (None, None));
        answer(&server, &got, &client, "127.0.0.1");

        client.send_to(b"late", dest).expect("it is taken");
        let got = one(&server);
        assert!(got.meta.interface.is_some_and(|index| index > 0));
        assert_eq!(got.meta.local, Some(seen));
    }
}

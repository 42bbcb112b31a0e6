//! A node with two addresses answers from the one that was asked.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};

use crate::common::skip;
use crate::kit::{
    Config, FAR_INSIDE, NEAR_INSIDE, Node, assert_nothing_lost, exchange, inside, number,
    with_nodes,
};
use crate::running::receive;
use crate::veth::{DEVICE, FAR_DEVICE, Far, ip};

/// Second addresses of the near end, which its routes do not prefer.
const OTHERS: [&str; 2] = ["10.77.0.3", "fd77::3"];

/// Lets UDP datagrams in only if they answer one that left, as a home router does.
fn firewall() -> io::Result<()> {
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
    let rules = "add table inet t\n\
                 add chain inet t in { type filter hook input priority 0; policy accept; }\n\
                 add rule inet t in iifname lo accept\n\
                 add rule inet t in ct state established accept\n\
                 add rule inet t in meta l4proto udp counter drop\n";
    nft.stdin.take().expect("it is piped").write_all(rules.as_bytes())?;
    if nft.wait()?.success() { Ok(()) } else { Err(io::Error::other("nft refuses the rules")) }
}

/// What the firewall has dropped.
fn dropped() -> u64 {
    let output = Command::new("nft").args(["list", "table", "inet", "t"]).output().expect("nft");
    number(&String::from_utf8_lossy(&output.stdout), "counter packets")
}

fn add_addresses(far: &Far) {
    for address in ["fd77::1/64", "fd77::3/64", "10.77.0.3/24"] {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        // Without preferred_lft, the kernel would prefer the newest of IPv6.
        let later = if address.starts_with("fd77::3") { " preferred_lft 0" } else { "" };
        ip(&format!("addr add {address} dev {DEVICE}{nodad}{later}")).expect("an address");
    }
    far.enter(|| ip(&format!("addr add fd77::2/64 dev {FAR_DEVICE} nodad"))).expect("an address");
}

/// The near node waits for the far one, which knows it by this address.
fn nodes(test: &str, far: &Far, asked: &str) -> (Node, Node) {
    let config = Config::new(1, &["10.78.0.1/24", "fd78::1/64"], 0).peer(2, &FAR_INSIDE, None);
    let near = Node::start(&config.write(test, "near"), &[]);
    let asked: IpAddr = asked.parse().expect("an address");
    let config = Config::new(2, &["10.78.0.2/24", "fd78::2/64"], 0);
    let config = config.peer(1, &NEAR_INSIDE, Some(SocketAddr::new(asked, near.port)));
    let there = far.enter(|| Node::start(&config.write(test, "far"), &[]));
    (near, there)
}

/// Sends a datagram through the tunnel, and waits for it.
#[track_caller]
fn pass(from: &UdpSocket, to: &UdpSocket, data: &[u8]) {
    from.send_to(data, to.local_addr().expect("it is bound")).expect("the device takes it");
    let mut buffer = [0; 64];
    let len = receive(to, &mut buffer).expect("it comes");
    assert_eq!(&buffer[..len], data);
}

#[track_caller]
fn behind_a_firewall(test: &str, asked: &str) {
    with_nodes(test, |far| {
        if let Err(error) = far.enter(firewall) {
            return skip(test, format_args!("no firewall: {error}"));
        }
        add_addresses(&far);
        let (near, there) = nodes(test, &far, asked);
        let (here, peer) = (inside(NEAR_INSIDE[0]), far.enter(|| inside(FAR_INSIDE[0])));
        pass(&peer, &here, b"let me in");
        pass(&here, &peer, b"come in");
        for address in FAR_INSIDE {
            exchange(&far, address, 3 << 20);
        }
        let counters = there.stop();
        assert_nothing_lost(&counters);
        assert_nothing_lost(&near.stop());
        assert_eq!(far.enter(dropped), 0);
    });
}

#[test]
fn a_second_address_answers_through_a_stateful_firewall() {
    behind_a_firewall("a_second_address_answers_through_a_stateful_firewall", OTHERS[0]);
}

#[test]
fn a_second_ipv6_address_answers_through_a_stateful_firewall() {
    behind_a_firewall("a_second_ipv6_address_answers_through_a_stateful_firewall", OTHERS[1]);
}

#[test]
fn a_peer_that_moves_is_answered_from_where_it_asked() {
    let test = "a_peer_that_moves_is_answered_from_where_it_asked";
    with_nodes(test, |far| {
        if let Err(error) = far.enter(firewall) {
            return skip(test, format_args!("no firewall: {error}"));
        }
        add_addresses(&far);
        let (near, there) = nodes(test, &far, OTHERS[0]);
        let (here, peer) = (inside(NEAR_INSIDE[0]), far.enter(|| inside(FAR_INSIDE[0])));
        pass(&peer, &here, b"at home");
        pass(&here, &peer, b"seen");
        for host in [4, 5] {
            far.enter(|| {
                ip(&format!("addr flush dev {FAR_DEVICE}")).expect("they were there");
                ip(&format!("addr add 10.77.0.{host}/24 dev {FAR_DEVICE}")).expect("an address");
            });
            pass(&peer, &here, b"moved");
            pass(&here, &peer, b"seen");
        }
        assert_eq!(far.enter(dropped), 0);
        near.stop();
        there.stop();
    });
}

#[test]
fn an_address_that_disappears_gives_way_to_another() {
    let test = "an_address_that_disappears_gives_way_to_another";
    for (asked, len) in OTHERS.into_iter().zip([24, 64]) {
        with_nodes(test, |far| {
            add_addresses(&far);
            let (near, there) = nodes(test, &far, asked);
            let (here, peer) = (inside(NEAR_INSIDE[0]), far.enter(|| inside(FAR_INSIDE[0])));
            pass(&peer, &here, b"at home");
            pass(&here, &peer, b"seen");
            ip(&format!("addr del {asked}/{len} dev {DEVICE}")).expect("it was there");
            for _ in 0..3 {
                pass(&here, &peer, b"from the other");
                pass(&peer, &here, b"seen");
            }
            let counters = near.stop();
            assert_eq!(number(&counters, "failed"), 0, "{counters}");
            there.stop();
        });
    }
}

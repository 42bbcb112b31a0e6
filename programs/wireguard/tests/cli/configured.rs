//! What a configuration does to the running node.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use crate::common::skip;
use crate::kit::{Config, FAR_INSIDE, Node, WIREGUARD, assert_nothing_lost, exchange, with_nodes};
use crate::running::Program;
use crate::veth::{DEVICE, FAR, FAR_DEVICE, ip};

#[test]
fn a_node_has_every_address_and_its_mark() {
    let test = "a_node_has_every_address_and_its_mark";
    with_nodes(test, |_| {
        let addresses = ["10.78.0.1", "10.79.0.1", "10.80.0.1", "fd78::1", "fd79::1"];
        let config = Config::new(1, &addresses, 51_820).line("FwMark = 0x77\nDNS = 10.78.0.53");
        let config = config.peer(2, &[], None).line("PersistentKeepalive = OFF");
        let node = Node::start(&config.write(test, "wg0"), &[]);
        for address in addresses {
            UdpSocket::bind((address, 0)).expect("an address of the device");
        }
        let sockets =
            Command::new("ss").args(["--udp", "--all", "--extended", "--numeric"]).output();
        let sockets = String::from_utf8(sockets.expect("ss runs").stdout).expect("UTF-8");
        let ours = sockets.lines().find(|line| line.contains(":51820 ")).expect("its socket");
        assert!(ours.contains("fwmark:0x77"), "{sockets}");
        assert!(
            node.program.err_line().ends_with("line 6: DNS is ignored: set the resolvers by hand")
        );
        node.stop();
    });
}

#[test]
fn a_node_without_peers_runs() {
    let test = "a_node_without_peers_runs";
    with_nodes(test, |_| {
        let config = Config::new(1, &["10.78.0.1/24"], 51_820).write(test, "wg0");
        let node = Program::start(WIREGUARD, [config]);
        assert_eq!(node.line(), "no [Peer], device wg0");
        UdpSocket::bind("10.78.0.1:0").expect("the address of the device");
        node.signal(libc::SIGTERM);
        let ended = node.wait();
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
    });
}

#[test]
fn an_endpoint_may_have_a_zone() {
    let test = "an_endpoint_may_have_a_zone";
    with_nodes(test, |far| {
        ip(&format!("addr add fe80::1/64 dev {DEVICE} nodad")).expect("an address");
        far.enter(|| ip(&format!("addr add fe80::2/64 dev {FAR_DEVICE} nodad")))
            .expect("an address");
        let config = Config::new(2, &["10.78.0.2/24"], 51_820).peer(1, &["10.78.0.1"], None);
        let there = far.enter(|| Node::start(&config.write(test, "far"), &[]));
        let config = Config::new(1, &["10.78.0.1/24"], 0).peer(2, &["10.78.0.2"], None);
        let config = config.line(&format!("Endpoint = [fe80::2%{DEVICE}]:51820"));
        let near = Node::start(&config.write(test, "near"), &[]);
        exchange(&far, FAR_INSIDE[0], 100_000);
        assert_nothing_lost(&near.stop());
        assert_nothing_lost(&there.stop());
    });
}

#[test]
fn a_name_that_does_not_resolve_yet_is_tried_again() {
    let test = "a_name_that_does_not_resolve_yet_is_tried_again";
    with_nodes(test, |_| {
        let config = Config::new(1, &["10.78.0.1/24"], 0).peer(2, &["10.78.0.2"], None);
        let config = config.line("Endpoint = peer.example.org:51820").write(test, "wg0");
        let folder = config.parent().expect("a folder");
        let (hosts, resolvers) = (folder.join("hosts"), folder.join("resolvers"));
        // No resolver is there, so that the answer is not final.
        fs::write(&hosts, "").expect("a file");
        fs::write(&resolvers, "nameserver 192.0.2.53\n").expect("a file");
        let script =
            "mount --bind $1 /etc/hosts && mount --bind $2 /etc/resolv.conf || exit 9; exec $0 $3";
        let args = [
            Path::new("--mount"),
            "sh".as_ref(),
            "-c".as_ref(),
            script.as_ref(),
            WIREGUARD.as_ref(),
        ];
        let args = args.into_iter().chain([&*hosts, &*resolvers, &*config]);
        let node = Program::start("unshare", args);
        let said = node.err_line();
        if !said.contains("Endpoint") {
            return skip(test, format_args!("no mount: {said}"));
        }
        assert!(
            said.ends_with("line 8: Endpoint does not resolve yet; next try in 1.0s"),
            "{said}"
        );
        fs::write(&hosts, format!("{FAR} peer.example.org\n")).expect("a file");
        Node::started(node).stop();
    });
}

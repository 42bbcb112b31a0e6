//! Fragmentation settings, and the path MTU of loopback. `tests/ancillary/routes.rs` tests routers,
//! `tests/offload/namespaces.rs` the don't-fragment bit.

use std::io::ErrorKind;
use std::net::UdpSocket;

use mmsg::options::{Fragmentation, path_mtu};

use crate::common::linux::{has_option, option};
use crate::common::sockets::{addr, dual_stack, udp4, udp6, unix_pair};

const ALL: [Fragmentation; 4] =
    [Fragmentation::Allow, Fragmentation::Local, Fragmentation::Never, Fragmentation::Probe];

/// A socket of each family, and one of both.
fn sockets() -> Vec<UdpSocket> {
    [Some(udp4()), udp6(), dual_stack()].into_iter().flatten().collect()
}

/// The kernel uses the option of the datagram's family, so a dual-stack socket has both.
#[test]
fn a_setting_holds_for_each_family_of_the_socket() {
    for socket in sockets() {
        let is_v6 = addr(&socket).is_ipv6();
        if is_v6 && !has_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) {
            continue;
        }
        for (value, setting) in (0..).zip(ALL) {
            setting.set(&socket).expect("an option of every Linux");
            let v4 = option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER).ok();
            let v6 = option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER).ok();
            let is_set = |family| family == Some(value);
            match (addr(&socket).ip().is_unspecified(), addr(&socket).is_ipv6()) {
                (true, _) => assert!(is_set(v4) && is_set(v6), "{v4:?} {v6:?}"),
                (_, is_v6) => assert!(is_set(if is_v6 { v6 } else { v4 }), "{v4:?} {v6:?}"),
            }
        }
    }
    let (unix, _other) = unix_pair();
    let error = Fragmentation::Probe.set(&unix).expect_err("no Internet socket");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn the_path_mtu_is_that_of_the_peer() {
    for socket in sockets() {
        let error = path_mtu(&socket).expect_err("nobody is there");
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        let mut peers = vec![format!("127.0.0.1:{}", addr(&socket).port())];
        if addr(&socket).is_ipv6() {
            peers = vec![format!("[::1]:{}", addr(&socket).port())];
            if addr(&socket).ip().is_unspecified() {
                peers.push(format!("[::ffff:127.0.0.1]:{}", addr(&socket).port()));
            }
        }
        for peer in peers {
            socket.connect(&peer).expect("loopback");
            // IPv4's length field limits a packet's length.
            let most = if peer.contains("127.0.0.1") { 65_535 } else { u32::MAX };
            let (level, name) = if peer.contains("127.0.0.1") {
                (libc::IPPROTO_IP, 14)
            } else {
                (libc::IPPROTO_IPV6, 24)
            };
            if !has_option(&socket, level, name) {
                continue;
            }
            let mtu = path_mtu(&socket).expect("it is connected");
            assert_eq!(mtu, loopback_mtu().min(most), "{peer}");
        }
    }
}

fn loopback_mtu() -> u32 {
    let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu");
    // The default since Linux 3.11.
    mtu.ok().and_then(|mtu| mtu.trim().parse().ok()).unwrap_or(65_536)
}

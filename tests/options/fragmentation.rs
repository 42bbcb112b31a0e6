//! Fragmentation settings, and the path MTU of loopback. `tests/ancillary/routes.rs` tests routers,
//! `tests/offload/namespaces.rs` the don't-fragment bit.

use std::io::ErrorKind;
use std::net::UdpSocket;

use mmsg::options::{Fragmentation, path_mtu};

use crate::common::linux::{option, set_option};
use crate::common::sockets::{addr, dual_stack, udp4, udp6, unix_pair};

const ALL: [Fragmentation; 4] =
    [Fragmentation::Allow, Fragmentation::Local, Fragmentation::Never, Fragmentation::Probe];

/// A socket of each family, and one of both.
fn sockets() -> Vec<UdpSocket> {
    [Some(udp4()), udp6(), dual_stack()].into_iter().flatten().collect()
}

#[test]
fn d28_a_setting_is_read_back_on_each_family() {
    for socket in sockets() {
        let at_first = Fragmentation::of(&socket).expect("an option of every Linux");
        assert_eq!(at_first, Fragmentation::Local);
        for setting in ALL {
            setting.set(&socket).expect("an option of every Linux");
            assert_eq!(Fragmentation::of(&socket).ok(), Some(setting));
        }
    }
}

/// The kernel uses the option of the datagram's family.
#[test]
fn d28_a_dual_stack_socket_has_the_setting_for_both_families() {
    let Some(socket) = dual_stack() else { return };
    for (value, setting) in (0..).zip(ALL) {
        setting.set(&socket).expect("an option of every Linux");
        let v4 = option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
        let v6 = option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
        assert_eq!((v4.ok(), v6.ok()), (Some(value), Some(value)));
    }
}

#[test]
fn other_settings_and_other_sockets_are_unsupported() {
    let socket = udp4();
    let interface = libc::IP_PMTUDISC_INTERFACE;
    set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, interface).expect("Linux 3.15");
    let error = Fragmentation::of(&socket).expect_err("none of the four");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let (unix, _other) = unix_pair();
    let errors = [Fragmentation::of(&unix).err(), Fragmentation::Probe.set(&unix).err()];
    assert!(errors.iter().flatten().all(|error| error.kind() == ErrorKind::Unsupported));
    assert!(errors.iter().all(Option::is_some));
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
            let most = if peer.contains("127.0.0.1") { 65_535 } else { usize::MAX };
            let mtu = path_mtu(&socket).expect("it is connected");
            assert_eq!(mtu, loopback_mtu().min(most), "{peer}");
        }
    }
}

fn loopback_mtu() -> usize {
    let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu");
    // The default since Linux 3.11.
    mtu.ok().and_then(|mtu| mtu.trim().parse().ok()).unwrap_or(65_536)
}

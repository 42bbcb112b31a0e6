//! The errors that the guide explains, on real sockets.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

use crate::kit::{addr, any6, udp4, udp6};
use mmsg::{BatchSocket, SendMeta, SendMsg};

/// The errno of a send that must fail.
#[track_caller]
fn errno(socket: &UdpSocket, msg: SendMsg<'_>) -> i32 {
    let error = socket.send_batch(&[msg]).expect_err("it cannot be sent");
    error.raw_os_error().expect("it is the system's")
}

fn to(dest: impl Into<SocketAddr>) -> SendMsg<'static> {
    SendMsg::to(dest.into(), b"data")
}

#[test]
fn errors_are_those_that_the_guide_lists() {
    let (v4, v6, only_v6) = (udp4(), udp6(), any6(true));
    let (dest4, dest6) = (addr(&v4), addr(&v6));
    let meta = SendMeta::new();
    let source = |ip: &str| meta.with_source(ip.parse().expect("an address"));
    let foreign = [source("192.0.2.77"), source("2001:db8::77")];
    let no_device = meta.with_interface(1_000_000);
    let mapped = ([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1], 9);
    for (what, from, msg, expected) in [
        ("no destination", &v4, SendMsg::new(b"data"), libc::EDESTADDRREQ),
        ("no destination", &v6, SendMsg::new(b"data"), libc::EDESTADDRREQ),
        ("IPv6 from an IPv4 socket", &v4, to(dest6), libc::EAFNOSUPPORT),
        ("IPv4 from an IPv6-only socket", &only_v6, to(dest4), libc::ENETUNREACH),
        ("IPv4-mapped from an IPv6-only socket", &only_v6, to(mapped), libc::ENETUNREACH),
        ("IPv4 from a socket bound to ::1", &v6, to(dest4), libc::ENETUNREACH),
        ("port 0", &v4, to(([127, 0, 0, 1], 0)), libc::EINVAL),
        ("port 0", &v6, to((Ipv6Addr::LOCALHOST, 0)), libc::EINVAL),
        ("no such interface", &v4, to(dest4).with_meta(&no_device), libc::ENODEV),
        ("no such interface", &v6, to(dest6).with_meta(&no_device), libc::ENODEV),
        ("foreign source", &v4, to(dest4).with_meta(&foreign[0]), libc::ENETUNREACH),
        ("foreign source", &v6, to(dest6).with_meta(&foreign[1]), libc::EINVAL),
    ] {
        assert_eq!(errno(from, msg), expected, "{what}");
    }
}

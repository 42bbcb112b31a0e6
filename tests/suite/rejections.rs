//! Errors that only Linux gives, and only when provoked: of a firewall and of missing routes, in network namespaces, and
//! of memory for options that is used up.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use mmsg::control::ControlBuf;
use mmsg::{Backend, BatchSocket, SendMsg};

use crate::common::firewall;
use crate::common::linux::in_namespace;
use crate::common::recv::payloads;
use crate::common::sockets::{addr, udp4, udp6};
use crate::common::{code, fails_alone, queue_of, skip};

#[test]
fn a_firewall_rejects_one_destination_alone() {
    in_namespace(|| {
        let (from, open, closed) = (udp4(), udp4(), udp4());
        if let Err(error) = firewall::reject_port(addr(&closed).port()) {
            return skip(format_args!("no firewall rule: {error}"));
        }
        let good = SendMsg::to(addr(&open), b"good");
        let bad = SendMsg::to(addr(&closed), b"bad");
        fails_alone(&from, &open, [good, bad], libc::EPERM);
        // Under a sandbox every message would have failed and the backend changed.
        assert_eq!(Some(Backend::current()), crate::BACKEND);

        let mut queue = queue_of([good, bad, good]);
        assert_eq!(from.flush(&mut queue).expect("the first is good"), 1);
        assert_eq!(code(from.flush(&mut queue)), libc::EPERM);
        assert_eq!(queue.front().and_then(|msg| msg.dest()), bad.dest());
        assert!(queue.discard_front());
        assert_eq!(from.flush(&mut queue).expect("the last is good"), 1);
        assert_eq!(payloads(&open, 2), [b"good"; 2]);
        assert_eq!(Some(Backend::current()), crate::BACKEND);
    });
}

#[test]
fn a_missing_route_fails_its_message_alone() {
    in_namespace(|| {
        // Addresses for documentation (RFC 5737, RFC 3849): the namespace has only loopback.
        let nowhere4 = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
        let nowhere6 = "[2001:db8::1]:9".parse().expect("an address");
        // Bound to no address, because one of loopback would be rejected for another reason.
        let unbound = UdpSocket::bind("0.0.0.0:0").expect("any port");
        let pairs =
            [Some((unbound, udp4(), nowhere4)), udp6().zip(udp6()).map(|(a, b)| (a, b, nowhere6))];
        for (from, to, nowhere) in pairs.into_iter().flatten() {
            let (good, bad) = (SendMsg::to(addr(&to), b"good"), SendMsg::to(nowhere, b"bad"));
            fails_alone(&from, &to, [good, bad], libc::ENETUNREACH);
        }
    });
}

/// Uses up the kernel's memory for the socket's options and control data (`optmem_max`) by joining multicast groups
/// on loopback. Returns whether it is used up.
fn exhaust_option_memory(socket: &UdpSocket) -> bool {
    const LOOPBACK: u32 = 1;
    for i in 0..=u16::MAX {
        let group = Ipv6Addr::new(0xff11, 0, 0, 0, 0, 0, 1, i);
        match socket.join_multicast_v6(&group, LOOPBACK).map_err(|error| error.raw_os_error()) {
            Ok(()) => {}
            Err(Some(libc::ENOMEM | libc::ENOBUFS)) => return true,
            Err(error) => {
                skip(format_args!("group {i}: error {error:?}"));
                return false;
            }
        }
    }
    skip("the kernel's bound is beyond reach");
    false
}

#[test]
fn no_buffer_space_is_returned_without_waiting() {
    let (Some(from), Some(to)) = (udp6(), udp6()) else { return };
    if !exhaust_option_memory(&from) {
        return;
    }
    // Too large for the kernel's stack, so the kernel must allocate memory and fails.
    let mut control = ControlBuf::new();
    for _ in 0..8 {
        control.push(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &1i32.to_ne_bytes()).expect("space");
    }
    let good = SendMsg::to(addr(&to), b"good");
    let bad = good.with_control(&control);
    let errno = code(from.send_batch(&[bad]));
    // A 64-bit kernel returns another errno to 32-bit programs.
    let same = cfg!(target_pointer_width = "32").then_some(libc::ENOMEM);
    assert!(errno == libc::ENOBUFS || Some(errno) == same, "error {errno}");
    fails_alone(&from, &to, [good, bad], errno);
    assert_eq!(Some(Backend::current()), crate::BACKEND);
}

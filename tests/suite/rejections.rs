//! Rejections that only Linux gives, and only when provoked.

use std::net::{Ipv6Addr, UdpSocket};

use mmsg::control::ControlBuf;
use mmsg::{Backend, BatchSocket, SendMsg};

use crate::common::sockets::{addr, udp6};
use crate::common::{code, fails_alone, skip};

/// Uses up the kernel's memory for the socket's options and control data (`optmem_max`) by joining multicast groups
/// on loopback. Returns whether it is used up.
fn exhaust_option_memory(socket: &UdpSocket, name: &str) -> bool {
    const LOOPBACK: u32 = 1;
    for i in 0..=u16::MAX {
        let group = Ipv6Addr::new(0xff11, 0, 0, 0, 0, 0, 1, i);
        match socket.join_multicast_v6(&group, LOOPBACK).map_err(|error| error.raw_os_error()) {
            Ok(()) => {}
            Err(Some(libc::ENOMEM | libc::ENOBUFS)) => return true,
            Err(error) => {
                skip(name, format_args!("group {i}: error {error:?}"));
                return false;
            }
        }
    }
    skip(name, "the kernel's bound is beyond reach");
    false
}

#[test]
fn no_buffer_space_is_returned_without_waiting() {
    let (Some(from), Some(to)) = (udp6(), udp6()) else { return };
    let name = "no_buffer_space_is_returned_without_waiting";
    if !exhaust_option_memory(&from, name) {
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

//! Errors that the kernel itself has for a message, at the first, a middle and the last of a batch.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use mmsg::{BatchSocket, BatchSocketExt, Offload, SendMsg};

use crate::common::recv::payloads;
use crate::common::sockets::{addr, udp4};
use crate::common::{code, numbered};

const COUNT: usize = 5;

/// Each kind of message that no IPv4 socket without `SO_BROADCAST` sends, and its error.
fn rejected(too_long: &[u8], port: u16) -> [(SendMsg<'_>, i32); 5] {
    let to = |ip: Ipv4Addr, port| SendMsg::to(SocketAddr::from((ip, port)), b"rejected");
    [
        (SendMsg::to((Ipv4Addr::LOCALHOST, port).into(), too_long), libc::EMSGSIZE),
        (to(Ipv4Addr::LOCALHOST, 0), libc::EINVAL),
        (to(Ipv4Addr::new(127, 255, 255, 255), port), libc::EACCES),
        (SendMsg::to((Ipv6Addr::LOCALHOST, port).into(), b"rejected"), libc::EAFNOSUPPORT),
        (SendMsg::new(b"rejected"), libc::EDESTADDRREQ),
    ]
}

fn each_error_is_of_its_message(socket: &dyn BatchSocket) {
    let far = udp4();
    let too_long = vec![0; 70_000];
    let data = numbered(COUNT, 40);
    for (bad, errno) in rejected(&too_long, addr(&far).port()) {
        for at in [0, COUNT / 2, COUNT - 1] {
            let mut msgs: Vec<_> = data.iter().map(|data| SendMsg::to(addr(&far), data)).collect();
            msgs[at] = bad;
            if at > 0 {
                assert_eq!(socket.send_batch(&msgs).expect("the first are sent"), at);
            }
            assert_eq!(code(socket.send_batch(&msgs[at..])), errno, "at {at}");
            let rest = COUNT - at - 1;
            assert_eq!(socket.send_batch(&msgs[at + 1..]).expect("they are good"), rest);

            let mut failed = Vec::new();
            let note = |i, error: std::io::Error| failed.push((i, error.raw_os_error()));
            assert_eq!(socket.send_each(&msgs, note).expect("each has an outcome"), COUNT);
            assert_eq!(failed, [(at, Some(errno))]);

            let mut good = data.clone();
            good.remove(at);
            assert_eq!(payloads(&far, 2 * (COUNT - 1)), [&good[..], &good[..]].concat());
        }
    }
}

#[test]
fn an_error_at_any_position_is_of_its_message_alone() {
    each_error_is_of_its_message(&udp4());
}

#[test]
fn an_error_at_any_position_is_of_its_message_alone_with_gso() {
    each_error_is_of_its_message(&Offload::new(udp4()).expect("a UDP socket"));
}

#[test]
fn errors_of_the_socket_end_a_call_of_any_length() {
    let data = numbered(COUNT, 40);
    let closed = udp4();
    let peer = udp4();
    closed.connect(addr(&peer)).expect("connecting does nothing but remember");
    // SAFETY: the descriptor is open; the call takes numbers.
    assert_eq!(
        unsafe { libc::shutdown(std::os::fd::AsRawFd::as_raw_fd(&closed), libc::SHUT_WR) },
        0
    );
    for count in [1, 2, COUNT] {
        let msgs: Vec<_> = data[..count].iter().map(|data| SendMsg::new(data)).collect();
        assert_eq!(code(closed.send_batch(&msgs)), libc::EPIPE);
        let mut failed = 0;
        let handled = closed.send_each(&msgs, |i, error| {
            assert_eq!((i, error.raw_os_error()), (failed, Some(libc::EPIPE)));
            failed += 1;
        });
        assert_eq!((handled.expect("each is reported"), failed), (count, count));
    }
}

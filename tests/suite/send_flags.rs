//! Flags of a send.

#[cfg(unix)]
use std::io;

use mmsg::{MmsgBuf, SendFlags, SendMsg};

use crate::BACKEND;
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, udp4};

fn arena() -> MmsgBuf {
    BACKEND.map_or_else(MmsgBuf::new, MmsgBuf::with_backend)
}

#[cfg(unix)]
#[test]
fn a_send_that_does_not_wait_fills_a_blocking_socket_and_returns() {
    let (a, b) = unix_pair();
    let msgs = [SendMsg::new(b"datagram"); 64];
    let (mut arena, mut sent) = (arena(), 0);
    // Nobody receives, so a send that waits would wait for ever.
    let error = loop {
        match arena.send_with(&a, &msgs, SendFlags::DONT_WAIT) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
    };
    assert!(error.kind() == io::ErrorKind::WouldBlock && sent > 0, "{error}");
    for _ in 0..sent {
        assert_eq!(b.recv(&mut [0; 16]).expect("as many as were sent"), 8);
    }
}

#[test]
fn flags_change_nothing_for_a_peer_on_the_same_machine() {
    let (from, to) = (udp4(), udp4());
    let dest = addr(&to);
    let flags = SendFlags::DONT_ROUTE | SendFlags::CONFIRM;
    for data in [&b"one"[..], b"two"] {
        let msgs = [SendMsg::to(dest, data); 3];
        assert_eq!(arena().send_with(&from, &msgs, flags).expect("they are sent"), 3);
        for _ in 0..3 {
            let mut buffer = [0; 16];
            let len = to.recv(&mut buffer).expect("three were sent");
            assert_eq!(&buffer[..len], data);
        }
    }
}

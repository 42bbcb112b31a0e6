//! Flags of a send.

use std::io;

use mmsg::{MmsgBuf, SendFlags, SendMsg};

use crate::BACKEND;
use crate::common::sockets::unix_pair;

fn arena() -> MmsgBuf {
    BACKEND.map_or_else(MmsgBuf::new, MmsgBuf::with_backend)
}

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

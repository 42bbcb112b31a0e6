//! Flags of a send.

use std::io;

use mmsg::{BatchSocket, MmsgBuf, Offload, RecvMsg, SendFlags, SendMsg};

use crate::BACKEND;
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, udp4};

#[cfg(unix)]
#[test]
fn a_send_that_does_not_wait_fills_a_blocking_socket_and_returns() {
    let (a, b) = unix_pair();
    let msgs = [SendMsg::new(b"datagram"); 64];
    let mut sent = 0;
    // Without a receiver a send that waits would wait for ever.
    let error = loop {
        match a.send_batch_with(&msgs, SendFlags::DONT_WAIT) {
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
    let offload = Offload::new(from.try_clone().expect("a second descriptor")).expect("a socket");
    let flags = SendFlags::DONT_ROUTE | SendFlags::CONFIRM;
    for data in [&b"one"[..], b"two"] {
        let msgs = [SendMsg::to(dest, data); 3];
        assert_eq!(from.send_batch_with(&msgs, flags).expect("they are sent"), 3);
        assert_eq!(offload.send_batch_with(&msgs, flags).expect("they are sent"), 3);
        let mut arena = BACKEND.map_or_else(MmsgBuf::new, MmsgBuf::with_backend);
        assert_eq!(arena.send_with(&from, &msgs, flags).expect("they are sent"), 3);
        for _ in 0..9 {
            let mut buffer = [0; 16];
            let len = to.recv(&mut buffer).expect("nine were sent");
            assert_eq!(&buffer[..len], data);
        }
    }
}

struct Double;

impl BatchSocket for Double {
    fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        Ok(0)
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        Ok(msgs.len())
    }
}

#[test]
fn another_implementation_takes_no_flags_unless_it_says_so() {
    let msgs = [SendMsg::new(b"x")];
    assert_eq!(Double.send_batch_with(&msgs, SendFlags::NONE).expect("as without flags"), 1);
    let error = Double.send_batch_with(&msgs, SendFlags::DONT_WAIT).expect_err("it has none");
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

//! Flags of one call.

use std::io;
#[cfg(unix)]
use std::thread;

use mmsg::{AsSocket, Flags, MmsgBuf, Offload, RecvMsg, SendMsg};

use crate::common::recv::{data_of, in_one_receive, memory, recv_msgs};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, borrow, settle, udp4};
use crate::common::would_block;

/// Receives into two messages of 16 bytes.
fn receive(socket: &impl AsSocket, flags: Flags) -> io::Result<Vec<Vec<u8>>> {
    let mut memory = memory(2, 16);
    let mut msgs = recv_msgs(&mut memory);
    let count = MmsgBuf::new().recv(borrow(socket), &mut msgs, flags)?;
    Ok(data_of(&msgs[..count]))
}

#[test]
fn a_receive_that_does_not_wait_returns_from_a_blocking_socket() {
    let socket = udp4();
    socket.set_read_timeout(None).expect("no timeout");
    let offload = Offload::builder().gro(false).build(&socket).expect("a UDP socket");
    for _ in 0..2 {
        assert!(would_block(receive(&socket, Flags::DONT_WAIT)));
        assert!(would_block(receive(&offload, Flags::DONT_WAIT)));
        assert!(would_block(receive(&socket, Flags::DONT_WAIT | Flags::PEEK)));
        for data in [b"one", b"two"] {
            socket.send_to(data, addr(&socket)).expect("loopback takes it");
        }
        settle();
        for sent in [b"one", b"two"].chunks(in_one_receive(2)) {
            assert_eq!(receive(&socket, Flags::DONT_WAIT).expect("they are there"), sent);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_socket_still_waits_after_a_call_that_did_not() {
    let (a, b) = unix_pair();
    assert!(would_block(receive(&b, Flags::DONT_WAIT)));
    let received = thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&b, Flags::NONE));
        a.send(b"waited for").expect("it is taken");
        receiver.join().expect("no panic")
    });
    assert_eq!(received.expect("it waits"), [b"waited for"]);
}

#[cfg(unix)]
#[test]
fn a_send_that_does_not_wait_fills_a_blocking_socket_and_returns() {
    let (a, b) = unix_pair();
    let msgs = [SendMsg::new(b"datagram"); 64];
    let (mut arena, mut sent) = (MmsgBuf::new(), 0);
    // Nobody receives, so a send that waits would wait for ever.
    let error = loop {
        match arena.send(borrow(&a), &msgs, Flags::DONT_WAIT) {
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
fn a_peek_fills_one_message_and_leaves_the_datagram() {
    let socket = udp4();
    for data in [b"one", b"two"] {
        socket.send_to(data, addr(&socket)).expect("loopback takes it");
    }
    settle();
    for flags in [Flags::PEEK, Flags::PEEK | Flags::DONT_WAIT] {
        assert_eq!(receive(&socket, flags).expect("one can be seen"), [b"one"]);
    }
    let mut msgs = [RecvMsg::new(&mut [])];
    let seen = MmsgBuf::new().recv(borrow(&socket), &mut msgs, Flags::PEEK);
    assert_eq!((seen.expect("one can be seen"), msgs[0].message().truncated()), (1, true));
    for sent in [b"one", b"two"].chunks(in_one_receive(2)) {
        assert_eq!(receive(&socket, Flags::NONE).expect("they are there"), sent);
    }
}

#[test]
fn a_send_cannot_peek() {
    let socket = udp4();
    let msgs = [SendMsg::to(addr(&socket), b"datagram")];
    let error =
        MmsgBuf::new().send(borrow(&socket), &msgs, Flags::PEEK).expect_err("it is no receive");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(would_block(receive(&socket, Flags::DONT_WAIT)));
}

//! Empty datagrams, and the end of a socket, which looks like one.

use std::net::UdpSocket;

use mmsg::{BatchSocket, RecvBatch, SendMsg};
use socket2::SockRef;

use crate::common::recv::{data_of, memory, recv_msgs};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, connected, settle, udp4};
use crate::common::threads::Call;
use crate::common::would_block;

/// Ends reception. On an unconnected UDP socket, Linux does so and still returns "not connected".
fn shut_down(socket: &UdpSocket) {
    let _ = SockRef::from(socket).shutdown(std::net::Shutdown::Read);
}

#[cfg(unix)]
#[test]
fn empty_unix_datagrams_are_messages_without_an_address() {
    let (a, b) = unix_pair();
    let sent = [&b""[..], b"", b"x", b""];
    for _ in 0..2 {
        assert_eq!(a.send_batch(&sent.map(SendMsg::new)).expect("the queue has space"), 4);
    }
    let mut memory = memory(4, 16);
    let mut msgs = recv_msgs(&mut memory);
    assert_eq!(b.recv_batch(&mut msgs).expect("four are there"), 4);
    assert_eq!(data_of(&msgs), sent);
    let mut batch = RecvBatch::new(4, 16);
    assert_eq!(b.recv_into(&mut batch).expect("four are there"), 4);
    assert!(batch.iter().map(|d| d.data()).eq(sent) && batch.iter().all(|d| d.addr().is_none()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_socket_that_is_shut_down_gives_no_messages() {
    for (socket, _peer) in [(udp4(), None), {
        let (a, b) = connected();
        (a, Some(b))
    }] {
        shut_down(&socket);
        let mut memory = memory(40, 16);
        for count in [1, 2, 40] {
            let mut msgs = recv_msgs(&mut memory[..count]);
            assert_eq!(socket.recv_batch(&mut msgs).expect("the end is no error"), 0);
            assert!(
                msgs.iter().all(|msg| msg.message().addr().is_none() && msg.message().is_empty())
            );
        }
        let mut batch = RecvBatch::new(40, 16);
        assert_eq!(socket.recv_into(&mut batch).expect("the end is no error"), 0);
        assert_eq!((batch.message_count(), batch.iter().count()), (0, 0));
        assert!(would_block(socket.recv_more(&mut batch)));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn datagrams_that_arrived_before_a_shutdown_are_received() {
    let (from, to) = (udp4(), udp4());
    for data in [&b"a"[..], b"", b"c"] {
        from.send_to(data, addr(&to)).expect("it is taken");
    }
    settle();
    shut_down(&to);
    let mut memory = memory(40, 16);
    let mut msgs = recv_msgs(&mut memory);
    assert_eq!(to.recv_batch(&mut msgs).expect("three were waiting"), 3);
    assert_eq!(data_of(&msgs[..3]), [&b"a"[..], b"", b"c"]);
    assert_eq!(to.recv_batch(&mut msgs).expect("the end is no error"), 0);

    // Linux queues datagrams even for a socket that is shut down.
    from.send_to(b"late", addr(&to)).expect("it is taken");
    settle();
    let mut batch = RecvBatch::new(40, 16);
    assert_eq!(to.recv_into(&mut batch).expect("one is waiting"), 1);
    assert_eq!(batch.iter().next().expect("one was counted").data(), b"late");
    assert_eq!(to.recv_into(&mut batch).expect("the end is no error"), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_blocked_receiver_returns_when_the_socket_is_shut_down() {
    for into_batch in [false, true] {
        let socket = udp4();
        let own = socket.try_clone().expect("a second descriptor");
        let receiver = Call::blocked(move || {
            if into_batch {
                own.recv_into(&mut RecvBatch::new(8, 16))
            } else {
                own.recv_batch(&mut recv_msgs(&mut memory(8, 16)))
            }
        });
        shut_down(&socket);
        assert_eq!(receiver.result().expect("the end is no error"), 0);
    }
}

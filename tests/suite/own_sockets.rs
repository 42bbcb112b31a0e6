//! Everything that lends a descriptor is a batch socket, and `&dyn` does as well.

#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use mmsg::{BatchSocket, BatchSocketExt, MmsgBuf, RecvBatch, RecvFlags, SendMsg, SendQueue};

use crate::common::NET;
use crate::common::recv::{data_of, memory, recv_msgs};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, connected, settle, udp4};

/// Two connected blocking sockets, seen through the trait alone: every method does what it does.
fn every_method(a: &dyn BatchSocket, b: &dyn BatchSocket) {
    let msgs = [b"one", b"two"].map(|data| SendMsg::new(data));
    let mut queue = SendQueue::new(1_000);
    for msg in &msgs {
        queue.push(msg).expect("there is space");
    }
    let no_error = &mut |index, error| panic!("message {index}: {error}");
    assert_eq!(a.send_batch(&msgs).expect("it is taken"), 2);
    assert_eq!(a.send_iter(msgs.into_iter()).expect("it is taken"), 2);
    assert_eq!(a.send_each(msgs, no_error).expect("it is taken"), 2);
    assert_eq!(a.flush(&mut queue).expect("it is taken"), 2);
    settle();

    let mut memory = memory(2, 16);
    let mut msgs = recv_msgs(&mut memory);
    assert_eq!(b.recv_batch_with(&mut msgs, RecvFlags::PEEK).expect("one can be seen"), 1);
    for flags in [RecvFlags::NONE, RecvFlags::DONT_WAIT] {
        assert_eq!(b.recv_batch_with(&mut msgs, flags).expect("more are there"), 2);
        assert_eq!(data_of(&msgs), [b"one", b"two"]);
    }
    let mut batch = RecvBatch::new(2, 16);
    assert_eq!(b.recv_into_with(&mut batch, RecvFlags::PEEK).expect("one can be seen"), 1);
    for _ in 0..2 {
        assert_eq!(b.recv_into(&mut batch).expect("more are there"), 2);
        assert!(batch.iter().map(|datagram| datagram.data()).eq([b"one", b"two"]));
    }
}

#[cfg(unix)]
#[test]
fn std_socket2_and_borrowed_ones() {
    let (a, b) = connected();
    every_method(&a, &b);
    every_method(&a.as_fd(), &b.as_fd());
    let (a, b) = (socket2::Socket::from(a), socket2::Socket::from(b));
    every_method(&a, &b);
    let (a, b) = (OwnedFd::from(a), OwnedFd::from(b));
    every_method(&a, &b);
    let (a, b) = unix_pair();
    every_method(&a, &b);
}

#[test]
fn references_and_shared_ownership() {
    let (a, b) = connected();
    let (a, b) = (Arc::new(a), Rc::new(b));
    every_method(&a, &b);
    every_method(&a.clone(), &b.clone());
    let sockets: Vec<Box<dyn BatchSocket>> = vec![Box::new(a), Box::new(b)];
    every_method(&*sockets[0], &*sockets[1]);
}

#[cfg(unix)]
#[test]
fn a_generic_function_takes_a_reference_to_any() {
    fn echo(socket: &(impl BatchSocket + ?Sized), batch: &mut RecvBatch) -> std::io::Result<usize> {
        socket.recv_into(batch)?;
        let mut replies = batch.iter().filter_map(|d| Some(SendMsg::to(d.addr()?, d.data())));
        socket.send_iter(&mut replies)
    }
    let (client, server) = (udp4(), udp4());
    let mut batch = RecvBatch::new(8, 64);
    for through in [&server as &dyn BatchSocket, &server.as_fd(), &&server] {
        client.send_to(b"hello", addr(&server)).expect("it is taken");
        assert_eq!(echo(through, &mut batch).expect("one is there"), 1);
    }
    assert_eq!(echo(&client, &mut batch).expect("the answers are there"), batch.len());
}

#[test]
fn mio_sockets() {
    if crate::common::is_wine() {
        return crate::common::skip("mio_sockets", "mio's selector reports no event under Wine");
    }
    let (a, b) = connected();
    for socket in [&a, &b] {
        socket.set_nonblocking(true).expect("it can");
    }
    let (a, mut b) = (mio::net::UdpSocket::from_std(a), mio::net::UdpSocket::from_std(b));
    let mut poll = mio::Poll::new().expect("a selector");
    let mut events = mio::Events::with_capacity(8);
    poll.registry()
        .register(&mut b, mio::Token(7), mio::Interest::READABLE)
        .expect("a socket can be watched");
    let mut batch = RecvBatch::new(64, 64);
    for round in 0u8..3 {
        let data: Vec<_> = (0u8..20).map(|i| [round, i]).collect();
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();
        assert_eq!(a.send_batch(&msgs).expect("they are taken"), 20);
        let mut got = Vec::new();
        while got.len() < 20 {
            poll.poll(&mut events, Some(NET)).expect("it can wait");
            assert!(!events.is_empty(), "no event with {} of 20 received", got.len());
            // Edge by edge: until nothing is there.
            while b.recv_into(&mut batch).is_ok() {
                got.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
            }
        }
        assert_eq!(got, data);
    }
}

#[test]
fn tokio_sockets() {
    let (a, b) = connected();
    for socket in [&a, &b] {
        socket.set_nonblocking(true).expect("it can");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let a = tokio::net::UdpSocket::from_std(a).expect("in a runtime");
        let b = tokio::net::UdpSocket::from_std(b).expect("in a runtime");
        let (mut batch, mut queue) = (RecvBatch::new(64, 64), SendQueue::new(10_000));
        let data: Vec<_> = (0u8..100).map(|i| [i, 7]).collect();
        for data in &data {
            queue.push(&SendMsg::new(data)).expect("there is space");
        }
        let mut got = Vec::new();
        while got.len() < data.len() {
            if !queue.is_empty() {
                a.writable().await.expect("it can wait");
                let _ = a.try_io(tokio::io::Interest::WRITABLE, || a.flush(&mut queue));
            }
            let readable = tokio::time::timeout(NET, b.readable()).await;
            readable.expect("something comes").expect("it can wait");
            let receive = || b.recv_into(&mut batch);
            if b.try_io(tokio::io::Interest::READABLE, receive).is_ok() {
                got.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
            }
        }
        assert_eq!(got, data);
    });
}

#[cfg(unix)]
#[test]
fn an_arena_takes_the_same_sockets() {
    let (a, b) = connected();
    let mut arena = MmsgBuf::new();
    let mut memory = memory(4, 16);
    let mut msgs = recv_msgs(&mut memory);
    let (shared, borrowed) = (Arc::new(a), b.as_fd());
    assert_eq!(arena.send(&shared, &[SendMsg::new(b"one"); 3]).expect("they are taken"), 3);
    settle();
    assert_eq!(arena.recv(&borrowed, &mut msgs[..1]).expect("three are there"), 1);
    let flags = RecvFlags::DONT_WAIT;
    assert_eq!(arena.recv_with(&&b, &mut msgs, flags).expect("two are left"), 2);
    assert_eq!(msgs[0].addr(), Some(addr(&shared)));
    assert_eq!(data_of(&msgs[..2]), [b"one"; 2]);
}

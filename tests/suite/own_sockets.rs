//! Which sockets have the batch calls: plain, behind pointers and behind `dyn`.

// The tests need references to sockets.
#![allow(clippy::needless_borrows_for_generic_args)]

use std::rc::Rc;
use std::sync::Arc;

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg, SendQueue};

use crate::common::no_failure;
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{OwnedHandle, borrow, connected};

/// Generic code and `dyn` accept the type: the call compiles, sends and receives.
// The test needs the borrows.
#[allow(clippy::needless_borrows_for_generic_args)]
#[test]
fn generic_functions_take_every_socket_and_pointer() {
    fn by_value<S: BatchSocket>(socket: S) -> usize {
        socket.send_batch(&[SendMsg::new(b"one"), SendMsg::new(b"two")]).expect("it is taken")
    }
    fn by_dyn(socket: &dyn BatchSocket) -> usize {
        socket.send_each([SendMsg::new(b"one")], no_failure).expect("it is taken")
    }
    fn every_way<S: BatchSocket>(socket: S) {
        assert_eq!(by_dyn(&socket) + by_dyn(&&socket) + by_value(&socket), 4);
        assert_eq!(by_value(&socket as &dyn BatchSocket), 2);
        assert_eq!(by_value(&&socket), 2);
        assert_eq!(by_value(socket), 2);
    }
    let (a, b) = connected();
    let copy = || a.try_clone().expect("there are descriptors");
    every_way(copy());
    every_way(&a);
    every_way(borrow(&a));
    every_way(OwnedHandle::from(copy()));
    every_way(&mut copy());
    every_way(Box::new(copy()));
    every_way(Box::new(copy()) as Box<dyn BatchSocket>);
    every_way(Rc::new(copy()) as Rc<dyn BatchSocket>);
    every_way(Arc::new(copy()) as Arc<dyn BatchSocket + Send + Sync>);
    let offload = || Offload::new(copy()).expect("a UDP socket");
    every_way(offload());
    every_way(&offload());
    every_way(&mut offload());
    every_way(Arc::new(offload()));
    every_way(Box::new(offload()) as Box<dyn BatchSocket>);
    every_way(Offload::new(borrow(&a)).expect("a UDP socket"));
    every_way(Offload::new(Arc::new(copy())).expect("a UDP socket"));
    every_way(borrow(&offload()));
    #[cfg(feature = "mio")]
    every_way(mio::net::UdpSocket::from_std(copy()));
    #[cfg(unix)]
    {
        let (unix, _other) = unix_pair();
        every_way(unix.try_clone().expect("there are descriptors"));
        #[cfg(feature = "mio")]
        every_way(mio::net::UnixDatagram::from_std(unix));
    }
    drop(b);
}

#[test]
fn pointers_forward_every_method() {
    struct Own;
    impl BatchSocket for Own {
        fn recv_batch(&self, _: &mut [mmsg::RecvMsg<'_>]) -> std::io::Result<usize> {
            Ok(101)
        }
        fn send_batch(&self, _: &[SendMsg<'_>]) -> std::io::Result<usize> {
            Ok(102)
        }
        fn recv_into(&self, _: &mut RecvBatch) -> std::io::Result<usize> {
            Ok(103)
        }
        fn recv_more(&self, _: &mut RecvBatch) -> std::io::Result<usize> {
            Ok(104)
        }
        fn recv_slices(
            &self,
            _: &mut [std::io::IoSliceMut<'_>],
            _: &mut dyn FnMut(usize, mmsg::Message<'_>),
        ) -> std::io::Result<usize> {
            Ok(105)
        }
        fn flush(&self, _: &mut SendQueue) -> std::io::Result<usize> {
            Ok(106)
        }
    }
    fn check<S: BatchSocket>(socket: S) {
        let (mut batch, mut queue) = (RecvBatch::new(1, 8), SendQueue::new(100));
        let results = [
            socket.recv_batch(&mut []),
            socket.send_batch(&[]),
            socket.recv_into(&mut batch),
            socket.recv_more(&mut batch),
            socket.recv_slices(&mut [], &mut |_, _| {}),
            socket.flush(&mut queue),
        ];
        assert!(results.map(|result| result.expect("it always works")).into_iter().eq(101..=106));
    }
    check(Own);
    check(&Own as &dyn BatchSocket);
    check(&&Own);
    check(&mut Own);
    check(Box::new(Own));
    check(Rc::new(Own) as Rc<dyn BatchSocket>);
    check(Arc::new(Own));
}

#[cfg(feature = "mio")]
#[test]
fn mio_sockets() {
    if crate::common::is_wine() {
        return crate::common::skip("mio's selector reports no event under Wine");
    }
    mio_socket(|socket| socket, RecvBatch::new(64, 64));
    let offload = |socket| Offload::new(socket).expect("it can be wrapped");
    mio_socket(offload, RecvBatch::for_gro(4));
}

/// Registers the socket that `wrap` makes of mio's, and receives another socket's datagrams.
#[cfg(feature = "mio")]
fn mio_socket<S: BatchSocket + mio::event::Source>(
    wrap: impl Fn(mio::net::UdpSocket) -> S,
    mut batch: RecvBatch,
) {
    let (a, b) = connected();
    for socket in [&a, &b] {
        socket.set_nonblocking(true).expect("an open socket");
    }
    let [a, mut b] = [a, b].map(|socket| wrap(mio::net::UdpSocket::from_std(socket)));
    let mut poll = mio::Poll::new().expect("a selector");
    let mut events = mio::Events::with_capacity(8);
    let (registry, token) = (poll.registry(), mio::Token(7));
    registry.register(&mut b, token, mio::Interest::WRITABLE).expect("a socket can be watched");
    registry.reregister(&mut b, token, mio::Interest::READABLE).expect("for something else, too");
    for round in 0u8..3 {
        let data: Vec<_> = (0u8..20).map(|i| [round, i]).collect();
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();
        assert_eq!(a.send_batch(&msgs).expect("they are taken"), 20);
        let mut got = Vec::new();
        while got.len() < 20 {
            poll.poll(&mut events, Some(crate::common::TIME_LIMIT)).expect("it can wait");
            assert!(!events.is_empty(), "no event with {} of 20 received", got.len());
            let mut spare: Vec<u8> = Vec::with_capacity(65_535);
            let mut one = [mmsg::RecvMsg::uninit(spare.spare_capacity_mut())];
            if b.recv_batch(&mut one).is_ok() {
                let datagrams = one[0].message().datagrams();
                got.extend(datagrams.map(|datagram| datagram.data().to_vec()));
            }
            // Edge-triggered: receives until the socket is empty.
            while b.recv_into(&mut batch).is_ok() {
                got.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
            }
        }
        assert_eq!(got, data);
    }
    poll.registry().deregister(&mut b).expect("it was watched");
}

/// A flush goes on until the socket is full, so an edge-triggered selector reports when it has space again.
// Elsewhere the socket stays writable, so no event follows.
#[cfg(all(feature = "mio", target_os = "linux"))]
#[test]
fn a_flush_that_leaves_a_rest_is_followed_by_an_event() {
    let (near, far) = unix_pair();
    [&near, &far].iter().for_each(|socket| socket.set_nonblocking(true).expect("an open socket"));
    let mut near = mio::net::UnixDatagram::from_std(near);
    let (mut poll, mut events) =
        (mio::Poll::new().expect("a selector"), mio::Events::with_capacity(8));
    poll.registry()
        .register(&mut near, mio::Token(7), mio::Interest::WRITABLE)
        .expect("a socket can be watched");
    let (mut queue, mut batch, mut came) = (SendQueue::new(1 << 20), RecvBatch::new(64, 8), 0u32);
    (0..3_000u32).for_each(|i| queue.push(&SendMsg::new(&i.to_be_bytes())).expect("it fits"));
    while !queue.is_empty() {
        poll.poll(&mut events, Some(crate::common::TIME_LIMIT)).expect("it can wait");
        assert!(!events.is_empty(), "no event with {} left", queue.len());
        let _ = near.flush_each(&mut queue, |_, error| panic!("{error}"));
        while far.recv_into(&mut batch).is_ok() {
            for datagram in &batch {
                assert_eq!(datagram.data(), came.to_be_bytes());
                came += 1;
            }
        }
    }
    assert_eq!(came, 3_000);
}

/// Batches may hold nothing, where no receive or send is meant.
#[test]
fn a_batch_without_slots_receives_nothing_and_one_without_messages_sends_nothing() {
    let (a, b) = connected();
    let offload = Offload::new(b.try_clone().expect("a descriptor")).expect("a UDP socket");
    a.send(b"stays").expect("it is taken");
    let sockets: [&dyn BatchSocket; 2] = [&b, &offload];
    for socket in sockets {
        let mut batch = RecvBatch::default();
        assert_eq!(socket.recv_into(&mut batch).expect("nothing is asked for"), 0);
        assert_eq!(socket.recv_more(&mut batch).expect("nothing is asked for"), 0);
        assert!(!batch.push(None, b"no slot", mmsg::RecvMeta::default()) && !batch.drained());
        assert_eq!((batch.slots(), batch.iter().count()), (0, 0));
        assert_eq!(socket.recv_batch(&mut []).expect("nothing is asked for"), 0);
        assert_eq!(socket.send_batch(&[]).expect("nothing is asked for"), 0);
    }
    assert_eq!(b.recv(&mut [0; 8]).expect("it is there"), 5);
}

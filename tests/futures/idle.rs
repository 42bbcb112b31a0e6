//! A receive that waited for a few datagrams has heard that the socket is empty: then tokio no longer takes it for readable,
//! and the next receive makes no call to learn the same.

use std::future::poll_fn;
use std::pin::pin;

use mmsg::{Ancillary, AsyncBatchSocket, Offload, RecvBatch};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{once, run, through, udp};
use crate::common::sockets::{addr, refusing, settle, udp4};

/// Whether tokio takes the socket for readable.
async fn is_readable(socket: &UdpSocket) -> bool {
    once(pin!(socket.ready(Interest::READABLE))).await.is_some()
}

/// Receives `count` datagrams after the call has begun to wait.
async fn after_a_wait(
    socket: &impl AsyncBatchSocket<Socket = UdpSocket>,
    batch: &mut RecvBatch,
    count: usize,
) -> bool {
    let (from, to) = (udp4(), socket.tokio_socket().local_addr().expect("it is bound"));
    // A receive that finds nothing leaves the socket not readable.
    assert!(once(pin!(socket.recv_into(batch))).await.is_none());
    let send = async {
        (0..count).for_each(|_| assert_eq!(from.send_to(b"hello", to).expect("it is taken"), 5));
        settle();
    };
    let (received, ()) = tokio::join!(socket.recv_into(batch), send);
    assert!(received.expect("it is there") > 0);
    is_readable(socket.tokio_socket()).await
}

#[test]
fn a_few_datagrams_of_an_idle_socket_leave_it_not_readable() {
    run(async {
        let mut batch = RecvBatch::for_gro(8);
        let (plain, offload) = (udp().0, Offload::new(udp().0).expect("a UDP socket"));
        for _ in 0..3 {
            assert!(!after_a_wait(&plain, &mut batch, 1).await);
            assert!(!after_a_wait(&offload, &mut batch, 1).await);
            assert!(!after_a_wait(&&plain, &mut batch, 4).await);
        }
        // More than a few, one slot, or an implementation of another type: the next call asks the kernel.
        assert!(after_a_wait(&plain, &mut batch, 5).await);
        assert!(after_a_wait(&udp().0, &mut RecvBatch::new(1, 32), 1).await);
        let forwards = through(udp().0, |socket, call| socket.batch_call(call));
        assert!(after_a_wait(&forwards, &mut batch, 1).await);
    });
}

#[test]
fn a_polled_receive_of_a_few_datagrams_leaves_the_socket_not_readable() {
    run(async {
        let ((to, addr), from) = (udp(), udp4());
        for (count, left) in [(1, false), (4, false), (5, true)] {
            let mut batch = RecvBatch::new(8, 32);
            assert!(once(pin!(poll_fn(|cx| to.poll_recv_into(cx, &mut batch)))).await.is_none());
            (0..count).for_each(|_| assert_eq!(from.send_to(b"hello", addr).expect("taken"), 5));
            settle();
            let received = poll_fn(|cx| to.poll_recv_into(cx, &mut batch)).await;
            assert_eq!((received.expect("they are there"), is_readable(&to).await), (count, left));
        }
    });
}

/// An error may have ended the call, with messages left.
#[test]
fn a_socket_with_a_report_stays_readable() {
    run(async {
        let (to, nobody) = (udp().0, refusing());
        Ancillary::ERRORS.require(&to).expect("a UDP socket");
        to.send_to(b"lost", addr(&nobody)).await.expect("loopback takes it");
        to.ready(Interest::ERROR).await.expect("it is reported");
        assert!(after_a_wait(&to, &mut RecvBatch::new(4, 32), 1).await);
    });
}

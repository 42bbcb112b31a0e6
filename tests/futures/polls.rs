//! The `poll_` functions.

use std::future::poll_fn;
use std::io::IoSliceMut;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mmsg::{AsyncBatchSocket, Offload, RecvBatch, RecvMeta, SendMsg, SendQueue, SendWaiter};
use socket2::SockRef;

use super::{once, run, udp};
use crate::common::sockets::{udp4, wait_for_error};
use crate::common::{TIME_LIMIT, is_wine};

#[test]
fn a_polled_receive_waits_and_then_takes_what_is_there() {
    run(async {
        let ((plain, _), (offload, _), from) = (udp(), udp(), udp4());
        let offload = Offload::new(offload).expect("a UDP socket");
        let (mut batch, mut memory) = (RecvBatch::for_gro(4), vec![0; 65_535]);
        for round in 0..4 {
            for use_offload in [false, true] {
                let near = if use_offload { offload.get_ref() } else { &plain };
                let to = near.local_addr().expect("it is bound");
                let send = async {
                    tokio::task::yield_now().await;
                    from.send_to(b"hello", to).expect("loopback takes it")
                };
                let mut len = 0;
                let received = if round % 2 == 0 {
                    let receive = poll_fn(|cx| match use_offload {
                        false => plain.poll_recv_into(cx, &mut batch),
                        true => offload.poll_recv_into(cx, &mut batch),
                    });
                    let (received, _) = tokio::join!(receive, send);
                    len = batch.message(0).expect("one came").len();
                    received
                } else {
                    let mut buffers = [IoSliceMut::new(&mut memory)];
                    let receive = poll_fn(|cx| match use_offload {
                        false => plain.poll_recv_slices(cx, &mut buffers, |_, m| len = m.len()),
                        true => offload.poll_recv_slices(cx, &mut buffers, |_, m| len = m.len()),
                    });
                    tokio::join!(receive, send).0
                };
                assert_eq!((received.expect("it is there"), len), (1, 5));
            }
        }
        assert_eq!(offload.state().counters().received, 4);
    });
}

#[test]
fn a_polled_receive_ends_with_the_socket() {
    if is_wine() {
        return crate::common::skip("Wine reports no event for it");
    }
    run(async {
        let (to, addr) = udp();
        to.connect(addr).await.expect("connecting only stores the peer");
        let mut batch = RecvBatch::new(4, 32);
        // While it waits, the batch holds no earlier messages.
        let refill =
            |batch: &mut RecvBatch| assert!(batch.push(None, b"early", RecvMeta::default()));
        refill(&mut batch);
        assert!(once(pin!(to.recv_into(&mut batch))).await.is_none() && batch.is_empty());
        refill(&mut batch);
        let poll = pin!(poll_fn(|cx| to.poll_recv_into(cx, &mut batch)));
        assert!(once(poll).await.is_none() && batch.is_empty());
        let mut receive = pin!(poll_fn(|cx| to.poll_recv_into(cx, &mut batch)));
        assert!(once(receive.as_mut()).await.is_none());
        SockRef::from(&to).shutdown(std::net::Shutdown::Read).expect("it is connected");
        let ended = tokio::time::timeout(TIME_LIMIT, receive).await.expect("it is woken");
        assert_eq!(ended.expect("no error"), 0);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_of_the_socket_comes_with_the_next_datagram_of_a_polled_receive() {
    run(async {
        let ((near, addr), far) = (udp(), udp4());
        let peer = far.local_addr().expect("it is bound");
        near.connect(peer).await.expect("connecting only stores the peer");
        near.writable().await.expect("tokio learns that it is");
        let mut batch = RecvBatch::new(4, 32);
        let mut receive = pin!(poll_fn(|cx| near.poll_recv_into(cx, &mut batch)));
        assert!(once(receive.as_mut()).await.is_none());
        // Connected to itself it rejects datagrams. (Another test could get the port of a closed socket.)
        far.connect(peer).expect("connecting only stores the peer");
        near.try_send(b"lost").expect("loopback takes it");
        wait_for_error(&near);
        let waiting =
            tokio::time::timeout(std::time::Duration::from_millis(20), receive.as_mut()).await;
        assert!(waiting.is_err(), "no datagram has come");
        far.connect(addr).expect("connecting only stores the peer");
        far.send(b"hello").expect("loopback takes it");
        let error = receive.as_mut().await.expect_err("of the lost one");
        assert!(crate::common::is_refused(&error), "{error}");
        assert_eq!(receive.await.expect("it is there"), 1);
    });
}

/// Each sender has a waiter, and each is woken, also beside calls of tokio that find the socket full.
#[cfg(unix)]
#[test]
fn every_polled_sender_is_woken() {
    use super::full::receive;
    const SENDERS: usize = 3;
    const EACH: usize = 1_000;
    // Elsewhere tokio's calls fail on a full Unix socket.
    const PLAIN: usize = if cfg!(target_os = "linux") { EACH } else { 0 };
    run(async {
        let (near, far) = super::narrow();
        let near = Arc::new(near);
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let near = Arc::clone(&near);
                tokio::spawn(async move {
                    let (mut waiter, msgs) = (SendWaiter::new(), [SendMsg::new(b"polled"); 7]);
                    let (mut sent, mut pending) = (0, 0);
                    while sent < EACH {
                        let msgs = &msgs[..7.min(EACH - sent)];
                        let send = |cx: &mut std::task::Context<'_>| {
                            let polled = near.poll_send_batch(cx, &mut waiter, msgs);
                            pending += usize::from(polled.is_pending());
                            polled
                        };
                        sent += poll_fn(send).await.expect("there is space");
                    }
                    assert!(pending > 0, "it was never full");
                })
            })
            .collect();
        let plain = tokio::spawn(async move {
            for _ in 0..PLAIN {
                near.send(b"plain").await.expect("there is space");
            }
        });
        // By now all wait.
        tokio::task::yield_now().await;
        let all = SENDERS * EACH + PLAIN;
        assert_eq!(receive(&far, all).await.len(), all);
        for sender in senders.into_iter().chain([plain]) {
            sender.await.expect("it does not panic");
        }
    });
}

/// For traits that first ask whether a socket is writable. Elsewhere a full Unix socket stays so.
#[cfg(target_os = "linux")]
#[test]
fn a_polled_send_of_no_messages_waits_for_space() {
    run(async {
        let (near, far) = super::narrow();
        let near = Arc::new(near);
        near.writable().await.expect("tokio learns that it is");
        let mut waiter = SendWaiter::new();
        let mut ready =
            async || poll_fn(|cx| Poll::Ready(near.poll_send_batch(cx, &mut waiter, &[]))).await;
        assert!(matches!(ready().await, Poll::Ready(Ok(0))));
        while near.try_send(b"full").is_ok() {}
        assert!(ready().await.is_pending());
        let mut batch = RecvBatch::new(64, 8);
        while ready().await.is_pending() {
            far.recv_into(&mut batch).await.expect("it was sent");
            tokio::task::yield_now().await;
        }
    });
}

/// A runtime without time is found out by the first call that waits, not by the first ICMP error, also on a thread that
/// waited in a runtime with time before.
#[test]
fn a_runtime_without_time_is_found_out_by_the_first_wait() {
    let first_wait = async {
        let (socket, addr) = udp();
        let received = tokio::spawn(async move {
            let mut batch = RecvBatch::new(4, 32);
            socket.recv_into(&mut batch).await
        });
        let panic = received.await.expect_err("nothing was sent").into_panic();
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a text");
        assert!(text.contains("enable_time"), "{text}");
        // What does not wait works.
        let (socket, _) = udp();
        socket.writable().await.expect("tokio learns that it is");
        assert_eq!(socket.send_batch(&[SendMsg::to(addr, b"x")]).await.expect("it is taken"), 1);
    };
    let with_time = tokio::runtime::Builder::new_current_thread().enable_all().build();
    with_time.expect("a runtime").block_on(async {
        let (socket, addr) = udp();
        let mut batch = RecvBatch::new(4, 32);
        let send = async { socket.send_to(b"x", addr).await.expect("loopback takes a datagram") };
        let (received, _) = tokio::join!(socket.recv_into(&mut batch), send);
        assert_eq!(received.expect("it was sent"), 1);
    });
    let without = tokio::runtime::Builder::new_current_thread().enable_io().build();
    without.expect("a runtime").block_on(first_wait);
}

/// The first call that waits panics, as in a runtime without time.
#[test]
fn a_wait_outside_a_runtime_panics() {
    run(async {
        let (socket, _) = udp();
        let outside = || {
            let mut batch = RecvBatch::new(4, 32);
            let mut cx = Context::from_waker(Waker::noop());
            let _ = pin!(socket.recv_into(&mut batch)).poll(&mut cx);
        };
        assert!(std::thread::scope(|scope| scope.spawn(outside).join().is_err()));
    });
}

// Elsewhere a send on a writable socket does not ask the runtime.
#[cfg(any(target_os = "linux", windows))]
#[test]
fn a_runtime_that_shuts_down_ends_a_send_with_its_error() {
    let ended = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = ended.expect("a runtime");
    let (socket, addr) = ended.block_on(async { udp() });
    drop(ended);
    run(async {
        let (msgs, mut queue) = ([SendMsg::to(addr, b"x"); 3], SendQueue::new(1_000));
        let error = |error| panic!("it is about no message: {error}");
        let each = socket.send_each(msgs, |_, failed| error(failed)).await;
        each.expect_err("nothing tells when the socket is writable");
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
        let flushed = socket.flush_each(&mut queue, |_, failed| error(failed)).await;
        flushed.expect_err("nothing tells when the socket is writable");
        assert_eq!(queue.len(), 3);
    });
}

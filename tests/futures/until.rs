//! Receives until a batch is full or a deadline passes, and receives that are dropped.

use std::future::Future;
use std::net::Shutdown;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mmsg::{AsyncBatchSocket, Offload, RecvBatch};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{adopted, once, run, through, udp};
use crate::common::sockets::{self, settle, udp4};
use crate::common::{TIME_LIMIT, has_icmp_errors, is_refused, is_slow, numbered};

const SLOTS: usize = 10;
/// How late a call may be where the system runs the thread in time: tokio's timer rounds up.
const LATE: Duration = Duration::from_millis(if cfg!(windows) { 20 } else { 3 });

fn data(batch: &RecvBatch) -> Vec<Vec<u8>> {
    batch.iter().map(|datagram| datagram.data().to_vec()).collect()
}

async fn a_deadline_is_kept(socket: &impl AsyncBatchSocket<Socket = UdpSocket>, wait: Duration) {
    let (from, to) = (udp4(), socket.tokio_socket().local_addr().expect("it is bound"));
    let sent = numbered(SLOTS, 20);
    for waiting in [0, 1, SLOTS - 1, SLOTS] {
        let mut late = Duration::MAX;
        for _ in 0..1_000 {
            sent[..waiting].iter().for_each(|data| drop(from.send_to(data, to)));
            settle();
            let mut batch = RecvBatch::for_gro(SLOTS);
            let start = Instant::now();
            let added = socket.recv_more_until(&mut batch, start + wait).await.expect("no error");
            let took = start.elapsed();
            assert_eq!((added, data(&batch)), (waiting, sent[..waiting].to_vec()));
            assert!(waiting == SLOTS || took >= wait, "gave up after {took:?}");
            late = took.saturating_sub(wait);
            if late < LATE || is_slow() {
                break;
            }
        }
        assert!(late < LATE || is_slow(), "late by {late:?} with {waiting}");
    }
}

#[test]
fn a_deadline_is_kept_whatever_waits() {
    run(async {
        for wait in [0, 20].map(Duration::from_millis) {
            // The first call takes also what came before tokio looked at the socket.
            a_deadline_is_kept(&udp().0, wait).await;
            a_deadline_is_kept(&Offload::new(udp().0).expect("a UDP socket"), wait).await;
        }
    });
}

/// Nearly the largest instant, which tokio's timer cannot reach.
fn far_future() -> Instant {
    let (mut far, mut step) = (Instant::now(), Duration::from_secs(1 << 62));
    while step > Duration::from_secs(1) {
        far = far.checked_add(step).unwrap_or(far);
        step /= 2;
    }
    far
}

#[test]
fn what_came_before_a_future_was_dropped_is_in_the_batch() {
    run(async {
        let ((socket, to), from) = (udp(), udp4());
        let sent = numbered(SLOTS, 20);
        let mut batch = RecvBatch::new(SLOTS, 64);
        let deadline = Instant::now() + TIME_LIMIT;
        for (i, data) in sent.iter().enumerate() {
            // Dropped before its first poll, and while it waits.
            drop(socket.recv_more_until(&mut batch, deadline));
            assert!(once(pin!(socket.recv_more_until(&mut batch, far_future()))).await.is_none());
            assert!(once(pin!(socket.recv_more_until(&mut batch, deadline))).await.is_none());
            from.send_to(data, to).expect("loopback takes it");
            // Polled until this one is in the batch, and then dropped.
            while batch.message_count() <= i {
                socket.tokio_socket().readable().await.expect("it comes");
                let done = once(pin!(socket.recv_more_until(&mut batch, deadline))).await;
                assert_eq!(done.is_some(), batch.message_count() == SLOTS);
            }
        }
        assert_eq!(data(&batch), sent);
        let full = socket.recv_more_until(&mut batch, far_future()).await;
        assert_eq!((full.expect("no slot is free"), batch.message_count()), (0, SLOTS));
    });
}

#[test]
fn a_dropped_receive_has_taken_nothing() {
    const COUNT: usize = 2_000;
    run(async {
        let ((to, addr), from) = (udp(), udp4());
        let payloads = numbered(COUNT, 8);
        let mut batch = RecvBatch::new(4, 32);
        let mut next = 0;
        // Sends while the receiver rests, so that it is dropped at every stage: before its first poll, while waiting,
        // and after being woken.
        for (i, payload) in payloads.iter().enumerate() {
            let mut receive = Box::pin(to.recv_into(&mut batch));
            if i % 3 > 0 && next == i {
                assert!(once(receive.as_mut()).await.is_none(), "nothing was sent yet");
            }
            from.send_to(payload, addr).expect("loopback takes it");
            if i % 2 == 0 {
                tokio::task::yield_now().await;
            }
            drop(receive);
            if i % 4 == 3 {
                while next <= i {
                    to.recv_into(&mut batch).await.expect("none was lost");
                    for datagram in &batch {
                        assert_eq!(datagram.data(), payloads[next]);
                        next += 1;
                    }
                }
            }
        }
        assert_eq!(next, COUNT);
    });
}

#[test]
fn an_error_leaves_what_came_before_it() {
    if !has_icmp_errors() {
        return;
    }
    run(async {
        let (near, far) = sockets::connected();
        let near = adopted(near);
        let mut batch = RecvBatch::new(SLOTS, 64);
        far.send(b"before").expect("loopback takes it");
        settle();
        let past = Instant::now();
        assert_eq!(near.recv_more_until(&mut batch, past).await.expect("one is there"), 1);
        // Connected to itself it rejects datagrams. (Another test could get the port of a closed socket.)
        far.connect(sockets::addr(&far)).expect("connecting only stores the peer");
        // At the first deadline, tokio does not know of the error yet.
        for deadline in [past, past + TIME_LIMIT] {
            near.send(b"to nobody").await.expect("loopback takes it");
            sockets::wait_for_error(&near);
            let error = near.recv_more_until(&mut batch, deadline).await;
            let error = error.expect_err("nobody is there");
            assert!(is_refused(&error), "{error}");
        }
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(near.recv_more_until(&mut batch, soon).await.expect("nothing comes"), 0);
        assert_eq!(data(&batch), [b"before"]);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn what_came_before_a_shutdown_is_received() {
    // Its thread drives the sockets while another polls the futures.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    for until in [true, false] {
        let _guard = runtime.enter();
        let (socket, peer) = sockets::connected();
        let calls = AtomicUsize::new(0);
        // It gets its last datagram and is shut down right after its second receive, of which tokio learns at once.
        let socket = through(adopted(socket), |socket, call| {
            let result = socket.batch_call(call);
            if calls.fetch_add(1, Ordering::Relaxed) == 1 {
                peer.send(b"last").expect("loopback takes it");
                settle();
                SockRef::from(socket).shutdown(Shutdown::Read).expect("it is connected");
                let mut context = Context::from_waker(Waker::noop());
                let mut ready = || pin!(socket.ready(Interest::READABLE)).poll(&mut context);
                while !matches!(ready(), Poll::Ready(Ok(ready)) if ready.is_read_closed()) {
                    std::thread::yield_now();
                }
            }
            result
        });
        let mut batch = RecvBatch::new(SLOTS, 64);
        let far = Instant::now() + TIME_LIMIT / 2;
        peer.send(b"first").expect("loopback takes it");
        let received = runtime.block_on(async {
            // tokio takes the socket for readable until a receive finds nothing.
            assert_eq!(socket.recv_into(&mut batch).await.expect("one is there"), 1);
            batch.clear();
            match until {
                true => socket.recv_more_until(&mut batch, far).await,
                false => socket.recv_into(&mut batch).await,
            }
        });
        assert_eq!(received.expect("the end is no error"), 1, "until {until}");
        assert_eq!(data(&batch), [b"last"]);
    }
}

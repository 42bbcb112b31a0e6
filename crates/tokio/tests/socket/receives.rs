//! Waits for datagrams: no task is forgotten, no datagram lost, and no loop spins.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mmsg::{Ancillary, SendMsg};
use mmsg_tokio::UdpSocket;
use tokio::io::Interest;

use crate::common::sockets::{addr, refusing, settle};
use crate::counting::counted;
use crate::kit::{MANY, arrive, busy, number, quiet, receive, runtime, soon};

/// Polls once, as a `select!` does whose other branch is ready.
async fn once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_burst_begins_the_batches_and_a_few_datagrams_do_not() {
    let (socket, client, _) = quiet().await;
    // Ten are found at once, so it looks at the last two.
    for few in [1, 4, 8, 2, 10, 10, 10] {
        arrive(&client, few).await;
        for expected in 0..few {
            assert_eq!(number(&socket).await, expected);
        }
        assert!(once(socket.recv(&mut [0; 8])).await.is_none());
        assert!(socket.offload().is_none(), "{few}");
    }
    arrive(&client, 200).await;
    for expected in 0..200 {
        assert_eq!(number(&socket).await, expected);
    }
    let counters = socket.offload().expect("it was a burst").counters();
    assert!(counters.receive_calls < 20 && counters.received > 150, "{counters:?}");
}

#[tokio::test]
async fn a_socket_that_stays_quiet_has_no_batches() {
    let (socket, client, _) = quiet().await;
    assert!(socket.stay_quiet());
    arrive(&client, 200).await;
    receive(&socket, 200).await;
    assert!(socket.offload().is_none());
    assert!(!busy().await.0.stay_quiet(), "it has batches already");
}

/// Each of 50 tasks takes one datagram and ends, on one thread and on two, quiet and with batches.
#[test]
fn of_many_waiting_tasks_none_is_forgotten() {
    for (threads, is_busy) in [(0, false), (0, true), (2, false), (2, true)] {
        runtime(threads).block_on(async {
            let (socket, client, _) = if is_busy { busy().await } else { quiet().await };
            for _ in 0..20 {
                let mut tasks: Vec<_> = (0..50)
                    .map(|_| {
                        let socket = socket.clone();
                        tokio::spawn(async move { number(&socket).await })
                    })
                    .collect();
                tokio::task::yield_now().await;
                // Some of them wait no longer.
                tasks.drain(..5).for_each(|task| task.abort());
                arrive(&client, 60).await;
                let mut seen = HashSet::new();
                for task in tasks {
                    assert!(seen.insert(soon(task).await.expect("it ends")), "twice");
                }
                // What those took that were ended is lost with them, as on tokio's socket.
                while let Some(Ok(_)) = once(socket.recv(&mut [0; 8])).await {}
            }
        });
    }
}

#[tokio::test]
async fn a_receive_that_is_dropped_loses_nothing() {
    for is_busy in [false, true] {
        let (socket, client, _) = if is_busy { busy().await } else { quiet().await };
        for _ in 0..10 {
            assert!(once(socket.recv(&mut [0; 8])).await.is_none());
            assert!(once(socket.readable()).await.is_none());
            assert!(once(socket.peek(&mut [0; 8])).await.is_none());
            arrive(&client, MANY).await;
            for expected in 0..MANY {
                drop(socket.recv(&mut [0; 8]));
                let peek = soon(socket.peek_from(&mut [0; 8])).await.expect("one is there");
                assert_eq!(peek.0, 4);
                assert_eq!(number(&socket).await, expected);
            }
        }
    }
}

/// A loop that waits for readiness and then receives makes one round for each datagram, and a few for each batch.
#[tokio::test]
async fn readable_is_ready_while_datagrams_are_left_and_not_after() {
    let (socket, client, _) = busy().await;
    for _ in 0..20 {
        arrive(&client, MANY).await;
        let (mut rounds, mut received) = (0, 0);
        while received < MANY {
            soon(socket.readable()).await.expect("readable");
            rounds += 1;
            match socket.try_recv(&mut [0; 8]) {
                Ok(_) => received += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            let is_left = received < MANY;
            if is_left {
                let ready = soon(socket.ready(Interest::READABLE | Interest::WRITABLE)).await;
                assert!(ready.expect("ready").is_readable() || rounds > received);
                assert!(once(socket.readable()).await.is_some() || rounds > received);
            }
        }
        assert!(rounds <= MANY + 3, "{rounds}");
        let end = socket.try_recv(&mut [0; 8]).expect_err("all were received");
        assert_eq!(end.kind(), ErrorKind::WouldBlock);
        assert!(once(socket.readable()).await.is_none());
    }
}

/// Readiness is asked for on one thread while another takes the datagrams.
#[test]
fn a_task_that_waits_for_readiness_beside_a_receiver_is_woken() {
    runtime(2).block_on(async {
        let (socket, client, _) = busy().await;
        let taken = Arc::new(AtomicUsize::new(0));
        const ALL: usize = 10_000;
        let tasks = [0, 1, 2].map(|kind| {
            let (socket, taken) = (socket.clone(), taken.clone());
            tokio::spawn(async move {
                while taken.load(Ordering::Relaxed) < ALL {
                    let wait = Duration::from_millis(200);
                    let received = match kind {
                        0 => {
                            let ready = tokio::time::timeout(wait, socket.readable()).await;
                            ready.is_ok() && socket.try_recv(&mut [0; 8]).is_ok()
                        }
                        _ => tokio::time::timeout(wait, socket.recv(&mut [0; 8])).await.is_ok(),
                    };
                    taken.fetch_add(usize::from(received), Ordering::Relaxed);
                }
            })
        });
        // The client keeps few on their way, so none is dropped for want of space.
        let mut sent = 0;
        soon(async {
            while taken.load(Ordering::Relaxed) < ALL {
                while sent < ALL && sent < taken.load(Ordering::Relaxed) + 100 {
                    client.send(b"data").await.expect("loopback takes it");
                    sent += 1;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        for task in tasks {
            soon(task).await.expect("it ends");
        }
    });
}

#[tokio::test]
async fn an_error_of_the_socket_wakes_a_receive_and_a_sleeping_one_uses_no_cpu() {
    let (socket, client, _) = busy().await;
    let nobody = refusing();
    socket.connect(addr(&nobody)).await.expect("connecting only stores the peer");
    let waiting = tokio::spawn({
        let socket = socket.clone();
        async move { socket.recv(&mut [0; 8]).await }
    });
    tokio::task::yield_now().await;
    socket.send(b"to nobody").await.expect("the error comes later");
    let error = soon(waiting).await.expect("it ends").expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    // The next one waits, and is not polled again and again.
    let (mut polls, mut data) = (0, [0; 8]);
    let mut receive = pin!(socket.recv(&mut data));
    let counted = poll_fn(|cx| {
        polls += 1;
        receive.as_mut().poll(cx)
    });
    let waited = tokio::time::timeout(Duration::from_millis(50), counted).await;
    assert!(waited.is_err() && polls < 5, "{polls}");
    drop(client);
}

#[tokio::test]
async fn what_is_left_is_handed_out_after_connect() {
    let (socket, client, _) = busy().await;
    arrive(&client, 3).await;
    assert_eq!(number(&socket).await, 0);
    socket.connect("127.0.0.1:9").await.expect("connecting only stores the peer");
    assert_eq!((number(&socket).await, number(&socket).await), (1, 2));
}

#[tokio::test]
async fn a_datagram_has_its_metadata_and_is_answered_from_the_address_that_was_asked() {
    let socket = UdpSocket::bind("0.0.0.0:0").await.expect("a socket");
    if Ancillary::DEST.require(&socket).is_err() {
        return;
    }
    let client = std::net::UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let port = socket.local_addr().expect("it is bound").port();
    let asked = std::net::SocketAddr::from(([127, 0, 0, 9], port));
    client.set_read_timeout(Some(Duration::from_secs(100))).expect("a timeout");
    // Quiet, then with batches; answered at once, then from the queue.
    for count in [1, 1, MANY, MANY] {
        (0..count).for_each(|_| _ = client.send_to(b"ask", asked).expect("sent"));
        settle();
        for _ in 0..count {
            let mut data = [0; 8];
            let (len, from, meta) = soon(socket.recv_meta(&mut data)).await.expect("a datagram");
            assert_eq!((len, meta.segment_size), (3, None));
            let reply = meta.reply_meta();
            let answer = SendMsg::to(from, &data[..len]).with_meta(&reply);
            assert_eq!(socket.send_msg(&answer).await.expect("sent"), 3);
        }
        socket.flush().await.expect("the runtime runs");
        for _ in 0..count {
            let (_, from) = client.recv_from(&mut [0; 8]).expect("an answer");
            assert_eq!(from, asked);
        }
    }
    assert!(socket.offload().is_some());
}

/// Another task runs after at most 128 datagrams, tokio's budget.
#[tokio::test]
async fn a_flood_leaves_other_tasks_their_turns() {
    let (socket, client, _) = busy().await;
    let received = Arc::new(AtomicUsize::new(0));
    arrive(&client, 250).await;
    tokio::spawn({
        let (socket, received) = (socket.clone(), received.clone());
        async move {
            loop {
                socket.recv(&mut [0; 8]).await.expect("a datagram");
                received.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let mut last = 0;
    soon(async {
        while last < 250 {
            tokio::task::yield_now().await;
            let now = received.load(Ordering::Relaxed);
            assert!(now - last <= 128, "{now} after {last}");
            last = now;
        }
    })
    .await;
}

#[test]
fn datagrams_cost_no_allocation_but_that_of_a_flusher_for_each_batch() {
    runtime(0).block_on(async {
        let (socket, client, _) = busy().await;
        let mut data = [0; 64];
        for round in 0..4 {
            arrive(&client, 200).await;
            soon(socket.readable()).await.expect("readable");
            let ((), counts) = counted(|| {
                for _ in 0..100 {
                    let (len, from) = socket.try_recv_from(&mut data).expect("it arrived");
                    let mut send = pin!(socket.send_to(&data[..len], from));
                    let mut cx = Context::from_waker(Waker::noop());
                    assert!(send.as_mut().poll(&mut cx).is_ready());
                }
            });
            assert!(round == 0 || counts.allocations <= 4, "{counts:?}");
            receive(&socket, 100).await;
            socket.flush().await.expect("the runtime runs");
            (0..100).for_each(|_| _ = client.try_recv(&mut [0; 64]));
        }
    });
}

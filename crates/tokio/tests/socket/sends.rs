//! Answers: at once or as batches, in order, and their errors.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::{mem::ManuallyDrop, os::fd::AsRawFd, time::Instant};

use mmsg_tokio::UdpSocket;
#[cfg(target_os = "linux")]
use tokio::io::Interest;
use tokio::task;

use crate::common::sockets::{addr, refusing, settle};
use crate::kit::{MANY, answers, arrive, busy, in_task, number, receive, runtime, soon};

/// Answers a burst of numbered datagrams. Returns how many answers had left before the task slept.
async fn answer(socket: &UdpSocket, count: usize) -> u64 {
    let offload = socket.offload().expect("it has batches");
    let before = offload.counters().sent;
    for _ in 0..count {
        let mut data = [0; 8];
        let (len, from) = socket.recv_from(&mut data).await.expect("it arrived");
        assert_eq!(socket.send_to(&data[..len], from).await.expect("sent"), len);
    }
    offload.counters().sent - before
}

#[test]
fn the_answers_of_a_turn_leave_together_in_order() {
    for threads in [0, 2] {
        runtime(threads).block_on(async {
            let (socket, client, _) = busy().await;
            let gso = socket.offload().expect("it has batches").gso();
            for count in [MANY, 100] {
                arrive(&client, count).await;
                let answers = task::spawn({
                    let socket = socket.clone();
                    async move { answer(&socket, count).await }
                });
                for expected in 0..count {
                    let mut data = [0; 4];
                    soon(client.recv(&mut data)).await.expect("an answer");
                    assert_eq!(u32::from_be_bytes(data) as usize, expected);
                }
                // On several threads the flusher may run beside the task.
                let early = answers.await.expect("it ends");
                assert!(threads > 0 || early == 0, "{early} of {count}");
            }
            let counters = socket.offload().expect("it has batches").counters();
            assert!(!gso || counters.sent_batches > 0, "{counters:?}");
        });
    }
}

/// A few answers leave at once, and so do those of a task that did not receive, on several threads.
#[test]
fn answers_that_nothing_would_follow_leave_at_once() {
    runtime(2).block_on(async {
        let (socket, client, _) = busy().await;
        assert!(socket.try_recv(&mut [0; 8]).is_err(), "all were received");
        in_task(&socket, &client, 3, |socket, from| async move {
            (0..3).for_each(|_| _ = socket.try_send_to(b"answer", from).expect("sent"));
        })
        .await;
        arrive(&client, MANY).await;
        for _ in 0..MANY {
            let from = receive(&socket, 1).await;
            let socket = socket.clone();
            task::spawn(async move { socket.send_to(b"answer", from).await })
                .await
                .unwrap()
                .unwrap();
        }
        assert_eq!(socket.offload().expect("it has batches").counters().sent, 0, "none was queued");
        answers(&client, MANY + 3, 6).await;
    });
}

/// In a `block_on` nothing runs after its end: the answer to the last datagram of a batch takes the others with it.
#[test]
fn outside_of_a_task_the_last_answer_to_a_batch_sends_the_others() {
    for threads in [0, 2] {
        let runtime = runtime(threads);
        let (socket, client, _) = runtime.block_on(busy());
        runtime.block_on(async {
            arrive(&client, MANY).await;
            answer(&socket, MANY).await;
        });
        settle();
        let _entered = runtime.enter();
        let client = client.into_std().expect("tokio gives it back");
        for expected in 0..MANY {
            let mut data = [0; 4];
            assert_eq!(client.recv(&mut data).expect("it is there"), 4);
            assert_eq!(u32::from_be_bytes(data) as usize, expected);
        }
    }
}

/// Queued, too long for the queue, and again queued; with the address of the connected peer, and without.
#[tokio::test]
async fn datagrams_to_one_destination_keep_their_order() {
    let (socket, client, _) = busy().await;
    let peer = client.local_addr().expect("it is bound");
    socket.connect(peer).await.expect("connecting only stores the peer");
    for (long, names_peer) in [(31_999, 1), (32_001, 1), (60_000, 2), (3, 3)] {
        let lens = [1, 2, long, 4, 5, 6, 7, 8];
        in_task(&socket, &client, MANY, move |socket, _| async move {
            for (index, len) in lens.into_iter().enumerate() {
                let data = vec![7; len];
                let sent = match index % names_peer {
                    0 => soon(socket.send_to(&data, peer)).await,
                    _ => soon(socket.send(&data)).await,
                };
                assert_eq!(sent.expect("queued or sent"), len);
            }
        })
        .await;
        let mut data = vec![0; 65_535];
        for len in lens {
            assert_eq!(soon(client.recv(&mut data)).await.expect("an answer"), len);
        }
    }
}

/// A port that no datagram can be sent to, and a datagram that is too long for any queue.
#[tokio::test]
async fn an_error_of_a_queued_datagram_comes_from_the_next_send_there_and_from_take_error() {
    let (socket, client, _) = busy().await;
    let nowhere = |last| SocketAddr::from(([127, 0, 0, last], 0));
    in_task(&socket, &client, MANY, move |socket, from| async move {
        let error = socket.send_to(&[0; 65_530], from).await.expect_err("longer than any");
        assert_eq!(socket.failed(), 0, "{error}");
        soon(socket.send_to(b"also", from)).await.expect("queued");
        for last in [1, 2, 2] {
            soon(socket.send_to(b"lost", nowhere(last))).await.expect("queued");
        }
        soon(socket.send_to(b"good", from)).await.expect("queued");
        soon(socket.flush()).await.expect("the runtime runs");
        assert_eq!(socket.failed(), 3);
        let error = soon(socket.send_to(b"next", nowhere(2))).await.expect_err("of the first");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        // Each error comes once.
        assert!(socket.take_error().expect("an option").is_some());
        assert!(socket.take_error().expect("an option").is_none());
        soon(socket.send_to(b"last", from)).await.expect("queued");
        // The errors of many destinations are counted, and some are kept.
        for last in 0..200 {
            soon(socket.send_to(b"lost", nowhere(last))).await.expect("queued");
        }
        soon(socket.flush()).await.expect("the runtime runs");
        assert_eq!(socket.failed(), 203);
        let kept = std::iter::from_fn(|| socket.take_error().expect("an option")).count();
        assert_eq!(kept, 64);
    })
    .await;
    for expected in [b"also", b"good", b"last"] {
        let mut data = [0; 8];
        assert_eq!(soon(client.recv(&mut data)).await.expect("an answer"), 4);
        assert_eq!(&data[..4], expected);
    }
}

/// It fails a send to the socket's peer, and no other. What is sent after a turn of few datagrams leaves at once.
#[tokio::test]
async fn a_refusal_is_the_connected_peers() {
    let (socket, client, _) = busy().await;
    let nobody = refusing();
    arrive(&client, MANY).await;
    let from = receive(&socket, MANY).await;
    socket.connect(addr(&nobody)).await.expect("connecting only stores the peer");
    let task = task::spawn(async move {
        let sent = || socket.offload().expect("it has batches").counters().sent;
        for _ in 0..5 {
            socket.send(b"gone").await.expect("queued");
        }
        socket.flush().await.expect("the runtime runs");
        settle();
        for _ in 0..9 {
            socket.send_to(b"good", from).await.expect("queued or sent");
            task::yield_now().await;
        }
        assert_eq!(sent(), 6, "the first six are queued");
        let error = socket.send(b"next").await.expect_err("about the first");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        // So is an error of a queued datagram, once there is another peer.
        socket.connect(from).await.expect("connecting only stores the peer");
        arrive(&client, MANY).await;
        receive(&socket, MANY).await;
        let mut meta = mmsg::SendMeta::default();
        meta.source = Some([192, 0, 2, 1].into());
        for _ in 0..5 {
            socket.send_msg(&mmsg::SendMsg::new(b"lost").with_meta(&meta)).await.expect("queued");
        }
        socket.connect(addr(&nobody)).await.expect("connecting only stores the peer");
        socket.send(b"gone").await.expect("queued");
        assert!(socket.take_error().expect("an option").is_some());
        client
    });
    answers(&task.await.expect("it ends"), 9, 4).await;
}

/// Tasks send through a queue of two datagrams, by each call.
#[test]
fn a_full_queue_makes_senders_wait_and_loses_nothing() {
    for threads in [0, 2] {
        runtime(threads).block_on(async {
            let (socket, client, _) = busy().await;
            socket.set_queue_bytes(2 * mmsg::SendQueue::cost(&mmsg::SendMsg::new(&[0; 4])));
            arrive(&client, MANY).await;
            let from = receive(&socket, MANY).await;
            let senders: Vec<_> = (0..3)
                .map(|kind| {
                    let socket = socket.clone();
                    task::spawn(async move {
                        for number in 0..60u32 {
                            let data = (kind * 60 + number).to_be_bytes();
                            match kind {
                                0 => soon(socket.send_to(&data, from)).await,
                                1 => soon(poll_fn(|cx| socket.poll_send_to(cx, &data, from))).await,
                                // Never refused: the socket takes all of them.
                                _ => socket.try_send_to(&data, from),
                            }
                            .expect("sent");
                        }
                    })
                })
                .collect();
            let mut seen = [0; 3];
            for _ in 0..180 {
                let mut data = [0; 4];
                soon(client.recv(&mut data)).await.expect("an answer");
                let number = u32::from_be_bytes(data) as usize;
                // Those of each sender in order.
                assert_eq!(number % 60, seen[number / 60]);
                seen[number / 60] += 1;
            }
            for sender in senders {
                sender.await.expect("it ends");
            }
        });
    }
}

/// A pair of Unix sockets, of which the first is soon full.
#[cfg(unix)]
async fn narrow() -> (Arc<UdpSocket>, std::os::unix::net::UnixDatagram) {
    let (near, far) = std::os::unix::net::UnixDatagram::pair().expect("a pair of sockets");
    near.set_nonblocking(true).expect("an open socket");
    far.set_read_timeout(Some(Duration::from_secs(100))).expect("a timeout");
    let near = std::net::UdpSocket::from(std::os::fd::OwnedFd::from(near));
    let near = UdpSocket::from_std(near).expect("a datagram socket");
    while near.offload().is_none() {
        (0..MANY).for_each(|_| drop(far.send(&[0; 4])));
        for _ in 0..9 {
            soon(near.recv(&mut [0; 8])).await.expect("it was sent");
        }
    }
    (Arc::new(near), far)
}

/// tokio has not yet seen that the peer has read.
#[cfg(unix)]
#[tokio::test]
async fn a_dropped_socket_asks_the_kernel_whether_there_is_space() {
    let (near, far) = narrow().await;
    let task = task::spawn(async move {
        for number in 0..400u32 {
            soon(near.send(&number.to_be_bytes())).await.expect("sent or queued");
        }
        near
    });
    let near = task.await.expect("it ends");
    far.set_nonblocking(true).expect("an open socket");
    let read = || std::iter::from_fn(|| far.recv(&mut [0; 8]).ok()).count();
    let before = read();
    assert!(before < 400, "all of them fit");
    drop(near);
    assert_eq!(before + read(), 400);
}

/// The queue fills up behind the socket. The sender sleeps, and each datagram comes once.
#[cfg(unix)]
#[test]
fn a_full_socket_makes_senders_wait_and_loses_nothing() {
    for threads in [0, 2] {
        runtime(threads).block_on(async {
            let (near, far) = narrow().await;
            near.set_queue_bytes(10_000);
            let sender = task::spawn({
                let near = near.clone();
                async move {
                    for number in 0..2_000u32 {
                        near.send(&number.to_be_bytes()).await.expect("sent or queued");
                    }
                    soon(near.flush()).await.expect("the runtime runs");
                }
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!sender.is_finished());
            let mut more = 0;
            let full = loop {
                match near.try_send(b"more!") {
                    Ok(_) => more += 1,
                    Err(error) => break error,
                }
                assert!(more < 2_000, "the queue holds no more");
            };
            assert_eq!(full.kind(), ErrorKind::WouldBlock);
            let receiver = task::spawn_blocking(move || {
                let mut next = 0u32;
                for _ in 0..2_000 + more {
                    let mut data = [0; 8];
                    if far.recv(&mut data).expect("it is sent") == 4 {
                        assert_eq!(data[..4], next.to_be_bytes());
                        next += 1;
                    }
                }
            });
            soon(sender).await.expect("it ends");
            soon(receiver).await.expect("all came");
        });
    }
}

/// After an error tokio reports a socket as writable for ever. Of a full one the flusher asks less and less often, and a task
/// that waits for space every 4 ms, each time once more for tokio.
#[cfg(target_os = "linux")]
#[test]
fn sends_of_a_full_socket_that_stays_writable_sleep_between_their_tries() {
    let runtime = ManuallyDrop::new(runtime(3)); // A busy loop would not let it end.
    let make = runtime.spawn(async {
        let (near, far) = narrow().await;
        for _ in 0..5 {
            near.send(b"lost").await.expect("queued");
        }
        near.flush().await.expect("the runtime runs");
        // SAFETY: the descriptor is open, and an address of all zeros has no family: it forgets the peer.
        let result = unsafe { libc::connect(far.as_raw_fd(), &std::mem::zeroed(), 16) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        near.ready(Interest::ERROR).await.expect("the socket has one");
        near.take_error().expect("an option").expect("the peer has forgotten a datagram");
        assert!(near.ready(Interest::WRITABLE).await.expect("it is").is_write_closed());
        (0..400).for_each(|_| _ = near.try_send(b"more").expect("queued"));
        (near, far)
    });
    let (near, _far) = runtime.block_on(make).expect("it ends");
    let tries = |most: fn(u128) -> u128| {
        let calls = || near.offload().expect("it has batches").counters().send_calls;
        let (begun, before) = (Instant::now(), calls());
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(500)).await });
        let (calls, passed) = (u128::from(calls() - before), begun.elapsed().as_millis());
        assert!(calls <= most(passed), "{calls} calls in {passed} ms");
    };
    tries(|passed| 2 * (8 + passed / 100));
    near.set_queue_bytes(1);
    let sender = runtime.spawn({
        let near = near.clone();
        async move { near.send(b"waits").await }
    });
    tries(|passed| 2 * (8 + passed / 3));
    assert!(!sender.is_finished());
    sender.abort();
    drop(ManuallyDrop::into_inner(runtime));
}

/// Nothing passes on a clock that stands still but sleeps.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_icmp_error_puts_no_sleep_between_later_sends() {
    let (socket, client, _) = busy().await;
    let nobody = refusing();
    socket.connect(addr(&nobody)).await.expect("connecting only stores the peer");
    socket.send(b"gone").await.expect("loopback takes it");
    soon(socket.ready(Interest::ERROR)).await.expect("the socket has one");
    assert!(socket.ready(Interest::WRITABLE).await.expect("it is").is_write_closed());
    let peer = client.local_addr().expect("it is bound");
    socket.connect(peer).await.expect("connecting only stores the peer");
    let _ = socket.take_error();
    socket.set_queue_bytes(1_000);
    in_task(&socket, &client, MANY, |socket, _| async move {
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        for _ in 0..100 {
            socket.send(&[7; 100]).await.expect("queued or sent");
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let counters = socket.offload().expect("it has batches").counters();
        assert!(counters.send_calls > 0, "the queue was never full");
    })
    .await;
}

/// Also if it flushes.
#[tokio::test]
async fn a_task_that_only_sends_yields() {
    let (socket, client, _) = busy().await;
    for (each, polls) in [(usize::MAX, false), (usize::MAX, true), (8, false), (1, false)] {
        arrive(&client, MANY).await;
        let from = receive(&socket, MANY - 1).await;
        let sender = task::spawn({
            let socket = socket.clone();
            async move {
                for count in 1..100_000 {
                    match polls {
                        true => poll_fn(|cx| socket.poll_send_to(cx, &[7; 1200], from)).await,
                        false => socket.send_to(&[7; 1200], from).await,
                    }
                    .expect("sent");
                    if count % each == 0 {
                        socket.flush().await.expect("the runtime runs");
                    }
                }
            }
        });
        for _ in 0..20 {
            task::yield_now().await;
        }
        assert!(!sender.is_finished(), "{each} {polls}");
        sender.abort();
        assert!(number(&socket).await < MANY);
    }
}

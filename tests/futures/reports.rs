//! Receives while another task drains the error queue: they leave error readiness to that task, and sleep although the
//! queue is not empty.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mmsg::error_queue::{Report, drain_errors};
use mmsg::{Ancillary, AsyncBatchSocket, RecvBatch};
use socket2::SockRef;
use tokio::io::{Interest, ReadBuf};
use tokio::net::UdpSocket;

use super::cpu::{RUNTIMES, run};
use super::{once, udp};
use crate::common::linux::has_timestamps;
use crate::common::sockets::{addr, refusing, udp4};
use crate::common::{TIME_LIMIT, is_refused};

/// A socket with `ERRORS` on whose peer rejects datagrams with ECONNREFUSED, and that peer.
pub(super) async fn reporting() -> (UdpSocket, std::net::UdpSocket) {
    let ((socket, _), peer) = (udp(), refusing());
    assert!(Ancillary::ERRORS.enable(&socket).expect("a UDP socket").contains(Ancillary::ERRORS));
    socket.connect(addr(&peer)).await.expect("connecting only stores the peer");
    (socket, peer)
}

/// Sends a datagram that causes ECONNREFUSED, without tokio's knowledge.
pub(super) fn provoke(socket: &UdpSocket) {
    SockRef::from(socket).send(b"lost").expect("the error was taken before");
}

/// Causes ECONNREFUSED, and receives it.
async fn refuse(socket: &UdpSocket, batch: &mut RecvBatch) {
    provoke(socket);
    socket.recv_into(batch).await.expect_err("it was refused");
}

pub(super) fn reports(socket: &UdpSocket) -> usize {
    drain_errors(socket, &mut [Report::EMPTY; 16]).expect("Linux has an error queue")
}

#[test]
fn a_receive_leaves_error_readiness_to_the_task_that_waits_for_it() {
    for workers in RUNTIMES {
        run(workers, async |_| {
            let (socket, _peer) = reporting().await;
            let mut batch = RecvBatch::new(4, 32);
            for _ in 0..2 {
                provoke(&socket);
                socket.ready(Interest::ERROR).await.expect("it is reported");
                socket.recv_into(&mut batch).await.expect_err("it was refused");
            }
            let mut receive = pin!(socket.recv_into(&mut batch));
            for _ in 0..50 {
                assert!(once(receive.as_mut()).await.is_none(), "each error is returned once");
                tokio::task::yield_now().await;
            }
            // A task that starts to wait later sees the reports too.
            let drained = socket.async_io(Interest::ERROR, || Ok(reports(&socket))).await;
            assert_eq!(drained.expect("no error"), 2);
        });
    }
}

/// Once the queue is empty the readiness is stale, and a receive may clear it.
#[test]
fn a_drained_queue_is_not_reported_for_ever() {
    run(0, async |_| {
        let (socket, _peer) = reporting().await;
        let mut batch = RecvBatch::new(4, 32);
        refuse(&socket, &mut batch).await;
        assert_eq!(reports(&socket), 1);
        assert!(once(pin!(socket.recv_into(&mut batch))).await.is_none());
        assert!(once(pin!(socket.ready(Interest::ERROR))).await.is_none(), "nothing to report");
        // A new error is reported again.
        provoke(&socket);
        socket.ready(Interest::ERROR).await.expect("it is reported");
        assert_eq!(reports(&socket), 1);
    });
}

#[test]
fn a_task_that_waits_for_reports_sleeps_between_them() {
    for workers in RUNTIMES {
        run(workers, async |clocks| {
            let (socket, _peer) = reporting().await;
            let (mut batch, mut reports) = (RecvBatch::new(4, 32), [Report::EMPTY; 1]);
            for round in 1..=2 {
                // More than `reports` takes at once; the others cause no further event.
                for _ in 0..2 {
                    refuse(&socket, &mut batch).await;
                }
                for _ in 0..2 {
                    let taken = socket.recv_errors(&mut reports).await;
                    assert_eq!(taken.expect("no error"), 1, "round {round}");
                    assert_eq!(reports[0].quote(), b"lost");
                }
                let mut next = pin!(socket.recv_errors(&mut reports));
                tokio::select! {
                    biased;
                    taken = next.as_mut() => panic!("round {round}: {taken:?}"),
                    () = clocks.assert_asleep() => {}
                }
                provoke(&socket);
                // The drain also takes the socket's pending error.
                assert_eq!(next.await.expect("no error"), 1, "round {round}");
            }
        });
    }
}

/// The last of the ways of [`beside`] takes no datagram and no error.
const WAYS: usize = 6;

/// Waits by tokio's own calls, for ever. Counts the datagrams that they take and the errors that they return.
async fn beside(socket: Arc<UdpSocket>, way: usize, found: Arc<AtomicUsize>) {
    let would_block = || Err(io::ErrorKind::WouldBlock.into());
    let mut buffer = [0; 8];
    loop {
        let mut read = ReadBuf::new(&mut buffer);
        let result = match way {
            0 => socket.recv(&mut buffer).await.map(drop),
            1 => socket.recv_from(&mut buffer).await.map(drop),
            2 => match socket.peek_from(&mut buffer).await {
                Ok(_) => continue,
                Err(error) => Err(error),
            },
            3 => poll_fn(|cx| socket.poll_recv(cx, &mut read)).await,
            4 => {
                tokio::task::yield_now().await;
                socket.ready(Interest::READABLE | Interest::ERROR).await.expect("it runs");
                match socket.try_recv_from(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    result => result.map(drop),
                }
            }
            _ => socket.async_io(Interest::ERROR, would_block).await,
        };
        drop(result);
        found.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn each_datagram_and_error_is_received_beside_calls_of_tokio_on_the_same_socket() {
    for (workers, way) in RUNTIMES.into_iter().flat_map(|n| (0..WAYS - 1).map(move |way| (n, way)))
    {
        run(workers, async |_| {
            let ((socket, peer), found) = (reporting().await, Arc::new(AtomicUsize::new(0)));
            let (socket, count) = (Arc::new(socket), found.clone());
            let (ours, to) = (socket.clone(), socket.local_addr().expect("it is bound"));
            let theirs = tokio::spawn(beside(socket.clone(), way, found.clone()));
            let ours = tokio::spawn(async move {
                let mut batch = RecvBatch::new(4, 32);
                loop {
                    let received = ours.recv_into(&mut batch).await.unwrap_or(1);
                    count.fetch_add(received, Ordering::Relaxed);
                }
            });
            for sent in 1..=40 {
                match sent % 2 {
                    0 => provoke(&socket),
                    _ => drop(peer.send_to(b"hello", to).expect("loopback takes it")),
                }
                while found.load(Ordering::Relaxed) < sent {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            [theirs, ours].iter().for_each(|task| task.abort());
        });
    }
}

/// tokio's own receives clear the readiness of errors without reading the queue.
#[test]
fn reports_come_beside_calls_of_tokio_on_the_same_socket() {
    if !has_timestamps() {
        return;
    }
    for (workers, call) in RUNTIMES.into_iter().flat_map(|n| (0..WAYS).map(move |call| (n, call))) {
        run(workers, async |_| {
            let ((socket, _), far) = (udp(), udp4());
            Ancillary::SEND_TIMESTAMP.require(&socket).expect("loopback stamps what it sends");
            socket.connect(addr(&far)).await.expect("connecting only stores the peer");
            let (socket, mut reports) = (Arc::new(socket), [Report::EMPTY; 4]);
            let send = || SockRef::from(&*socket).send(b"stamped").expect("loopback takes it");
            // tokio's call is polled before ours, after it or in another task; the report comes before or after that.
            for way in 0..6 {
                let send_later = async {
                    tokio::task::yield_now().await;
                    if way % 2 == 0 {
                        send()
                    } else {
                        0
                    };
                    pending().await
                };
                let at = async |place| match way / 2 == place {
                    true => beside(socket.clone(), call, Arc::default()).await,
                    false => pending().await,
                };
                let task = (way / 2 == 2)
                    .then(|| tokio::spawn(beside(socket.clone(), call, Arc::default())));
                if way % 2 == 1 {
                    send();
                }
                let received = async {
                    tokio::select! {
                        biased;
                        () = at(0) => 0,
                        count = socket.recv_errors(&mut reports) => count.expect("no error"),
                        () = at(1) => 0,
                        () = send_later => 0,
                    }
                };
                let received = tokio::time::timeout(TIME_LIMIT / 2, received).await;
                assert_eq!(received.ok(), Some(1), "{workers} workers, call {call}, way {way}");
                if let Some(task) = task {
                    task.abort();
                    let _ = task.await;
                }
            }
        });
    }
}

/// An error behind a report causes no event.
#[test]
fn a_receiver_sleeps_beside_an_undrained_error_queue() {
    for workers in RUNTIMES {
        run(workers, async |clocks| {
            let (socket, peer) = reporting().await;
            let (mut batch, to) =
                (RecvBatch::new(4, 32), socket.local_addr().expect("it is bound"));
            refuse(&socket, &mut batch).await;
            for round in 1..=3 {
                let mut receive = Box::pin(socket.recv_into(&mut batch));
                tokio::select! {
                    biased;
                    received = receive.as_mut() => panic!("round {round}: {received:?}"),
                    () = clocks.assert_asleep() => {}
                }
                peer.send_to(b"hello", to).expect("loopback takes it");
                assert_eq!(receive.await.expect("it was sent"), 1);

                // An error that arrives during the wait, also if the queue was drained meanwhile.
                let mut receive = Box::pin(socket.recv_into(&mut batch));
                assert!(once(receive.as_mut()).await.is_none());
                if round == 2 {
                    assert_eq!(reports(&socket), 2);
                }
                provoke(&socket);
                assert!(is_refused(&receive.await.expect_err("it was refused")));
            }
            let mut receive = pin!(socket.recv_into(&mut batch));
            assert!(once(receive.as_mut()).await.is_none());
            SockRef::from(&socket).shutdown(std::net::Shutdown::Read).expect("it is connected");
            assert_eq!(receive.await.expect("no error"), 0);
            assert_eq!(reports(&socket), 2);
        });
    }
}

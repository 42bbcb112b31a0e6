//! Receives while another task drains the error queue: they leave error readiness to that task, and sleep although the
//! queue is not empty.

use std::pin::pin;

use mmsg::error_queue::{Report, drain_errors};
use mmsg::{Ancillary, AsyncBatchSocket, RecvBatch};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::cpu::{RUNTIMES, WATCHED, run};
use super::{once, udp};
use crate::common::is_refused;
use crate::common::sockets::{addr, refusing};

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

/// An error that arrives behind a waiting report causes no event.
#[test]
fn a_receive_that_waits_beside_a_report_returns_the_next_error() {
    for (workers, is_drained) in RUNTIMES.into_iter().flat_map(|n| [(n, false), (n, true)]) {
        run(workers, async |_| {
            let (socket, _peer) = reporting().await;
            let mut batch = RecvBatch::new(4, 32);
            refuse(&socket, &mut batch).await;
            let mut receive = pin!(socket.recv_into(&mut batch));
            assert!(once(receive.as_mut()).await.is_none(), "a report waits, and no error");
            if is_drained {
                assert_eq!(reports(&socket), 1);
            }
            provoke(&socket);
            assert!(is_refused(&receive.await.expect_err("it was refused")));
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
                    () = clocks.assert_asleep_for(WATCHED) => {}
                }
                provoke(&socket);
                // The drain also takes the socket's pending error.
                assert_eq!(next.await.expect("no error"), 1, "round {round}");
            }
        });
    }
}

#[test]
fn a_receiver_sleeps_beside_an_undrained_error_queue() {
    for workers in RUNTIMES {
        run(workers, async |clocks| {
            let (socket, peer) = reporting().await;
            let mut batch = RecvBatch::new(4, 32);
            let mut receive = Box::pin(socket.recv_into(&mut batch));
            assert!(once(receive.as_mut()).await.is_none());
            provoke(&socket);
            receive.await.expect_err("it was refused");
            for round in 1..=3 {
                let mut receive = Box::pin(socket.recv_into(&mut batch));
                tokio::select! {
                    biased;
                    received = receive.as_mut() => panic!("round {round}: {received:?}"),
                    () = clocks.assert_asleep_for(WATCHED) => {}
                }
                let to = socket.local_addr().expect("it is bound");
                peer.send_to(b"hello", to).expect("loopback takes it");
                assert_eq!(receive.await.expect("it was sent"), 1);

                // An error that arrives during the wait is returned with the next datagram.
                let mut receive = Box::pin(socket.recv_into(&mut batch));
                assert!(once(receive.as_mut()).await.is_none());
                provoke(&socket);
                peer.send_to(b"hello", to).expect("loopback takes it");
                receive.await.expect_err("it was refused");
                assert_eq!(socket.recv_into(&mut batch).await.expect("it was sent"), 1);
            }
            assert_eq!(reports(&socket), 4);
        });
    }
}

#[test]
fn a_receiver_beside_an_undrained_error_queue_sees_a_shutdown() {
    for workers in RUNTIMES {
        run(workers, async |_| {
            let (socket, _peer) = reporting().await;
            let mut batch = RecvBatch::new(4, 32);
            refuse(&socket, &mut batch).await;
            let mut receive = pin!(socket.recv_into(&mut batch));
            assert!(once(receive.as_mut()).await.is_none());
            SockRef::from(&socket).shutdown(std::net::Shutdown::Read).expect("it is connected");
            assert_eq!(receive.await.expect("no error"), 0);
        });
    }
}

//! Each error is returned once, even by a waiting call. No error makes a task spin.

use std::future::Future;
use std::io;
use std::pin::pin;

use mmsg::{AsyncBatchSocket, RecvBatch, SendMsg};
use tokio::net::UdpSocket;

use super::{once, run, udp};
use crate::common::sockets::{addr, refusing, wait_for_error};
use crate::common::{has_icmp_errors, is_refused};

/// A socket whose peer rejects datagrams with ECONNREFUSED, and that peer.
async fn refused() -> (UdpSocket, std::net::UdpSocket) {
    let ((socket, _), peer) = (udp(), refusing());
    socket.connect(addr(&peer)).await.expect("connecting only stores the peer");
    (socket, peer)
}

#[track_caller]
fn assert_connection_refused<T: std::fmt::Debug>(result: io::Result<T>) {
    assert!(is_refused(&result.expect_err("it was refused")));
}

/// Whether a future stays pending after the runtime has handled all events.
async fn waits<F: Future>(future: F) -> bool {
    let mut future = pin!(future);
    for _ in 0..50 {
        if once(future.as_mut()).await.is_some() {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}

#[test]
fn a_receive_returns_an_error_once_and_then_waits() {
    if !has_icmp_errors() {
        return;
    }
    run(async {
        let (socket, _peer) = refused().await;
        let mut batch = RecvBatch::new(4, 32);
        for _ in 0..3 {
            // Before a task waits, and while it waits.
            socket.send_batch(&[SendMsg::new(b"lost")]).await.expect("loopback takes it");
            assert_connection_refused(socket.recv_into(&mut batch).await);
            assert!(waits(socket.recv_into(&mut batch)).await);

            let send = async {
                tokio::task::yield_now().await;
                socket.send_batch(&[SendMsg::new(b"lost")]).await
            };
            let (received, sent) = tokio::join!(socket.recv_into(&mut batch), send);
            assert_eq!(sent.expect("loopback takes it"), 1);
            assert_connection_refused(received);
            assert!(waits(socket.recv_into(&mut batch)).await);
        }
    });
}

/// The BSDs return the datagram first.
#[cfg(any(target_os = "linux", windows))]
#[test]
fn an_error_comes_before_the_datagram_after_it() {
    if !has_icmp_errors() {
        return;
    }
    run(async {
        let (socket, peer) = refused().await;
        let mut batch = RecvBatch::new(4, 32);
        for _ in 0..3 {
            socket.send(b"lost").await.expect("loopback takes it");
            wait_for_error(&socket);
            // A datagram makes the socket readable for tokio. The error must come first.
            peer.connect(socket.local_addr().expect("it is bound"))
                .expect("connecting only stores the peer");
            peer.send(b"hello").expect("loopback takes it");
            peer.connect(addr(&peer)).expect("connecting only stores the peer");
            assert_connection_refused(socket.recv_into(&mut batch).await);
            let received = socket.recv_into(&mut batch).await;
            assert_eq!(received.expect("the datagram is not lost"), 1);
            assert!(waits(socket.recv_into(&mut batch)).await);
        }
    });
}

#[test]
fn a_send_returns_an_error_once_and_goes_on() {
    // Without ICMP errors, sends return none either once tokio watches the socket.
    if !has_icmp_errors() {
        return;
    }
    run(async {
        let (socket, peer) = refused().await;
        socket.send(b"lost").await.expect("loopback takes it");
        wait_for_error(&socket);
        assert_connection_refused(socket.send_batch(&[SendMsg::new(b"next")]).await);
        peer.connect(socket.local_addr().expect("it is bound"))
            .expect("connecting only stores the peer");
        let msgs = [b"one", b"two"].map(|data| SendMsg::new(data));
        assert_eq!(socket.send_batch(&msgs).await.expect("it is taken"), 2);
    });
}

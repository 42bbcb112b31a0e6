//! Idle connections, and endpoints that end.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use quinn::{ConnectionError, TransportConfig, VarInt};

use crate::kit::{Pair, content, run, run_threaded, transfer};
use crate::own;

#[test]
fn an_idle_connection_is_kept_alive() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    run(async {
        // A machine that stands still for four seconds ends it: hence several tries.
        for _ in 0..5 {
            let mut transport = TransportConfig::default();
            transport.max_idle_timeout(Some(TIMEOUT.try_into().expect("a short time")));
            transport.keep_alive_interval(Some(TIMEOUT / 16));
            let (client, server) = Pair::with_transport(transport).connect().await;
            // Longer than the connection would last without anything from the other end.
            tokio::time::sleep(TIMEOUT * 5 / 4).await;
            if client.close_reason().is_none() && server.close_reason().is_none() {
                return transfer(&server, &client, 1 << 20, 1).await;
            }
        }
        panic!("it ended five times");
    });
}

#[test]
fn an_idle_connection_without_it_ends() {
    run(async {
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(VarInt::from_u32(5_000).into()));
        let (client, server) = Pair::with_transport(transport).connect().await;
        let ends = tokio::join!(client.closed(), server.closed());
        assert_eq!(ends, (ConnectionError::TimedOut, ConnectionError::TimedOut));
    });
}

/// Waits until a socket is gone: then its address is free.
async fn assert_freed(addr: std::net::SocketAddr) {
    loop {
        match UdpSocket::bind(addr) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                tokio::task::yield_now().await;
            }
            bound => return drop(bound.expect("a free address")),
        }
    }
}

#[test]
fn an_end_in_mid_flight_reaches_the_peer_and_frees_the_socket() {
    run_threaded(async {
        // QUIC announces the end once. If the peer's receive buffer is full, the datagram is lost, and the peer waits
        // for its timeout.
        for _ in 0..3 {
            if end_in_mid_flight().await {
                return;
            }
        }
        panic!("the end was lost three times");
    });
}

/// Closes a busy connection and its endpoints. Returns whether the peer learned of it.
async fn end_in_mid_flight() -> bool {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(30_000).into()));
    let pair = Pair::with_transport(transport);
    let (client, server) = pair.connect().await;
    let mut from_server = server.open_uni().await.expect("a stream");
    let sending = tokio::spawn(async move {
        let data = content(1 << 20, 1);
        while from_server.write_all(&data).await.is_ok() {}
    });
    let mut stream = client.accept_uni().await.expect("a stream");
    let mut received = 0;
    let mut chunk = vec![0; 1 << 16];
    while received < 4 << 20 {
        received += stream.read(&mut chunk).await.expect("bytes").expect("no end");
    }

    pair.server.close(7u32.into(), b"over");
    let is_known = match client.closed().await {
        ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.reason, &b"over"[..]);
            true
        }
        // The server had closed, and reset the connection when the client's next packet came.
        ConnectionError::Reset => true,
        ConnectionError::TimedOut => false,
        other => panic!("{other}"),
    };
    sending.await.expect("no panic");
    pair.server.wait_idle().await;
    pair.client.wait_idle().await;

    let addr = pair.addr();
    drop((client, server, stream, pair));
    assert_freed(addr).await;
    is_known
}

#[test]
fn a_socket_that_was_replaced_is_freed() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let Pair { server: server_endpoint, client: client_endpoint, client_socket, .. } = pair;
        let addr = client_endpoint.local_addr().expect("a bound socket");
        drop(client_socket);
        client_endpoint.rebind(crate::kit::bind()).expect("another socket");
        // quinn reads the old socket until a datagram arrives at the new one.
        transfer(&client, &server, 1 << 20, 1).await;
        transfer(&server, &client, 1 << 20, 2).await;
        if own::CLOSES_REPLACED {
            assert_freed(addr).await;
        }
        drop(server_endpoint);
    });
}

#[test]
fn a_runtime_that_ends_in_mid_flight_ends() {
    for threads in [false, true] {
        let test = async {
            let pair = Pair::new();
            let (client, server) = pair.connect().await;
            tokio::spawn(async move {
                let mut stream = server.open_uni().await.expect("a stream");
                let data = content(1 << 20, 1);
                while stream.write_all(&data).await.is_ok() {}
            });
            let mut stream = client.accept_uni().await.expect("a stream");
            assert!(stream.read(&mut [0; 100]).await.expect("bytes").is_some());
            pair
        };
        // The endpoints outlive their runtime.
        let pair = if threads { run_threaded(test) } else { run(test) };
        pair.server.close(0u32.into(), b"");
        drop(pair);
    }
}

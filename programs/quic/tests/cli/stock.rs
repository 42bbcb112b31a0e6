//! Unchanged quinn at the other end.

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::{ClientConfig, Connection, Endpoint, SendStream, ServerConfig};

use crate::identity::{NAME, identity};
use crate::kit::{serve, stop};
use crate::running::{Ended, PATIENCE, Program};

/// Runs an async test with a time limit.
fn run<R>(test: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("it ends") })
}

/// Connects to the program's server.
async fn connect(addr: SocketAddr) -> (Endpoint, Connection) {
    let mut roots = RootCertStore::empty();
    roots.add(identity().expect("a certificate").0).expect("it is one");
    let config = ClientConfig::with_root_certificates(Arc::new(roots)).expect("TLS 1.3");
    let mut endpoint =
        Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a socket");
    endpoint.set_default_client_config(config);
    let connecting = endpoint.connect(addr, NAME).expect("it can be tried");
    let connection = connecting.await.expect("the server accepts");
    (endpoint, connection)
}

#[test]
fn quinns_client_moves_from_port_to_port_and_loses_nothing() {
    const LEN: usize = 4 << 20;
    let server = serve("127.0.0.1:0", "mmsg", 250);
    run(async {
        let (endpoint, connection) = connect(server.addr).await;
        let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
        send.write_all(&(LEN as u64).to_be_bytes()).await.expect("it is sent");
        send.finish().expect("it is open");
        let (mut received, mut moves) = (0, 0);
        while let Some(chunk) = recv.read_chunk(usize::MAX, true).await.expect("it comes") {
            received += chunk.bytes.len();
            // Three times, spread over the transfer.
            if received > (moves + 1) * LEN / 4 && moves < 3 {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
                endpoint.rebind(socket).expect("it is taken");
                moves += 1;
            }
        }
        assert_eq!((received, moves), (LEN, 3));
        connection.close(0u32.into(), b"done");
        endpoint.wait_idle().await;
    });
    stop(server).assert_served(1, 1, LEN as u64);
}

#[test]
fn many_requests_on_one_connection_are_answered_at_once() {
    let server = serve("127.0.0.1:0", "mmsg", 250);
    run(async {
        let (endpoint, connection) = connect(server.addr).await;
        let mut answers = Vec::new();
        // The last two are malformed.
        for request in
            [&100_000u64.to_be_bytes()[..]; 20].into_iter().chain([&b"7 bytes"[..], &[0; 9]])
        {
            let (mut send, recv) = connection.open_bi().await.expect("a stream");
            send.write_all(request).await.expect("it is sent");
            send.finish().expect("it is open");
            answers.push(recv);
        }
        for (i, mut answer) in answers.into_iter().enumerate() {
            let all = answer.read_to_end(1 << 20).await.expect("it comes");
            assert_eq!(all.len(), if i < 20 { 100_000 } else { 0 });
        }
        connection.close(0u32.into(), b"done");
        endpoint.wait_idle().await;
    });
    let figures = stop(server);
    assert_eq!((figures.get("requests "), figures.get("unfinished ")), (20, 2), "{figures:?}");
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let server = serve("127.0.0.1:0", "mmsg", 2);
    let refused = run(async {
        let (endpoint, first) = connect(server.addr).await;
        let again = || endpoint.connect(server.addr, "localhost").expect("it can be tried");
        let second = again().await.expect("there may be two");
        let third = again().await.expect_err("there may be no more");
        assert!(third.to_string().contains("refused"), "{third}");
        first.close(0u32.into(), b"done");
        // The server remembers closed connections for a moment, because of late packets.
        let mut refused = 1;
        let third = loop {
            match again().await {
                Ok(third) => break third,
                Err(_) => refused += 1,
            }
        };
        for connection in [second, third] {
            connection.close(0u32.into(), b"done");
        }
        endpoint.wait_idle().await;
        refused
    });
    let figures = stop(server);
    let reported = (figures.get("connections "), figures.get("broken "));
    assert_eq!(reported, (3 + refused, refused), "{figures:?}");
}

/// A server on loopback.
fn listen() -> (Endpoint, SocketAddr) {
    let (certificate, key) = identity().expect("a certificate");
    let config = ServerConfig::with_single_cert(vec![certificate], key.into());
    let any = "127.0.0.1:0".parse().expect("an address");
    let endpoint = Endpoint::server(config.expect("it fits"), any).expect("a loopback socket");
    let addr = endpoint.local_addr().expect("it is bound");
    (endpoint, addr)
}

/// Waits for a client's first request, which is for so many bytes. Keeps the connection open with its result.
async fn request(endpoint: &Endpoint, bytes: u64) -> (Connection, SendStream) {
    let incoming = endpoint.accept().await.expect("the endpoint is open");
    let connection = incoming.await.expect("the client connects");
    let (send, mut recv) = connection.accept_bi().await.expect("a stream");
    assert_eq!(recv.read_to_end(8).await.expect("a request"), bytes.to_be_bytes());
    (connection, send)
}

/// Starts `quic load ADDR --bytes BYTES`.
fn load(addr: SocketAddr, bytes: u64) -> Program {
    let args = ["load", &addr.to_string(), "--bytes", &bytes.to_string()];
    Program::start(env!("CARGO_BIN_EXE_quic"), args)
}

/// Waits for a client while the endpoint goes on.
async fn wait(client: Program) -> Ended {
    tokio::task::spawn_blocking(|| client.wait()).await.expect("it does not panic")
}

#[test]
fn an_answer_of_another_length_is_an_error() {
    run(async {
        let (endpoint, addr) = listen();
        let client = load(addr, 1000);
        let (_connection, mut send) = request(&endpoint, 1000).await;
        send.write_all(&[0; 999]).await.expect("it is sent");
        send.finish().expect("it is open");
        let ended = wait(client).await;
        assert_eq!(ended.status, Some(1), "{ended:?}");
        assert_eq!(ended.err, ["error: asked for 1000 bytes, received 999"]);
    });
}

#[test]
fn a_signal_ends_a_client_with_its_figures() {
    run(async {
        let (endpoint, addr) = listen();
        let client = load(addr, 1 << 40);
        let (_connection, mut send) = request(&endpoint, 1 << 40).await;
        // More than the client's window: it has received some of them when this returns.
        send.write_all(&vec![0; 16 << 20]).await.expect("it is sent");
        client.signal(libc::SIGTERM);
        let ended = wait(client).await;
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
        assert!(ended.out[0].starts_with("connections 1, whole 0, bytes "), "{ended:?}");
        assert!(!ended.out[0].contains(" bytes 0 "), "{ended:?}");
    });
}

#[test]
fn a_server_that_ends_is_an_error_of_its_clients() {
    run(async {
        let (endpoint, addr) = listen();
        let client = load(addr, 1000);
        let _open = request(&endpoint, 1000).await;
        endpoint.close(0u32.into(), b"the server ends");
        let ended = wait(client).await;
        assert_eq!((ended.status, ended.err.len()), (Some(1), 1), "{ended:?}");
        assert!(ended.err[0].starts_with("error: "), "{ended:?}");
    });
}

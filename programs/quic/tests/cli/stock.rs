//! Unchanged quinn at the other end.

use std::collections::HashMap;
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};

use crate::kit::{Folder, client, content, serve, serve_with, stop};
use crate::running::PATIENCE;

/// Runs an async test with a time limit.
fn run<R>(test: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("it ends") })
}

/// Connects to the program's server and trusts its certificate.
async fn connect(folder: &Folder, addr: SocketAddr) -> (Endpoint, Connection) {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(folder.path("cert.pem"));
    roots.add(certificate.expect("the server wrote it")).expect("it is one");
    let config = ClientConfig::with_root_certificates(Arc::new(roots)).expect("TLS 1.3");
    let mut endpoint =
        Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a socket");
    endpoint.set_default_client_config(config);
    let connecting = endpoint.connect(addr, "localhost").expect("it can be tried");
    let connection = connecting.await.expect("the server accepts");
    (endpoint, connection)
}

#[test]
fn quinns_client_moves_from_port_to_port_and_loses_nothing() {
    let folder = Folder::new();
    let data = folder.file("file", 4 << 20);
    let server = serve(&folder, "127.0.0.1:0", "mmsg");
    run(async {
        let (endpoint, connection) = connect(&folder, server.addr).await;
        let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
        send.write_all(b"file").await.expect("it is sent");
        send.finish().expect("it is open");
        let mut received = Vec::new();
        let mut moves = 0;
        while let Some(chunk) = recv.read_chunk(usize::MAX, true).await.expect("it comes") {
            received.extend_from_slice(&chunk.bytes);
            // Three times, spread over the file.
            if received.len() > (moves + 1) * data.len() / 4 && moves < 3 {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
                endpoint.rebind(socket).expect("it is taken");
                moves += 1;
            }
        }
        assert_eq!((received[0], moves), (0, 3));
        assert_eq!(received[1..9], (data.len() as u64).to_be_bytes());
        assert!(received[9..] == data, "the bytes are the same");
        connection.close(0u32.into(), b"done");
        endpoint.wait_idle().await;
    });
    stop(server).assert_served(1, 1);
}

#[test]
fn many_requests_on_one_connection_are_answered_at_once() {
    let folder = Folder::new();
    let data = folder.file("file", 100_000);
    let server = serve(&folder, "127.0.0.1:0", "mmsg");
    run(async {
        let (endpoint, connection) = connect(&folder, server.addr).await;
        let mut answers = Vec::new();
        for _ in 0..20 {
            let (mut send, recv) = connection.open_bi().await.expect("a stream");
            send.write_all(b"file").await.expect("it is sent");
            send.finish().expect("it is open");
            answers.push(recv);
        }
        for mut answer in answers {
            let all = answer.read_to_end(1 << 20).await.expect("it comes");
            assert!(all[9..] == data, "the bytes are the same");
        }
        // A request that is not UTF-8, from a client that then goes away.
        let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
        send.write_all(&[0xff, 0xfe]).await.expect("it is sent");
        send.finish().expect("it is open");
        recv.read_to_end(100).await.expect("the stream ends");
        connection.close(0u32.into(), b"done");
        endpoint.wait_idle().await;
    });
    let figures = stop(server);
    assert_eq!((figures.get("", "files "), figures.get("", "unfinished ")), (20, 1));
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let folder = Folder::new();
    let most = ["--connections", "2"];
    let server = serve_with(&folder, "127.0.0.1:0", "mmsg", &most);
    let refused = run(async {
        let (endpoint, first) = connect(&folder, server.addr).await;
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
    let reported = (figures.get("connections ", "connections "), figures.get("", "broken "));
    assert_eq!(reported, (3 + refused, refused), "{figures:?}");
}

#[test]
fn forged_first_packets_do_not_lock_a_server_out() {
    let folder = Folder::new();
    let server = serve_with(&folder, "127.0.0.1:0", "mmsg", &["--connections", "20"]);
    run(async {
        let (endpoint, first) = connect(&folder, server.addr).await;
        // Swallows first packets, as the owner of a forged address would.
        let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
        let addr = silent.local_addr().expect("it is bound");
        let mut forged = HashMap::new();
        let mut attempts = Vec::new();
        while forged.len() < 25 {
            attempts.push(endpoint.connect(addr, "localhost").expect("it can be tried"));
            let mut packet = [0; 1500];
            let len = silent.recv(&mut packet).await.expect("a first packet");
            // Told apart by connection ID (RFC 9000, section 17.2), since a packet may be repeated.
            let id = packet[6..6 + usize::from(packet[5])].to_vec();
            forged.insert(id, packet[..len].to_vec());
        }
        for packet in forged.values() {
            silent.send_to(packet, server.addr).await.expect("it is sent");
        }
        // Queued behind the forged packets. Only this client can answer a Retry.
        let again = endpoint.connect(server.addr, "localhost").expect("it can be tried");
        let second = again.await.expect("the server is not full");
        for connection in [first, second] {
            connection.close(0u32.into(), b"done");
        }
    });
    // Forged packets get at most a quarter of the places.
    let connections = stop(server).get("", "connections ");
    assert!((3..=7).contains(&connections), "{connections}");
}

/// A plain quinn server that answers every request with these bytes and ends the stream.
async fn answering(folder: &Folder, answer: Vec<u8>) -> (Endpoint, SocketAddr) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(folder.path("cert.pem"), made.cert.pem()).expect("a new file");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into());
    let any = "127.0.0.1:0".parse().expect("an address");
    let endpoint = Endpoint::server(config.expect("it fits"), any).expect("a loopback socket");
    let addr = endpoint.local_addr().expect("it is bound");
    let theirs = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = theirs.accept().await {
            let connection = incoming.await.expect("the client connects");
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                assert_eq!(recv.read_to_end(100).await.expect("a request"), b"file");
                // Fails if the client has rejected the answer before its end.
                let _ = send.write_all(&answer).await;
                let _ = send.finish();
            }
        }
    });
    (endpoint, addr)
}

/// Runs `quic get` against the plain quinn server and returns how it ended.
async fn get(
    folder: Arc<Folder>,
    addr: SocketAddr,
    args: &'static [&str],
) -> crate::running::Ended {
    let get = move || {
        let copy = folder.arg("copy");
        let args: Vec<_> = ["-o", &copy].into_iter().chain(args.iter().copied()).collect();
        client(&folder, addr, "get", "file", &args)
    };
    tokio::task::spawn_blocking(get).await.expect("it does not panic")
}

#[test]
fn quinns_server_is_understood_and_its_word_is_checked() {
    run(async {
        let data = content(2 << 20);
        let len = data.len() as u64;
        for (announced, whole) in [(len, true), (len - 1, false), (len + 1, false), (0, false)] {
            let folder = Arc::new(Folder::new());
            let answer = [&[0][..], &announced.to_be_bytes(), &data].concat();
            let (endpoint, addr) = answering(&folder, answer).await;
            for args in [&["--socket", "mmsg"], &["--socket", "mmsg", "--rebind"][..]] {
                let ended = get(Arc::clone(&folder), addr, args).await;
                assert_eq!(ended.status, Some(i32::from(!whole)), "{announced}: {ended:?}");
                if whole {
                    assert!(crate::kit::same(&folder.path("copy"), &data), "the same");
                } else {
                    assert!(ended.err[0].contains("were announced"), "{ended:?}");
                    assert!(folder.others().is_empty(), "nothing is left");
                }
            }
            endpoint.close(0u32.into(), b"done");
        }
    });
}

#[test]
fn a_malformed_answer_is_rejected() {
    run(async {
        for answer in [&b""[..], &[0], &[0, 1, 2], &[2], b"\x01because"] {
            let folder = Arc::new(Folder::new());
            let (endpoint, addr) = answering(&folder, answer.to_vec()).await;
            let ended = get(Arc::clone(&folder), addr, &[]).await;
            assert_eq!((ended.status, ended.out.len()), (Some(1), 0), "{answer:?}: {ended:?}");
            assert!(folder.others().is_empty(), "nothing is left");
            endpoint.close(0u32.into(), b"done");
        }
    });
}

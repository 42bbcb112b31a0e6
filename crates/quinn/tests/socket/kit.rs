//! Endpoints on this crate's sockets that trust each other, and transfers between them.

use std::future::{Future, poll_fn};
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use mmsg::Offload;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};

use crate::own::{self, Sender, Shared};

/// The longest wait: a test that hangs fails. No test measures it.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs a test on a runtime of one thread.
pub fn run<R>(test: impl Future<Output = R>) -> R {
    run_on(tokio::runtime::Builder::new_current_thread(), test)
}

/// Runs a test on a runtime of two threads.
pub fn run_threaded<R>(test: impl Future<Output = R>) -> R {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2);
    run_on(builder, test)
}

fn run_on<R>(mut builder: tokio::runtime::Builder, test: impl Future<Output = R>) -> R {
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("it ends") })
}

/// With space for what fifty connections have in flight. FreeBSD's default is 27 datagrams of a path: the others of a turn
/// would be lost, and a slow machine repeats them until a connection ends.
pub fn bind() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    mmsg::options::set_recv_buffer(&socket, 4 << 20).expect("a size that the system takes");
    socket
}

/// A socket for endpoints with all offloads.
pub fn socket() -> Shared {
    own::wrap(bind(), Offload::builder()).expect("a socket for endpoints")
}

pub fn transmit(destination: SocketAddr, contents: &[u8]) -> Transmit<'_> {
    Transmit { destination, ecn: None, contents, segment_size: None, src_ip: None }
}

/// Sends, and waits while the socket is full.
pub async fn send(socket: &Shared, transmit: &Transmit<'_>) {
    let mut sender = Sender::new(socket);
    poll_fn(|cx| sender.poll_send(cx, transmit)).await;
}

/// Sends, and returns whether the socket had space.
pub fn try_send(socket: &Shared, transmit: &Transmit<'_>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    Sender::new(socket).poll_send(&mut cx, transmit).is_ready()
}

/// Receives messages into buffers of `len` bytes, and returns each with its bytes.
pub async fn recv(socket: &Shared, len: usize) -> Vec<(RecvMeta, Vec<u8>)> {
    let (mut memory, mut metas) = (vec![0; 4 * len], [RecvMeta::default(); 4]);
    let mut bufs: Vec<_> = memory.chunks_mut(len).map(IoSliceMut::new).collect();
    let count = poll_fn(|cx| own::poll_recv(socket, cx, &mut bufs, &mut metas)).await;
    let received = metas[..count.expect("an open socket")].iter().zip(&bufs);
    received.map(|(meta, buf)| (*meta, buf[..meta.len].to_vec())).collect()
}

/// A server and a client, and the socket of each.
pub struct Pair {
    pub server: Endpoint,
    pub client: Endpoint,
    pub server_socket: Shared,
    pub client_socket: Shared,
    pub trust: ClientConfig,
}

impl Pair {
    pub fn new() -> Self {
        Self::with_transport(TransportConfig::default())
    }

    pub fn with_transport(transport: TransportConfig) -> Self {
        Self::on(socket(), socket(), transport)
    }

    pub fn on(server_socket: Shared, client_socket: Shared, transport: TransportConfig) -> Self {
        let transport = Arc::new(transport);
        let made = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certificate = made.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("a certificate");
        let mut config =
            ServerConfig::with_single_cert(vec![certificate], key.into()).expect("a key");
        config.transport_config(Arc::clone(&transport));
        let mut trust = ClientConfig::with_root_certificates(Arc::new(roots)).expect("TLS 1.3");
        trust.transport_config(transport);

        let server = own::endpoint(Some(config), &server_socket).expect("a server");
        let client = own::endpoint(None, &client_socket).expect("a client");
        let client = own::trusting(client, &trust);
        Self { server, client, server_socket, client_socket, trust }
    }

    pub fn addr(&self) -> SocketAddr {
        self.server.local_addr().expect("a bound socket")
    }

    /// Connects, and returns both ends.
    pub async fn connect(&self) -> (Connection, Connection) {
        self.connect_to(self.addr()).await
    }

    /// Connects through another address.
    pub async fn connect_to(&self, addr: SocketAddr) -> (Connection, Connection) {
        let connecting = self.client.connect(addr, "localhost").expect("a valid address");
        let accepted = async { self.server.accept().await.expect("a client").await };
        let (client, server) = tokio::join!(connecting, accepted);
        (client.expect("a connection"), server.expect("a connection"))
    }
}

/// Pseudo-random bytes, so that misplaced data shows.
pub fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let mut data = Vec::with_capacity(len + 4);
    while data.len() < len {
        data.extend_from_slice(&numbers.next().to_be_bytes());
    }
    data.truncate(len);
    data
}

/// Reproducible pseudo-random numbers, by Knuth's MMIX generator.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32 // The upper half is the good one.
    }
}

/// Sends bytes on a new stream, and checks that the other end receives the same.
pub async fn transfer(from: &Connection, to: &Connection, len: usize, seed: u64) {
    let data = content(len, seed);
    let send = async {
        let mut stream = from.open_uni().await.expect("a stream");
        stream.write_all(&data).await.expect("the bytes leave");
        stream.finish().expect("the stream is open");
        assert_eq!(stream.stopped().await, Ok(None), "all of it is acknowledged");
    };
    let receive = async {
        let mut stream = to.accept_uni().await.expect("a stream");
        stream.read_to_end(len).await.expect("the bytes come")
    };
    let ((), received) = tokio::join!(send, receive);
    assert!(received == data, "the {len} bytes are the same");
}

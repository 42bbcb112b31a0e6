//! What differs between the tests for quinn and those for noq, which share the other files.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mmsg::offload::OffloadBuilder;
use mmsg_quinn::{Socket, TokioRuntime};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, UdpPoller,
};

/// Whether an endpoint closes its socket when another replaces it.
pub const CLOSES_REPLACED: bool = true;

/// A socket that stays readable from outside while an endpoint has it.
pub type Shared = Arc<Socket>;

pub fn wrap(socket: UdpSocket, offload: OffloadBuilder) -> io::Result<Shared> {
    Socket::new(socket, offload).map(Arc::new)
}

pub fn endpoint(config: Option<ServerConfig>, socket: &Shared) -> io::Result<Endpoint> {
    let (socket, runtime) = (Arc::clone(socket), Arc::new(TokioRuntime::default()));
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), config, socket, runtime)
}

pub fn trusting(mut client: Endpoint, trust: &ClientConfig) -> Endpoint {
    client.set_default_client_config(trust.clone());
    client
}

pub fn rebind(endpoint: &Endpoint, socket: &Shared) {
    let socket = Arc::clone(socket);
    endpoint.rebind_abstract(socket).expect("another socket");
}

pub fn poll_recv(
    socket: &Shared,
    cx: &mut Context<'_>,
    bufs: &mut [IoSliceMut<'_>],
    metas: &mut [RecvMeta],
) -> Poll<io::Result<usize>> {
    socket.poll_recv(cx, bufs, metas)
}

/// Sends as a connection does.
pub struct Sender {
    socket: Shared,
    poller: Pin<Box<dyn UdpPoller>>,
}

impl Sender {
    pub fn new(socket: &Shared) -> Self {
        Self { socket: Arc::clone(socket), poller: Arc::clone(socket).create_io_poller() }
    }

    pub fn poll_send(&mut self, cx: &mut Context<'_>, transmit: &Transmit<'_>) -> Poll<()> {
        loop {
            ready!(self.poller.as_mut().poll_writable(cx)).expect("an open socket");
            match self.socket.try_send(transmit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    result.expect("no other error");
                    return Poll::Ready(());
                }
            }
        }
    }
}

/// How many packets of a connection were lost.
pub fn lost_packets(connection: &Connection) -> u64 {
    connection.stats().path.lost_packets
}

pub fn mtu(connection: &Connection) -> u16 {
    connection.stats().path.current_mtu
}

pub fn remote(connection: &Connection) -> SocketAddr {
    connection.remote_address()
}

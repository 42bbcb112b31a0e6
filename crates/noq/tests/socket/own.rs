//! What differs between the tests for noq and those for quinn, which share the other files.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mmsg::offload::OffloadBuilder;
use mmsg_noq::{Socket, TokioRuntime};
use noq::udp::{RecvMeta, Transmit};
use noq::{
    AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, PathId, PathStats,
    ServerConfig, UdpSender,
};

/// Whether an endpoint closes its socket when another replaces it: noq 1.4 keeps a sender of its first socket.
pub const CLOSES_REPLACED: bool = false;

/// A socket that stays readable from outside while an endpoint has it.
pub type Shared = Socket;

pub fn wrap(socket: UdpSocket, offload: OffloadBuilder) -> io::Result<Shared> {
    Socket::new(socket, offload)
}

pub fn endpoint(config: Option<ServerConfig>, socket: &Shared) -> io::Result<Endpoint> {
    let (socket, runtime) = (Box::new(socket.clone()), Arc::new(TokioRuntime::default()));
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), config, socket, runtime)
}

pub fn trusting(client: Endpoint, trust: &ClientConfig) -> Endpoint {
    client.set_default_client_config(trust.clone());
    client
}

pub fn rebind(endpoint: &Endpoint, socket: &Shared) {
    endpoint.rebind_abstract(Box::new(socket.clone())).expect("another socket");
}

pub fn poll_recv(
    socket: &Shared,
    cx: &mut Context<'_>,
    bufs: &mut [IoSliceMut<'_>],
    metas: &mut [RecvMeta],
) -> Poll<io::Result<usize>> {
    socket.clone().poll_recv(cx, bufs, metas)
}

/// Sends as a connection does.
pub struct Sender(Pin<Box<dyn UdpSender>>);

impl Sender {
    pub fn new(socket: &Shared) -> Self {
        Self(socket.create_sender())
    }

    pub fn poll_send(&mut self, cx: &mut Context<'_>, transmit: &Transmit<'_>) -> Poll<()> {
        self.0.as_mut().poll_send(transmit, cx).map(|result| result.expect("no error"))
    }
}

fn path(connection: &Connection) -> PathStats {
    connection.path_stats(PathId::ZERO).expect("an open path")
}

/// How many packets of a connection were lost.
pub fn lost_packets(connection: &Connection) -> u64 {
    path(connection).lost_packets
}

pub fn mtu(connection: &Connection) -> u16 {
    path(connection).current_mtu
}

pub fn remote(connection: &Connection) -> SocketAddr {
    let path = connection.path(PathId::ZERO).expect("an open path");
    path.remote_address().expect("an open path")
}

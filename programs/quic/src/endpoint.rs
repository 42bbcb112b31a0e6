//! Quinn's endpoints on the sockets that were chosen.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use mmsg::quinn::Socket;
use mmsg::{Offload, options};
use quinn::{
    AsyncTimer, AsyncUdpSocket, Endpoint, EndpointConfig, Runtime, TokioRuntime, TransportConfig,
};

use crate::certificate;
use crate::cli::{Common, SocketKind};
use crate::counted::{Counted, Counters};
use crate::{Failure, say};

/// Space in a socket for bursts; the system gives what it allows.
const BUFFER_BYTES: usize = 4 << 20;

/// Requests that a client may have at once on a connection. What a connection takes at most is as
/// many chunks of files (`files::CHUNK`), and 10 MB that quinn keeps until they have arrived; how many
/// connections there may be is an option.
const STREAMS: u8 = 8;

/// Tokio, with the sockets that were chosen.
#[derive(Debug)]
struct WithSockets {
    kind: SocketKind,
    counters: Arc<Counters>,
}

impl Runtime for WithSockets {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        options::set_recv_buffer(&socket, BUFFER_BYTES)?;
        options::set_send_buffer(&socket, BUFFER_BYTES)?;
        let socket: Arc<dyn AsyncUdpSocket> = match self.kind {
            SocketKind::Mmsg => {
                let socket = Arc::new(Socket::new(socket, Offload::builder())?);
                self.counters.include(&socket);
                socket
            }
            SocketKind::Quinn => TokioRuntime.wrap_udp_socket(socket)?,
        };
        Ok(Arc::new(Counted::new(socket, Arc::clone(&self.counters))))
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// An endpoint, and what its sockets have moved.
pub struct Counting {
    pub endpoint: Endpoint,
    counters: Arc<Counters>,
    stats: bool,
}

impl Counting {
    /// An endpoint that listens, with a certificate of its own.
    pub fn server(addr: SocketAddr, common: &Common) -> Result<Self, Failure> {
        let socket = UdpSocket::bind(addr).map_err(|error| format!("{addr}: {error}"))?;
        let mut config = certificate::make(&common.cert)?;
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(STREAMS.into())
            .max_concurrent_uni_streams(0u8.into());
        config.transport_config(Arc::new(transport));
        Self::new(socket, Some(config), common)
    }

    /// An endpoint that connects to servers of the family of `addr`.
    pub fn client(addr: SocketAddr, common: &Common) -> Result<Self, Failure> {
        let config = certificate::trust(&common.cert)?;
        let mut client = Self::new(any_port(addr)?, None, common)?;
        client.endpoint.set_default_client_config(config);
        Ok(client)
    }

    fn new(
        socket: UdpSocket,
        server: Option<quinn::ServerConfig>,
        common: &Common,
    ) -> Result<Self, Failure> {
        let counters = Arc::new(Counters::default());
        let runtime = WithSockets { kind: common.socket, counters: Arc::clone(&counters) };
        let config = EndpointConfig::default();
        let endpoint = Endpoint::new(config, server, socket, Arc::new(runtime))?;
        Ok(Self { endpoint, counters, stats: common.stats })
    }

    /// Prints what was moved, if that was asked for.
    pub fn tell(&self) {
        if self.stats {
            say(&*self.counters);
        }
    }
}

/// A socket from which `addr` can be reached.
pub fn any_port(addr: SocketAddr) -> io::Result<UdpSocket> {
    match addr {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }
}

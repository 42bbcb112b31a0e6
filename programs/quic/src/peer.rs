//! quinn's endpoints on the selected sockets.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use mmsg::{Offload, options};
use mmsg_quinn::Socket;
use quinn::rustls::RootCertStore;
use quinn::{
    AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, Runtime, ServerConfig,
    TokioRuntime, TransportConfig,
};

use crate::identity::{NAME, identity};
use crate::{Failure, SocketKind, cpu, say};

/// Buffer space to ask for, to hold bursts; the system may grant less.
const BUFFER_BYTES: usize = 4 << 20;
/// Maximum of concurrent requests on a connection.
const STREAMS: u8 = 8;

/// Ends the work with the system's error if nobody listens at `addr`: quinn's socket has no one peer, so it hears of no
/// refusal, and the handshake would be repeated for 30 seconds.
pub async fn unless_refused(
    addr: SocketAddr,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let refusal = async {
        let probe = tokio::net::UdpSocket::bind(any(addr)).await?;
        probe.connect(addr).await?;
        probe.send(&[0]).await?;
        probe.recv(&mut [0]).await
    };
    tokio::select! {
        result = work => result,
        Err(error) = refusal => Err(format!("{addr}: {error}").into()),
    }
}

/// The unspecified address of the same family.
fn any(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// An endpoint, and its socket if that is this crate's.
pub struct Peer {
    pub endpoint: Endpoint,
    socket: Option<Arc<Socket>>,
}

impl Peer {
    /// An endpoint that listens.
    pub fn server(addr: SocketAddr, kind: SocketKind) -> Result<Self, Failure> {
        let (certificate, key) = identity()?;
        let mut config = ServerConfig::with_single_cert(vec![certificate], key.into())?;
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(STREAMS.into())
            .max_concurrent_uni_streams(0u8.into());
        config.transport_config(Arc::new(transport));
        Self::new(addr, Some(config), kind)
    }

    /// An endpoint for connections to servers of the address family of `addr`.
    pub fn client(addr: SocketAddr, kind: SocketKind) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(identity()?.0)?;
        let mut client = Self::new(any(addr), None, kind)?;
        let config = ClientConfig::with_root_certificates(Arc::new(roots))?;
        client.endpoint.set_default_client_config(config);
        Ok(client)
    }

    fn new(
        addr: SocketAddr,
        server: Option<ServerConfig>,
        kind: SocketKind,
    ) -> Result<Self, Failure> {
        let socket = UdpSocket::bind(addr).map_err(|error| format!("{addr}: {error}"))?;
        options::set_recv_buffer(&socket, BUFFER_BYTES)?;
        options::set_send_buffer(&socket, BUFFER_BYTES)?;
        let (abstracted, socket): (Arc<dyn AsyncUdpSocket>, _) = match kind {
            SocketKind::Mmsg => {
                let socket = Arc::new(Socket::new(socket, Offload::builder())?);
                (socket.clone(), Some(socket))
            }
            SocketKind::Quinn => (TokioRuntime.wrap_udp_socket(socket)?, None),
        };
        let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
        let endpoint = Endpoint::new_with_abstract_socket(config, server, abstracted, runtime)?;
        Ok(Self { endpoint, socket })
    }

    pub async fn connect(&self, addr: SocketAddr) -> Result<Connection, Failure> {
        let connected = self.endpoint.connect(addr, NAME)?.await;
        Ok(connected.map_err(|error| format!("{addr}: {error}"))?)
    }

    /// Prints the figures, the CPU time and the socket's own counters.
    pub fn say(&self, figures: &str) {
        say(format_args!("{figures}; CPU {:.6} s", cpu()));
        let Some(socket) = &self.socket else { return };
        let counted = socket.offload().state().counters();
        say(format_args!(
            "to the kernel: datagrams {}, of these in GSO batches {}, GSO batches {}, rejected {}, system calls \
             {}, failed {}",
            counted.sent,
            counted.sent_segments,
            counted.sent_batches,
            counted.rejected_unsupported + counted.rejected_size,
            counted.send_calls,
            socket.failed()
        ));
    }
}

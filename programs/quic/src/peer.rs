//! quinn's endpoints on the selected sockets. The server makes a certificate when it starts and writes it to a file;
//! the client reads the file and trusts only that certificate.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use mmsg::{Offload, options};
use mmsg_quinn::Socket;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime,
    TransportConfig,
};

use crate::counted::{Counted, Counters};
use crate::{Common, Failure, SocketKind, say};

/// The name in the certificate. The client expects it whatever address it connects to.
const NAME: &str = "localhost";
/// Buffer space to ask for, to hold bursts; the system may grant less.
const BUFFER_BYTES: usize = 4 << 20;
/// Maximum of concurrent requests on a connection. Each needs a chunk of a file (`serve::CHUNK`), and a connection needs 10
/// MB for data that quinn keeps until it is acknowledged. An option limits the connections.
const STREAMS: u8 = 8;

/// An endpoint and the counters of its sockets.
pub struct Peer {
    pub endpoint: Endpoint,
    counters: Arc<Counters>,
    common: Common,
}

impl Peer {
    /// An endpoint that listens, with a new certificate whose key stays in memory.
    pub fn server(addr: SocketAddr, common: Common) -> Result<Self, Failure> {
        let socket = UdpSocket::bind(addr).map_err(|error| format!("{addr}: {error}"))?;
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
        let cannot = |error| format!("cannot write the certificate to {:?}: {error}", common.cert);
        fs::write(&common.cert, made.cert.pem()).map_err(cannot)?;
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(STREAMS.into())
            .max_concurrent_uni_streams(0u8.into());
        config.transport_config(Arc::new(transport));
        // A client retries for this long, and repeats a lost first packet with the same token.
        config.retry_token_lifetime(Duration::from_secs(30));
        Self::new(socket, Some(config), common)
    }

    /// An endpoint for connections to servers of the address family of `addr`.
    pub fn client(addr: SocketAddr, common: Common) -> Result<Self, Failure> {
        let certificate = CertificateDer::from_pem_file(&common.cert)
            .map_err(|error| format!("no certificate in {:?}: {error}", common.cert))?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let mut client = Self::new(any_port(addr)?, None, common)?;
        let config = ClientConfig::with_root_certificates(Arc::new(roots))?;
        client.endpoint.set_default_client_config(config);
        Ok(client)
    }

    fn new(
        socket: UdpSocket,
        server: Option<ServerConfig>,
        common: Common,
    ) -> Result<Self, Failure> {
        let counters = Arc::new(Counters::default());
        let socket = counted(socket, common.socket, &counters)?;
        let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
        let endpoint = Endpoint::new_with_abstract_socket(config, server, socket, runtime)?;
        Ok(Self { endpoint, counters, common })
    }

    pub async fn connect(&self, addr: SocketAddr) -> Result<Connection, Failure> {
        Ok(self.endpoint.connect(addr, NAME)?.await?)
    }

    /// Moves the endpoint to another port.
    pub fn rebind(&self) -> Result<(), Failure> {
        let socket = any_port(self.endpoint.local_addr()?)?;
        let socket = counted(socket, self.common.socket, &self.counters)?;
        Ok(self.endpoint.rebind_abstract(socket)?)
    }

    /// Prints the counters if `--stats` was given.
    pub fn say_stats(&self) {
        if self.common.stats {
            say(&*self.counters);
        }
    }
}

/// A socket for quinn, of either kind.
fn counted(
    socket: UdpSocket,
    kind: SocketKind,
    counters: &Arc<Counters>,
) -> io::Result<Arc<Counted>> {
    options::set_recv_buffer(&socket, BUFFER_BYTES)?;
    options::set_send_buffer(&socket, BUFFER_BYTES)?;
    Ok(Arc::new(match kind {
        SocketKind::Mmsg => {
            let socket = Arc::new(Socket::new(socket, Offload::builder())?);
            counters.include(&socket);
            Counted::new(socket, counters)
        }
        SocketKind::Quinn => Counted::new(TokioRuntime.wrap_udp_socket(socket)?, counters),
    }))
}

/// A socket that can reach `addr`.
fn any_port(addr: SocketAddr) -> io::Result<UdpSocket> {
    match addr {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }
}

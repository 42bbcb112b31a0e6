//! quinn-udp 0.5's API on this crate: a socket layer for QUIC.
//!
//! ```text
//! cargo run --release --example quinn_udp
//! ```
//!
//! Each send sets its ECN bits and source address and uses GSO; receives use GRO. A probe that is too large for the
//! path is no error. Prints that a probe of 70,000 bytes is too large, and that 53 datagrams arrived with ECN bits.
//! `programs/quic/suites.sh` runs the tests of quinn-udp and quinn with this file in place of quinn-udp.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use mmsg::offload::OffloadState;
use mmsg::options::{Fragmentation, set_recv_buffer, set_send_buffer};
use mmsg::{Ancillary, Ecn, Message, SendMeta, SendMsg, errors, prelude::*};
use socket2::SockRef;

/// How many messages to receive at a time.
pub const BATCH_SIZE: usize = 32;

/// What one buffer holds: datagrams of `stride` bytes, of which the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct RecvMeta {
    pub addr: SocketAddr,
    pub len: usize,
    pub stride: usize,
    pub ecn: Option<EcnCodepoint>,
    pub dst_ip: Option<IpAddr>,
}

impl Default for RecvMeta {
    fn default() -> Self {
        let addr = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        Self { addr, len: 0, stride: 0, ecn: None, dst_ip: None }
    }
}

/// A message to send: one datagram, or several of `segment_size` bytes.
#[derive(Clone, Debug)]
pub struct Transmit<'a> {
    pub destination: SocketAddr,
    pub ecn: Option<EcnCodepoint>,
    pub contents: &'a [u8],
    pub segment_size: Option<usize>,
    pub src_ip: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EcnCodepoint {
    Ect0 = 0b10,
    Ect1 = 0b01,
    Ce = 0b11,
}

impl EcnCodepoint {
    pub fn from_bits(bits: u8) -> Option<Self> {
        match Ecn::from_tos(bits) {
            Ecn::Ect0 => Some(Self::Ect0),
            Ecn::Ect1 => Some(Self::Ect1),
            Ecn::Ce => Some(Self::Ce),
            _ => None,
        }
    }
}

/// A socket, borrowed for one call.
pub struct UdpSockRef<'a>(SockRef<'a>);

impl<'a, S> From<&'a S> for UdpSockRef<'a>
where
    SockRef<'a>: From<&'a S>,
{
    fn from(socket: &'a S) -> Self {
        Self(socket.into())
    }
}

/// What is remembered about a socket between calls.
#[derive(Debug)]
pub struct UdpSocketState {
    offload: OffloadState,
    may_fragment: bool,
}

impl UdpSocketState {
    pub fn new(socket: UdpSockRef<'_>) -> io::Result<Self> {
        socket.0.set_nonblocking(true)?;
        let _ = (Ancillary::DEST | Ancillary::TOS).enable(&*socket.0)?;
        // QUIC forbids fragmentation (RFC 9000, section 14) but works where it cannot be turned off.
        let may_fragment = Fragmentation::Probe.set(&*socket.0).is_err();
        Ok(Self { offload: OffloadState::new(&*socket.0)?, may_fragment })
    }

    /// Sends and ignores all errors but `WouldBlock`: QUIC treats such datagrams as lost, and repeats them or chooses
    /// another size.
    pub fn send(&self, socket: UdpSockRef<'_>, transmit: &Transmit<'_>) -> io::Result<()> {
        match self.try_send(socket, transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    pub fn try_send(&self, socket: UdpSockRef<'_>, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut meta = SendMeta::new();
        meta.tos = transmit.ecn.map(|ecn| ecn as u8);
        meta.source = transmit.src_ip;
        meta.segment_size = transmit.segment_size.and_then(|size| size.try_into().ok());
        let msg = SendMsg::to(transmit.destination, transmit.contents).with_meta(&meta);
        self.offload.on(&*socket.0).send_batch(&[msg]).map(|_| ())
    }

    /// Receives into the buffers in order, and describes what each one holds.
    pub fn recv(
        &self,
        socket: UdpSockRef<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let count = buffers.len().min(metas.len()).min(BATCH_SIZE);
        let mut each = |i: usize, message: Message<'_>| metas[i] = received(message);
        self.offload.on(&*socket.0).recv_slices(&mut buffers[..count], &mut each)
    }

    pub fn max_gso_segments(&self) -> usize {
        self.offload.max_segments()
    }

    pub fn gro_segments(&self) -> usize {
        if self.offload.gro() { 64 } else { 1 }
    }

    pub fn may_fragment(&self) -> bool {
        self.may_fragment
    }

    pub fn set_send_buffer_size(&self, socket: UdpSockRef<'_>, bytes: usize) -> io::Result<()> {
        set_send_buffer(&*socket.0, bytes).map(|_| ())
    }

    pub fn set_recv_buffer_size(&self, socket: UdpSockRef<'_>, bytes: usize) -> io::Result<()> {
        set_recv_buffer(&*socket.0, bytes).map(|_| ())
    }

    pub fn send_buffer_size(&self, socket: UdpSockRef<'_>) -> io::Result<usize> {
        socket.0.send_buffer_size()
    }

    pub fn recv_buffer_size(&self, socket: UdpSockRef<'_>) -> io::Result<usize> {
        socket.0.recv_buffer_size()
    }
}

/// A message's metadata. QUIC has no use for truncated messages.
fn received(message: Message<'_>) -> RecvMeta {
    let Some(addr) = message.addr().filter(|_| !message.truncated()) else {
        return RecvMeta::default();
    };
    let (len, meta) = (message.len(), message.meta());
    RecvMeta {
        addr,
        len,
        stride: meta.segment_size.map_or(len, usize::from),
        ecn: meta.tos.and_then(EcnCodepoint::from_bits),
        dst_ip: meta.destination,
    }
}

/// A client sends probes and 50 datagrams; the server counts those with ECN bits.
fn main() -> io::Result<()> {
    let server = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let server_state = UdpSocketState::new((&server).into())?;
    let client_state = UdpSocketState::new((&client).into())?;
    server.set_nonblocking(false)?;

    let payload = [7; 70_000];
    let transmit = |contents, segment_size| Transmit {
        destination: server.local_addr().expect("a bound socket"),
        ecn: Some(EcnCodepoint::Ect0),
        contents,
        segment_size,
        src_ip: None,
    };
    let mut probes = 0;
    for size in [1200, 1452, 9000, 70_000] {
        match client_state.try_send((&client).into(), &transmit(&payload[..size], None)) {
            Ok(()) => probes += 1,
            Err(error) if errors::is_too_big(&error) => {
                println!("a probe of {size} bytes is too large")
            }
            Err(error) => return Err(error),
        }
    }
    client_state.send((&client).into(), &transmit(&payload[..60_000], Some(1200)))?;

    let mut memory = vec![0; BATCH_SIZE * 65_535];
    let mut buffers: Vec<_> = memory.chunks_mut(65_535).map(IoSliceMut::new).collect();
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    let (mut datagrams, mut marked) = (0, 0);
    while datagrams < probes + 50 {
        let count = server_state.recv((&server).into(), &mut buffers, &mut metas)?;
        for meta in &metas[..count] {
            let segments = meta.len.div_ceil(meta.stride);
            datagrams += segments;
            marked += if meta.ecn == Some(EcnCodepoint::Ect0) { segments } else { 0 };
        }
    }
    println!("received {probes} probes and 50 datagrams, {marked} of them with ECN bits");
    Ok(())
}

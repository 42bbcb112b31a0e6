//! gotatun's UDP on `mmsg`: sends with GSO, receives with GRO.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gotatun::packet::{Packet, PacketBufPool};
use gotatun::udp::{UdpRecv, UdpSend, UdpTransportFactory, UdpTransportFactoryParams};
use mmsg::offload::Counters;
use mmsg::{Offload, RecvBatch, SendMsg, prelude::*};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

/// Packets that gotatun collects for one call.
const SENT_AT_ONCE: usize = 256;
/// Coalesced messages received by one call.
const SLOTS: usize = 16;

/// Bytes of the receive buffer: what arrives in 10 ms at 3 Gbit/s while the node is busy.
pub const RECV_BUFFER: usize = 4 << 20;

/// Makes gotatun's socket, and keeps a handle to it for the counters.
#[derive(Clone, Default)]
pub struct Batched(Arc<OnceLock<Transport>>);

/// The socket on which gotatun sends and receives.
#[derive(Clone)]
pub struct Transport(Arc<Shared>);

struct Shared {
    socket: Offload<UdpSocket>,
    send_errors: AtomicU64,
    recv_errors: AtomicU64,
}

impl UdpTransportFactory for Batched {
    type Send = Transport;
    type Recv = Transport;

    async fn bind(
        &mut self,
        params: &UdpTransportFactoryParams,
    ) -> io::Result<(Transport, Transport)> {
        let unspecified = Ipv6Addr::UNSPECIFIED.into();
        let socket = match bind(params, params.addr.unwrap_or(unspecified)) {
            // A kernel without IPv6.
            Err(error) if params.addr.is_none() && error.kind() != io::ErrorKind::AddrInUse => {
                bind(params, Ipv4Addr::UNSPECIFIED.into())
            }
            result => result,
        }?;
        let [send_errors, recv_errors] = Default::default();
        let transport = Transport(Arc::new(Shared { socket, send_errors, recv_errors }));
        // gotatun binds again after a change of its configuration, which this program never makes.
        let transport = self.0.get_or_init(|| transport).clone();
        Ok((transport.clone(), transport))
    }
}

fn bind(params: &UdpTransportFactoryParams, ip: IpAddr) -> io::Result<Offload<UdpSocket>> {
    let addr = SocketAddr::new(ip, params.port);
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(params.addr.is_some())?;
    }
    if let Some(mark) = params.fwmark {
        socket.set_mark(mark)?;
    }
    // The system may allow less, which is enough for most links.
    let _ = mmsg::options::set_recv_buffer(&socket, RECV_BUFFER)?;
    socket.bind(&addr.into())?;
    Offload::new(UdpSocket::from_std(socket.into())?)
}

impl UdpSend for Transport {
    type SendManyBuf = ();

    async fn send_to(&self, packet: Packet, destination: SocketAddr) -> io::Result<()> {
        self.send_many_to(&mut (), &mut vec![(packet, destination)]).await
    }

    fn max_number_of_packets_to_send(&self) -> usize {
        SENT_AT_ONCE
    }

    /// Drops only the packets that fail: after an error gotatun would drop the others, too.
    async fn send_many_to(
        &self,
        _: &mut (),
        packets: &mut Vec<(Packet, SocketAddr)>,
    ) -> io::Result<()> {
        let msgs = packets.iter().map(|(packet, dest)| SendMsg::to(*dest, packet));
        let failed = |_, _| _ = self.0.send_errors.fetch_add(1, Relaxed);
        self.0.socket.send_each(msgs, failed).await?;
        packets.clear();
        Ok(())
    }

    fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.0.socket.get_ref().local_addr().map(Some)
    }
}

/// The batch that gotatun passes to each receive.
pub struct Received(RecvBatch);

impl Default for Received {
    fn default() -> Self {
        Self(RecvBatch::for_gro(SLOTS))
    }
}

impl UdpRecv for Transport {
    type RecvManyBuf = Received;

    /// gotatun's device never calls this. One datagram at a time would lose the others of a coalesced message.
    async fn recv_from(&mut self, _: &mut PacketBufPool) -> io::Result<(Packet, SocketAddr)> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "receive by recv_many_from"))
    }

    /// Returns no error: gotatun would stop receiving.
    async fn recv_many_from(
        &mut self,
        Received(batch): &mut Received,
        pool: &mut PacketBufPool,
        packets: &mut Vec<(Packet, SocketAddr)>,
    ) -> io::Result<()> {
        while self.0.socket.recv_into(batch).await.is_err() {
            self.0.recv_errors.fetch_add(1, Relaxed);
            // A lasting error must not cause a busy loop.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for datagram in batch.iter() {
            let Some(mut source) = datagram.addr() else { continue };
            // gotatun compares sources with endpoints, where IPv4 addresses are not mapped to IPv6.
            source.set_ip(source.ip().to_canonical());
            let mut packet = pool.get();
            packet.buf_mut().clear();
            packet.buf_mut().extend_from_slice(datagram.data());
            packets.push((packet, source));
        }
        Ok(())
    }
}

impl fmt::Display for Batched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Transport(shared)) = self.0.get() else { return Ok(()) };
        let Counters { sent, send_calls, sent_batches, received, .. } = shared.socket.counters();
        let [failed, errors] = [&shared.send_errors, &shared.recv_errors].map(|n| n.load(Relaxed));
        let calls = format_args!("calls {send_calls}, GSO batches {sent_batches}");
        writeln!(f, "udp sent: datagrams {sent}, failed {failed}, {calls}")?;
        writeln!(f, "udp received: datagrams {received}, errors {errors}")
    }
}

//! gotatun's UDP on `mmsg`: sends with GSO, receives with GRO.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
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
/// Bytes of a buffer from gotatun's pool, which keeps 4,000.
pub const POOLED: usize = 4096;
/// Bytes of longer messages that may wait in gotatun. Its queue takes 4,000 packets, which could be 250 MiB.
const LONG_BYTES: usize = 6 << 20;

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
    /// Datagrams received that were not passed on: too many long ones, or without a source.
    dropped: AtomicU64,
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
        let [send_errors, recv_errors, dropped] = Default::default();
        let shared = Shared { socket, send_errors, recv_errors, dropped };
        let transport = Transport(Arc::new(shared));
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
        let Shared { socket, send_errors, .. } = &*self.0;
        let msgs = packets.iter().map(|(packet, dest)| SendMsg::to(*dest, packet));
        socket.send_each(msgs, |_, _| _ = send_errors.fetch_add(1, Relaxed)).await?;
        packets.clear();
        Ok(())
    }

    fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.0.socket.get_ref().local_addr().map(Some)
    }
}

/// What gotatun passes to each receive.
pub struct Received {
    batch: RecvBatch,
    /// For each long message in gotatun, oldest first, a handle to its memory, and its length.
    long: VecDeque<(BytesMut, usize)>,
    long_bytes: usize,
}

impl Default for Received {
    fn default() -> Self {
        Self { batch: RecvBatch::for_gro(SLOTS), long: VecDeque::new(), long_bytes: 0 }
    }
}

/// A copy of a long message, which its datagrams share, unless too many bytes of these wait.
fn long(held: &mut VecDeque<(BytesMut, usize)>, sum: &mut usize, data: &[u8]) -> Option<BytesMut> {
    // The memory can be reclaimed once gotatun has dropped all packets.
    while let Some((handle, len)) = held.front_mut()
        && handle.try_reclaim(*len)
    {
        *sum -= *len;
        held.pop_front();
    }
    if data.len() <= POOLED || *sum + data.len() > LONG_BYTES {
        return None;
    }
    let mut copy = BytesMut::from(data);
    *sum += data.len();
    held.push_back((copy.split_to(0), data.len()));
    Some(copy)
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
        Received { batch, long: held, long_bytes }: &mut Received,
        pool: &mut PacketBufPool,
        packets: &mut Vec<(Packet, SocketAddr)>,
    ) -> io::Result<()> {
        let Shared { socket, recv_errors, dropped, .. } = &*self.0;
        while socket.recv_into(batch).await.is_err() {
            recv_errors.fetch_add(1, Relaxed);
            // A lasting error must not cause a busy loop.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for message in batch.messages() {
            let Some(mut source) = message.reply_addr().filter(|_| !message.truncated()) else {
                dropped.fetch_add(1, Relaxed);
                continue;
            };
            // gotatun compares sources with endpoints, where IPv4 addresses are not mapped to IPv6.
            source.set_ip(source.ip().to_canonical());
            let mut copy = long(held, long_bytes, message.data());
            for datagram in message.datagrams() {
                let data = datagram.data();
                let packet = match &mut copy {
                    Some(copy) => Packet::from_bytes(copy.split_to(data.len())),
                    None if data.len() <= POOLED => pool.get().overwrite_with(data),
                    None => {
                        dropped.fetch_add(1, Relaxed);
                        continue;
                    }
                };
                packets.push((packet, source));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Batched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Transport(shared)) = self.0.get() else { return Ok(()) };
        let Counters { sent, send_calls, sent_batches, received, .. } =
            shared.socket.state().counters();
        let counts = [&shared.send_errors, &shared.recv_errors, &shared.dropped];
        let [failed, errors, dropped] = counts.map(|count| count.load(Relaxed));
        let calls = format_args!("calls {send_calls}, GSO batches {sent_batches}");
        writeln!(f, "udp sent: datagrams {sent}, failed {failed}, {calls}")?;
        writeln!(f, "udp received: datagrams {received}, dropped {dropped}, errors {errors}")
    }
}

//! quinn-udp as quinn uses it: a send for each transmit, with ECN bits and source address, and receives into
//! borrowed buffers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use super::Peer;
use crate::load::{COALESCED_LEN, Datagram, Load, MAX_BUFFERS, split_buffers};
use crate::wire::Wire;

pub struct Borrowed {
    near: UdpSocketState,
    far: Vec<UdpSocketState>,
    /// Destination, contents, and the segment size of a GSO batch.
    transmits: Vec<(SocketAddr, &'static [u8], Option<u16>)>,
    memory: &'static mut [u8],
}

impl Peer for Borrowed {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        let state = |socket| UdpSocketState::new(UdpSockRef::from(socket));
        let (near, far) = (state(&wire.near)?, wire.far.iter().map(state));
        let far = far.collect::<io::Result<_>>()?;
        // Without timestamps, as in `by_quinn`.
        wire.enable_metadata(load.metadata)?;
        Ok(Self { near, far, transmits: load.transmits(&wire.to), memory: load.buffer_memory() })
    }

    #[inline(always)]
    fn send(&mut self, wire: &Wire) {
        for (to, contents, segment_size) in &self.transmits {
            let transmit = Transmit {
                destination: *to,
                ecn: Some(EcnCodepoint::Ect0),
                contents,
                segment_size: segment_size.map(usize::from),
                src_ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            };
            let socket = UdpSockRef::from(&wire.near);
            self.near.try_send(socket, &transmit).expect("loopback takes it");
        }
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let (mut buffers, len) = split_buffers(self.memory, COALESCED_LEN);
        let mut metas = [RecvMeta::default(); MAX_BUFFERS];
        let socket = UdpSockRef::from(&wire.far[dest]);
        let received = self.far[dest].recv(socket, &mut buffers[..len], &mut metas);
        let received = received.expect("they have arrived");
        for (received, buffer) in metas[..received].iter().zip(&buffers) {
            let ecn = received.ecn.map_or(0, |ecn| ecn as u8);
            let meta = Some((ecn, received.dst_ip.expect("quinn-udp enables it")));
            for data in buffer[..received.len].chunks(received.stride.max(1)) {
                see(Datagram { addr: received.addr, data, meta });
            }
        }
    }
}

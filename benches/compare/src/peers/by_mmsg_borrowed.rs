//! This crate as a QUIC stack uses it, with an `OffloadState` beside the socket: a send for each transmit, with ECN
//! bits and source address, and receives into borrowed buffers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mmsg::offload::OffloadState;
use mmsg::{BatchSocket, Ecn, SendMeta, SendMsg};

use super::Peer;
use super::by_mmsg::{expect_metadata, metadata_of};
use crate::load::{COALESCED_LEN, Datagram, Load, split_buffers};
use crate::wire::Wire;

pub struct Borrowed {
    near: OffloadState,
    far: Vec<OffloadState>,
    /// Destination, contents, and the segment size of a GSO batch.
    transmits: Vec<(SocketAddr, &'static [u8], Option<u16>)>,
    /// The receive buffers back to back, and the length of each.
    memory: &'static mut [u8],
}

impl Peer for Borrowed {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        expect_metadata(wire)?;
        Ok(Self {
            near: OffloadState::new(&wire.near)?,
            far: wire.far.iter().map(OffloadState::new).collect::<io::Result<_>>()?,
            transmits: load.transmits(&wire.to),
            memory: load.buffer_memory(),
        })
    }

    #[inline(always)]
    fn send(&mut self, wire: &Wire) {
        let socket = self.near.on(&wire.near);
        for (to, contents, segment_size) in &self.transmits {
            let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let meta = SendMeta::new().with_source(source);
            let msg = SendMsg::to(*to, contents).with_meta(&meta).with_ecn(Ecn::Ect0);
            let msg = segment_size.map_or(msg, |size| msg.with_segment_size(size));
            assert_eq!(socket.send_batch(&[msg]).expect("loopback takes it"), 1);
        }
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let (mut buffers, len) = split_buffers(self.memory, COALESCED_LEN);
        let socket = self.far[dest].on(&wire.far[dest]);
        let received = socket.recv_slices(&mut buffers[..len], &mut |_, message| {
            let addr = message.addr().expect("an Internet socket's datagrams have a source");
            let meta = Some(metadata_of(message.meta()));
            for datagram in message.datagrams() {
                see(Datagram { addr, data: datagram.data(), meta });
            }
        });
        received.expect("they have arrived");
    }
}

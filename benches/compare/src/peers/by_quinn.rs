//! quinn-udp: a `Transmit` for each datagram or each GSO batch, and `recv` into as many buffers as datagrams wait, at most
//! `BATCH_SIZE`, which is 32.
//!
//! It enables ECN bits, destinations and timestamps. This file disables timestamps, with which quinn-udp 0.6.3 has too
//! little control space for the ECN bits of a coalesced message, and the others where the load has no metadata, so that
//! the kernel does the same work for all ways. It still writes ECN bits of zero into each message. `try_send`
//! hides no error.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::load::{self, COALESCED_LEN, Datagram, Load, SLOT_LEN};
use crate::peers::Peer;
use crate::wire::Wire;

/// One datagram in each transmit.
pub type Single = Quinn<false>;

/// As many datagrams as fit in each transmit: the caller prepares GSO batches.
pub type Segmented = Quinn<true>;

/// Like `Segmented`, but each turn copies separate payloads together: for each transmit, or with `STORED` all of them before
/// the first transmit, as a queue must.
pub struct Copied<const STORED: bool> {
    segmented: Segmented,
    payloads: Vec<(SocketAddr, &'static [u8])>,
    contents: Vec<u8>,
    segments: usize,
}

pub struct Quinn<const GSO: bool> {
    near: UdpSocketState,
    far: Vec<UdpSocketState>,
    transmits: Vec<Transmit<'static>>,
    buffers: Vec<IoSliceMut<'static>>,
    metas: Vec<RecvMeta>,
    metadata: bool,
}

impl<const GSO: bool> Peer for Quinn<GSO> {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        let (segments, slots, slot_len) = match GSO {
            true => (load.segments(), load.coalesced_slots(), COALESCED_LEN),
            false => (1, load.slots, SLOT_LEN),
        };
        let near = UdpSocketState::new(UdpSockRef::from(&wire.near))?;
        let states = wire.far.iter().map(|socket| UdpSocketState::new(UdpSockRef::from(socket)));
        let far = states.collect::<io::Result<_>>()?;
        wire.enable_metadata(load.metadata)?;
        let ecn = load.metadata.then_some(EcnCodepoint::Ect0);
        let transmit = |(destination, contents)| Transmit {
            destination,
            ecn,
            contents,
            segment_size: (segments > 1).then_some(load.payload),
            src_ip: None,
        };
        let transmits = load.batches(&wire.to, segments).map(transmit).collect();
        let slots = slots.min(BATCH_SIZE);
        let buffers = load::buffers(slots, slot_len).map(IoSliceMut::new).collect();
        let metas = vec![RecvMeta::default(); slots];
        Ok(Self { near, far, transmits, buffers, metas, metadata: load.metadata })
    }

    #[inline(always)]
    fn send(&mut self, wire: &Wire) {
        for transmit in &self.transmits {
            let socket = UdpSockRef::from(&wire.near);
            self.near.try_send(socket, transmit).expect("loopback takes it");
        }
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let socket = UdpSockRef::from(&wire.far[dest]);
        let received = self.far[dest].recv(socket, &mut self.buffers, &mut self.metas);
        let received = received.expect("they have arrived");
        for (received, buffer) in self.metas[..received].iter().zip(&self.buffers) {
            let meta = self.metadata.then(|| {
                (received.ecn.map_or(0, |ecn| ecn as u8), received.dst_ip.expect("it is enabled"))
            });
            for data in buffer[..received.len].chunks(received.stride.max(1)) {
                see(Datagram { addr: received.addr, data, meta });
            }
        }
    }
}

impl<const STORED: bool> Peer for Copied<STORED> {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        let payloads = load.apart(&wire.to);
        let segmented = Segmented::new(load, wire)?;
        Ok(Self { segmented, payloads, contents: Vec::new(), segments: load.segments() })
    }

    #[inline(always)]
    fn send(&mut self, wire: &Wire) {
        let Quinn { near, metadata, .. } = &self.segmented;
        let ecn = metadata.then_some(EcnCodepoint::Ect0);
        self.contents.clear();
        if STORED {
            self.payloads.iter().for_each(|(_, payload)| self.contents.extend_from_slice(payload));
        }
        let mut begin = 0;
        // All payloads have one length.
        for run in self.payloads.chunk_by(|(one, _), (other, _)| one == other) {
            for batch in run.chunks(self.segments) {
                let (destination, first) = batch[0];
                if !STORED {
                    self.contents.clear();
                    batch.iter().for_each(|(_, payload)| self.contents.extend_from_slice(payload));
                    begin = 0;
                }
                let contents = &self.contents[begin..][..batch.len() * first.len()];
                begin += contents.len();
                let transmit = Transmit {
                    destination,
                    ecn,
                    contents,
                    segment_size: (batch.len() > 1).then_some(first.len()),
                    src_ip: None,
                };
                let socket = UdpSockRef::from(&wire.near);
                near.try_send(socket, &transmit).expect("loopback takes it");
            }
        }
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, see: impl FnMut(Datagram<'_>)) {
        self.segmented.receive(wire, dest, see);
    }
}

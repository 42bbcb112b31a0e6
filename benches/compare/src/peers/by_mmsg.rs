//! This crate: `SendMsg`s made once and `send_batch`; received by `recv_batch` into borrowed
//! messages, or by `recv_into` into a `RecvBatch`; and the latter with `Offload` on both
//! sockets, which are otherwise used in the same way.

use std::hint::black_box;
use std::io;
use std::net::UdpSocket;

use mmsg::{
    Ancillary, BatchSocket, Datagram, Ecn, Offload, RecvBatch, RecvMeta, RecvMsg, SendMsg,
    SendQueue,
};

use super::Peer;
use crate::load::{COALESCED_LEN, Load, SLOT_LEN, Seen};
use crate::wire::Wire;

/// Memory of the caller's. `DYN`: through `&dyn BatchSocket`.
pub struct IntoRecvMsgs<const DYN: bool> {
    wire: Wire,
    msgs: Vec<SendMsg<'static>>,
    recv_msgs: Vec<RecvMsg<'static>>,
    metadata: bool,
}

/// Memory of the crate's, with its headers in place.
pub struct IntoRecvBatch<const DYN: bool> {
    wire: Wire,
    msgs: Vec<SendMsg<'static>>,
    batch: RecvBatch,
    metadata: bool,
}

/// As `IntoRecvBatch`, with GSO and GRO. `SCATTERED`: payloads are not contiguous; `QUEUE`: messages go
/// through a `SendQueue`.
pub struct Offloaded<const SCATTERED: bool, const QUEUE: bool> {
    wire: Wire,
    ends: OffloadEnds,
    msgs: Vec<SendMsg<'static>>,
    queue: SendQueue,
}

/// Both ends of a wire as `Offload`s, and what the far ones receive into.
pub struct OffloadEnds {
    pub near: Offload<UdpSocket>,
    far: Vec<Offload<UdpSocket>>,
    batch: RecvBatch,
    metadata: bool,
}

pub type Contiguous = Offloaded<false, false>;
pub type Scattered = Offloaded<true, false>;
pub type Queued = Offloaded<false, true>;

/// What is to be sent; and enables the metadata that is to be received.
fn prepared(load: &Load, wire: &Wire, scattered: bool) -> io::Result<Vec<SendMsg<'static>>> {
    if load.metadata {
        expect_metadata(wire)?;
    }
    let payloads = load.slab().chunks(load.payload).enumerate();
    let msg = |(i, payload): (usize, &'static [u8])| {
        let payload = if scattered { payload.to_vec().leak() } else { payload };
        let msg = SendMsg::to(wire.to[i / load.each], payload);
        if load.metadata { msg.with_ecn(Ecn::Ect0) } else { msg }
    };
    Ok(payloads.map(msg).collect())
}

/// Enables the metadata that is to be received.
pub fn expect_metadata(wire: &Wire) -> io::Result<()> {
    wire.far.iter().try_for_each(|socket| (Ancillary::DEST | Ancillary::TOS).require(socket))
}

fn send(socket: &(impl BatchSocket + ?Sized), msgs: &[SendMsg<'_>]) {
    assert_eq!(socket.send_batch(msgs).expect("loopback takes them"), msgs.len());
}

/// As a socket of a type that is known, or of any.
fn send_by<const DYN: bool>(socket: &UdpSocket, msgs: &[SendMsg<'_>]) {
    match DYN {
        true => send(opaque(socket), msgs),
        false => send(socket, msgs),
    }
}

/// A socket about which the compiler knows nothing else.
fn opaque(socket: &UdpSocket) -> &dyn BatchSocket {
    black_box(socket)
}

#[inline(always)]
pub fn metadata_of(meta: RecvMeta) -> (u8, std::net::IpAddr) {
    (meta.ecn().map_or(0, |ecn| ecn as u8), meta.destination.expect("it was asked for"))
}

#[inline(always)]
fn seen(datagram: Datagram<'_>, metadata: bool) -> Seen<'_> {
    Seen {
        addr: datagram.addr().expect("an Internet socket's datagrams have a source"),
        data: datagram.data(),
        meta: if metadata { Some(metadata_of(datagram.meta())) } else { None },
    }
}

impl<const DYN: bool> Peer for IntoRecvMsgs<DYN> {
    fn new(load: &Load, wire: Wire) -> io::Result<Self> {
        let memory = vec![0; load.slots * SLOT_LEN].leak();
        let recv_msgs = memory.chunks_exact_mut(SLOT_LEN).map(RecvMsg::new).collect();
        Ok(Self { msgs: prepared(load, &wire, false)?, recv_msgs, metadata: load.metadata, wire })
    }

    fn wire(&self) -> &Wire {
        &self.wire
    }

    fn send(&mut self) {
        send_by::<DYN>(&self.wire.near, &self.msgs);
    }

    #[inline(always)]
    fn receive(&mut self, dest: usize, mut see: impl FnMut(Seen<'_>)) {
        let far = &self.wire.far[dest];
        let received = match DYN {
            true => opaque(far).recv_batch(&mut self.recv_msgs),
            false => far.recv_batch(&mut self.recv_msgs),
        };
        for msg in &self.recv_msgs[..received.expect("they have arrived")] {
            let addr = msg.addr().expect("an Internet socket's datagrams have a source");
            let meta = if self.metadata { Some(metadata_of(msg.meta())) } else { None };
            see(Seen { addr, data: msg.data(), meta });
        }
    }
}

impl<const DYN: bool> Peer for IntoRecvBatch<DYN> {
    fn new(load: &Load, wire: Wire) -> io::Result<Self> {
        let batch = RecvBatch::new(load.slots, SLOT_LEN);
        Ok(Self { msgs: prepared(load, &wire, false)?, batch, metadata: load.metadata, wire })
    }

    fn wire(&self) -> &Wire {
        &self.wire
    }

    fn send(&mut self) {
        send_by::<DYN>(&self.wire.near, &self.msgs);
    }

    #[inline(always)]
    fn receive(&mut self, dest: usize, mut see: impl FnMut(Seen<'_>)) {
        let far = &self.wire.far[dest];
        let received = match DYN {
            true => opaque(far).recv_into(&mut self.batch),
            false => far.recv_into(&mut self.batch),
        };
        received.expect("they have arrived");
        for datagram in &self.batch {
            see(seen(datagram, self.metadata));
        }
    }
}

impl<const SCATTERED: bool, const QUEUE: bool> Peer for Offloaded<SCATTERED, QUEUE> {
    fn new(load: &Load, wire: Wire) -> io::Result<Self> {
        Ok(Self {
            ends: OffloadEnds::new(load, &wire)?,
            msgs: prepared(load, &wire, SCATTERED)?,
            queue: SendQueue::new(usize::MAX),
            wire,
        })
    }

    fn wire(&self) -> &Wire {
        &self.wire
    }

    fn send(&mut self) {
        if !QUEUE {
            return send(&self.ends.near, &self.msgs);
        }
        for msg in &self.msgs {
            self.queue.push(msg).expect("it has no bound");
        }
        let sent = self.ends.near.flush(&mut self.queue).expect("loopback takes them");
        assert_eq!(sent, self.msgs.len());
    }

    #[inline(always)]
    fn receive(&mut self, dest: usize, see: impl FnMut(Seen<'_>)) {
        self.ends.receive(dest, see);
    }
}

impl OffloadEnds {
    pub fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        let offload = |socket: &UdpSocket| Offload::new(socket.try_clone()?);
        Ok(Self {
            near: offload(&wire.near)?,
            far: wire.far.iter().map(offload).collect::<io::Result<_>>()?,
            batch: RecvBatch::new(load.coalesced_slots(), COALESCED_LEN),
            metadata: load.metadata,
        })
    }

    #[inline(always)]
    pub fn receive(&mut self, dest: usize, mut see: impl FnMut(Seen<'_>)) {
        self.far[dest].recv_into(&mut self.batch).expect("they have arrived");
        // Metadata is shared by all datagrams of a coalesced message, and read once.
        for message in self.batch.messages() {
            let addr = message.addr().expect("an Internet socket's datagrams have a source");
            let meta = if self.metadata { Some(metadata_of(message.meta())) } else { None };
            for datagram in message.datagrams() {
                see(Seen { addr, data: datagram.data(), meta });
            }
        }
    }
}

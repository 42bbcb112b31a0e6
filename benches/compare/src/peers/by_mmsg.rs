//! This crate on plain sockets: `send_batch` of messages made once, `recv_batch` into borrowed buffers or `recv_into` a
//! `RecvBatch`.

use std::hint::black_box;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use mmsg::{Ancillary, BatchSocket, Ecn, RecvBatch, RecvMeta, RecvMsg, SendMsg};

use super::Peer;
use crate::load::{self, Datagram, Load, SLOT_LEN};
use crate::wire::Wire;

/// Into the caller's memory. `DYN`: through `&dyn BatchSocket`.
pub type IntoRecvMsgs<const DYN: bool> = Plain<false, DYN>;
/// Into the crate's memory, which keeps headers.
pub type IntoRecvBatch<const DYN: bool> = Plain<true, DYN>;

pub struct Plain<const BATCH: bool, const DYN: bool> {
    msgs: Vec<SendMsg<'static>>,
    recv_msgs: Vec<RecvMsg<'static>>,
    batch: RecvBatch,
    metadata: bool,
}

/// Enables ECN bits and destinations at each receiver.
pub fn expect_metadata(wire: &Wire) -> io::Result<()> {
    wire.far.iter().try_for_each(|socket| (Ancillary::DEST | Ancillary::TOS).require(socket))
}

/// The messages to send.
pub fn messages(load: &Load, payloads: &[(SocketAddr, &'static [u8])]) -> Vec<SendMsg<'static>> {
    let msg = |(to, payload): &(SocketAddr, &'static [u8])| {
        let msg = SendMsg::to(*to, payload);
        if load.metadata { msg.with_ecn(Ecn::Ect0) } else { msg }
    };
    payloads.iter().map(msg).collect()
}

/// Hides the socket's type from the compiler.
fn opaque(socket: &UdpSocket) -> &dyn BatchSocket {
    black_box(socket)
}

#[inline(always)]
pub fn metadata_of(meta: &RecvMeta) -> (u8, IpAddr) {
    (meta.ecn().map_or(0, |ecn| ecn as u8), meta.dest.expect("it is enabled"))
}

impl<const BATCH: bool, const DYN: bool> Peer for Plain<BATCH, DYN> {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        if load.metadata {
            expect_metadata(wire)?;
        }
        Ok(Self {
            msgs: messages(load, &load.contiguous(&wire.to)),
            recv_msgs: load::buffers(load.slots, SLOT_LEN).map(RecvMsg::new).collect(),
            batch: RecvBatch::new(load.slots, SLOT_LEN),
            metadata: load.metadata,
        })
    }

    fn send(&mut self, wire: &Wire) {
        let sent = match DYN {
            true => opaque(&wire.near).send_batch(&self.msgs),
            false => wire.near.send_batch(&self.msgs),
        };
        assert_eq!(sent.expect("loopback takes them"), self.msgs.len());
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let far = &wire.far[dest];
        let received = match (BATCH, DYN) {
            (true, true) => opaque(far).recv_into(&mut self.batch),
            (true, false) => far.recv_into(&mut self.batch),
            (false, true) => opaque(far).recv_batch(&mut self.recv_msgs),
            (false, false) => far.recv_batch(&mut self.recv_msgs),
        };
        let received = received.expect("they have arrived");
        if BATCH {
            for datagram in &self.batch {
                let addr = datagram.addr().expect("an Internet socket's datagrams have a source");
                let meta = if self.metadata { Some(metadata_of(datagram.meta())) } else { None };
                see(Datagram { addr, data: datagram.data(), meta });
            }
            return;
        }
        for msg in &self.recv_msgs[..received] {
            let addr = msg.addr().expect("an Internet socket's datagrams have a source");
            let meta = if self.metadata { Some(metadata_of(msg.meta())) } else { None };
            see(Datagram { addr, data: msg.data(), meta });
        }
    }
}

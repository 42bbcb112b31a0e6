//! This crate on plain sockets: `send_batch` of messages made once, `recv_batch` into borrowed buffers or `recv_into` a
//! `RecvBatch`.

use std::io;
use std::net::{IpAddr, SocketAddr};

use mmsg::{Ancillary, BatchSocket, Ecn, RecvBatch, RecvMeta, RecvMsg, SendMsg};

use super::Peer;
use crate::load::{self, Datagram, Load, SLOT_LEN};
use crate::wire::Wire;

/// Into the caller's memory.
pub type IntoRecvMsgs = Plain<false>;
/// Into the crate's memory, which keeps headers.
pub type IntoRecvBatch = Plain<true>;

pub struct Plain<const BATCH: bool> {
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

#[inline(always)]
pub fn metadata_of(meta: &RecvMeta) -> (u8, IpAddr) {
    (meta.ecn().map_or(0, |ecn| ecn as u8), meta.dest.expect("it is enabled"))
}

impl<const BATCH: bool> Peer for Plain<BATCH> {
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
        let sent = wire.near.send_batch(&self.msgs).expect("loopback takes them");
        assert_eq!(sent, self.msgs.len());
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let far = &wire.far[dest];
        if BATCH {
            far.recv_into(&mut self.batch).expect("they have arrived");
            for datagram in &self.batch {
                let addr = datagram.addr().expect("an Internet socket's datagrams have a source");
                let meta = if self.metadata { Some(metadata_of(datagram.meta())) } else { None };
                see(Datagram { addr, data: datagram.data(), meta });
            }
            return;
        }
        let received = far.recv_batch(&mut self.recv_msgs).expect("they have arrived");
        for message in self.recv_msgs[..received].iter().map(RecvMsg::message) {
            let addr = message.addr().expect("an Internet socket's datagrams have a source");
            let meta = if self.metadata { Some(metadata_of(message.meta())) } else { None };
            see(Datagram { addr, data: message.data(), meta });
        }
    }
}

//! This crate with `Offload` on both sockets. Some ways make their messages in advance, the others make them
//! from separate payloads in each turn.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};

use mmsg::{BatchSocket, BatchSocketExt, Ecn, Offload, RecvBatch, SendMsg, SendQueue};

use super::Peer;
use super::by_mmsg::{expect_metadata, messages, metadata_of};
use crate::load::{COALESCED_LEN, Datagram, Load};
use crate::wire::Wire;

/// `send_batch` of a list, whose memory each turn reuses.
pub type List = Offloaded<0>;
/// `send_each`.
pub type Each = Offloaded<1>;
/// A `SendQueue`: pushes and `flush`.
pub type Queue = Offloaded<2>;
/// `send_each` of payloads in two buffers: a header and the rest.
pub type Gathered = Offloaded<3>;
/// Like `Queue`, with the messages grouped by destination.
pub type Grouped = Offloaded<4>;
/// Prepared messages with a segment size, contiguous payloads.
pub type Segments = Offloaded<5>;
/// A prepared message for each of the contiguous payloads.
pub type Contiguous = Offloaded<6>;
/// Like `Contiguous`, with separate payloads.
pub type Scattered = Offloaded<7>;

/// Bytes of a gathered message's first buffer.
const HEADER: usize = 12;

pub struct Offloaded<const HOW: u8> {
    near: Offload<UdpSocket>,
    far: Vec<Offload<UdpSocket>>,
    batch: RecvBatch,
    payloads: Vec<(SocketAddr, &'static [u8])>,
    parts: Vec<[IoSlice<'static>; 2]>,
    msgs: Vec<SendMsg<'static>>,
    queue: SendQueue,
    metadata: bool,
}

impl<const HOW: u8> Peer for Offloaded<HOW> {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        if load.metadata {
            expect_metadata(wire)?;
        }
        let msgs = match HOW {
            5 => {
                let msg = |(to, batch): (SocketAddr, &'static [u8])| {
                    let msg = SendMsg::to(to, batch).with_segment_size(load.payload as u16);
                    if load.metadata { msg.with_ecn(Ecn::Ect0) } else { msg }
                };
                load.batches(&wire.to, load.segments()).map(msg).collect()
            }
            6 => messages(load, &load.contiguous(&wire.to)),
            7 => messages(load, &load.apart(&wire.to)),
            _ => Vec::new(),
        };
        let queue = SendQueue::new(usize::MAX);
        let offload = |socket: &UdpSocket| Offload::new(socket.try_clone()?);
        Ok(Self {
            near: offload(&wire.near)?,
            far: wire.far.iter().map(offload).collect::<io::Result<_>>()?,
            batch: RecvBatch::new(load.coalesced_slots(), COALESCED_LEN),
            payloads: load.apart(&wire.to),
            parts: Vec::new(),
            msgs,
            queue: if HOW == 4 { queue.grouped_by_dest() } else { queue },
            metadata: load.metadata,
        })
    }

    #[inline(always)]
    fn send(&mut self, _: &Wire) {
        // Decided outside the loops, as in a program that always sets ECN bits or never does.
        if self.metadata { self.send_by::<true>() } else { self.send_by::<false>() }
    }

    #[inline(always)]
    fn receive(&mut self, _: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        self.far[dest].recv_into(&mut self.batch).expect("they have arrived");
        // Metadata is shared by all datagrams of a coalesced message, and read once.
        for message in self.batch.messages() {
            let addr = message.addr().expect("an Internet socket's datagrams have a source");
            let meta = if self.metadata { Some(metadata_of(message.meta())) } else { None };
            for datagram in message.datagrams() {
                see(Datagram { addr, data: datagram.data(), meta });
            }
        }
    }
}

impl<const HOW: u8> Offloaded<HOW> {
    #[inline(always)]
    fn send_by<const ECN: bool>(&mut self) {
        let near = &self.near;
        let msgs = self.payloads.iter().map(|(to, payload)| mark::<ECN>(SendMsg::to(*to, payload)));
        let no_error = |_, error| panic!("{error}");
        let sent = match HOW {
            0 => {
                self.msgs.clear();
                self.msgs.extend(msgs);
                send_all(near, &self.msgs)
            }
            1 => near.send_each(msgs, no_error),
            2 | 4 => {
                for msg in msgs {
                    self.queue.push(&msg).expect("it has no bound");
                }
                near.flush(&mut self.queue)
            }
            3 => {
                self.parts.clear();
                self.parts.extend(self.payloads.iter().map(|(_, payload)| {
                    let (header, rest) = payload.split_at(HEADER);
                    [IoSlice::new(header), IoSlice::new(rest)]
                }));
                let to = self.payloads.iter().map(|(to, _)| *to);
                let gathered = self.parts.iter().zip(to);
                let msgs = gathered.map(|(p, to)| mark::<ECN>(SendMsg::gather(p).with_dest(to)));
                near.send_each(msgs, no_error)
            }
            _ => send_all(near, &self.msgs),
        };
        let all = if HOW == 5 { self.msgs.len() } else { self.payloads.len() };
        assert_eq!(sent.expect("loopback takes them"), all);
    }
}

/// Sends a list. A call that copies much ends with a count.
#[inline(always)]
fn send_all(near: &Offload<UdpSocket>, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < msgs.len() {
        sent += near.send_batch(&msgs[sent..])?;
    }
    Ok(sent)
}

#[inline(always)]
fn mark<const ECN: bool>(msg: SendMsg<'_>) -> SendMsg<'_> {
    if ECN { msg.with_ecn(Ecn::Ect0) } else { msg }
}

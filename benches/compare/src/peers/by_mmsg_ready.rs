//! This crate with `Offload`, from payloads that lie ready, each by itself: what turns them into
//! messages is part of the turn.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use mmsg::{BatchSocket, BatchSocketExt, Ecn, SendMsg, SendQueue};

use super::Peer;
use super::by_mmsg::{OffloadEnds, expect_metadata};
use crate::load::{Load, Seen};
use crate::wire::Wire;

/// A list of messages, in memory that each turn uses again, and `send_batch`.
pub type List = Ready<0>;
/// `send_iter`.
pub type Iter = Ready<1>;
/// A `SendQueue`: pushes and `flush`.
pub type Queue = Ready<2>;
/// `send_iter` of a header and the rest of the payload, in two buffers.
pub type Gathered = Ready<3>;
/// Contiguous payloads as messages with a segment size, prepared.
pub type Segments = Ready<4>;
/// As `Queue`, grouped by destination.
pub type Grouped = Ready<5>;

/// Bytes of a gathered message's first buffer.
const HEADER: usize = 12;

pub struct Ready<const HOW: u8> {
    wire: Wire,
    ends: OffloadEnds,
    payloads: Vec<(SocketAddr, &'static [u8])>,
    parts: Vec<[IoSlice<'static>; 2]>,
    msgs: Vec<SendMsg<'static>>,
    queue: SendQueue,
    ecn: bool,
}

impl<const HOW: u8> Peer for Ready<HOW> {
    fn new(load: &Load, wire: Wire) -> io::Result<Self> {
        if load.metadata {
            expect_metadata(&wire)?;
        }
        let mut msgs = Vec::new();
        if HOW == 4 {
            for (part, to) in load.slab().chunks(load.each * load.payload).zip(&wire.to) {
                let batches = part.chunks(load.segments() * load.payload);
                msgs.extend(batches.map(|batch| {
                    let msg = SendMsg::to(*to, batch).with_segment_size(load.payload as u16);
                    if load.metadata { msg.with_ecn(Ecn::Ect0) } else { msg }
                }));
            }
        }
        let queue = SendQueue::new(usize::MAX);
        Ok(Self {
            ends: OffloadEnds::new(load, &wire)?,
            payloads: load.apart(&wire.to),
            parts: Vec::new(),
            msgs,
            queue: if HOW == 5 { queue.grouped_by_dest() } else { queue },
            ecn: load.metadata,
            wire,
        })
    }

    fn wire(&self) -> &Wire {
        &self.wire
    }

    fn send(&mut self) {
        // The choice is outside of the loops, as in a program that always sets them or never does.
        if self.ecn { self.send_by::<true>() } else { self.send_by::<false>() }
    }

    #[inline(always)]
    fn receive(&mut self, dest: usize, see: impl FnMut(Seen<'_>)) {
        self.ends.receive(dest, see);
    }
}

impl<const HOW: u8> Ready<HOW> {
    #[inline(always)]
    fn send_by<const ECN: bool>(&mut self) {
        let near = &self.ends.near;
        let msgs = self.payloads.iter().map(|(to, payload)| mark::<ECN>(SendMsg::to(*to, payload)));
        let sent = match HOW {
            0 => {
                self.msgs.clear();
                self.msgs.extend(msgs);
                near.send_batch(&self.msgs)
            }
            1 => near.send_iter(msgs),
            2 | 5 => {
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
                near.send_iter(
                    self.parts
                        .iter()
                        .zip(to)
                        .map(|(parts, to)| mark::<ECN>(SendMsg::gather(parts).with_dest(to))),
                )
            }
            _ => near.send_batch(&self.msgs),
        };
        let all = if HOW == 4 { self.msgs.len() } else { self.payloads.len() };
        assert_eq!(sent.expect("loopback takes them"), all);
    }
}

#[inline(always)]
fn mark<const ECN: bool>(msg: SendMsg<'_>) -> SendMsg<'_> {
    if ECN { msg.with_ecn(Ecn::Ect0) } else { msg }
}

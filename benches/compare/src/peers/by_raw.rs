//! Raw `sendmmsg` and `recvmmsg` with headers built once: the limit. Each turn resets only the fields that the kernel
//! overwrote and the next call needs, and reads results in place.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use super::Peer;
use super::raw_calls::{Receiver, Sender};
use crate::load::{COALESCED_LEN, Datagram, Load, SLOT_LEN};
use crate::wire::Wire;

/// One datagram per message.
pub type Plain = Raw<false, false>;
/// Prepared GSO batches, and GRO.
pub type Gso = Raw<true, false>;
/// The same from separate payloads.
pub type ScatteredGso = Raw<true, true>;

pub struct Raw<const GSO: bool, const SCATTERED: bool> {
    sender: Sender,
    receiver: Receiver,
    metadata: bool,
}

impl<const GSO: bool, const SCATTERED: bool> Peer for Raw<GSO, SCATTERED> {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        let (segments, slots, len) = match GSO {
            true => (load.segments(), load.coalesced_slots(), COALESCED_LEN),
            false => (1, load.slots, SLOT_LEN),
        };
        if GSO {
            wire.enable_gro()?;
        }
        wire.enable_metadata(load.metadata)?;
        let segment = (segments > 1).then_some(load.payload as u16);
        let list = load.batches(&wire.to, segments).map(|(to, batch)| {
            let apart = |payload: &[u8]| &*payload.to_vec().leak();
            let buffers = match SCATTERED {
                true => batch.chunks(load.payload).map(apart).collect(),
                false => vec![batch],
            };
            (to, buffers)
        });
        let list: Vec<_> = list.collect();
        let sender = Sender::new(&list, segment, load.metadata);
        let receiver = Receiver::new(slots, len, load.metadata || segment.is_some());
        Ok(Self { sender, receiver, metadata: load.metadata })
    }

    fn send(&mut self, wire: &Wire) {
        self.sender.send(&wire.near);
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let received = self.receiver.recv(&wire.far[dest]);
        for i in 0..received {
            let (addr, data) = (self.receiver.source(i), self.receiver.message(i));
            let control = self.receiver.control(i);
            let meta = if self.metadata {
                Some((control.tos & 0b11, IpAddr::V4(Ipv4Addr::from(control.dest))))
            } else {
                None
            };
            match control.segment {
                0 => see(Datagram { addr, data, meta }),
                size => data.chunks(size).for_each(|data| see(Datagram { addr, data, meta })),
            }
        }
        self.receiver.renew(received);
    }
}

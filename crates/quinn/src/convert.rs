//! A transmit as this library's message, and a received message as QUIC's metadata.
//!
//! mmsg-quinn-udp, mmsg-quinn and mmsg-noq each have a copy of this file: the types have the same names and fields in all three.

use mmsg::{Ecn, Message, SendMeta, SendMsg};

use crate::udp::{EcnCodepoint, RecvMeta, Transmit};

/// The settings of a transmit that its message borrows.
pub(crate) fn send_meta(transmit: &Transmit<'_>) -> SendMeta {
    transmit.src_ip.map_or(SendMeta::new(), |source| SendMeta::new().with_source(source))
}

/// The message of a transmit. A segment size that is not shorter than the contents says nothing.
pub(crate) fn send_msg<'a>(transmit: &Transmit<'a>, meta: &'a SendMeta) -> SendMsg<'a> {
    let mut msg = SendMsg::to(transmit.destination, transmit.contents).with_meta(meta);
    if let Some(ecn) = transmit.ecn {
        msg = msg.with_ecn(Ecn::from_tos(ecn as u8));
    }
    let segments = |size: &usize| (1..transmit.contents.len()).contains(size);
    match transmit.segment_size.filter(segments).and_then(|size| size.try_into().ok()) {
        Some(size) => msg.with_segment_size(size),
        None => msg,
    }
}

/// A message's metadata. A truncated message becomes its whole datagrams, if any: the rest would not decrypt. `stride` is
/// never 0, so a peer cannot make a program divide by it.
#[inline]
pub(crate) fn recv_meta(message: Message<'_>) -> RecvMeta {
    let mut received = RecvMeta::default();
    let meta = message.meta();
    let segment = meta.segment_size.map(usize::from).filter(|size| *size > 0);
    if let Some(addr) = message.addr() {
        received.addr = addr;
        received.len = match segment {
            _ if !message.truncated() => message.len(),
            Some(size) => message.data().len() / size * size,
            None => 0,
        };
    }
    received.stride = segment.unwrap_or(received.len).max(1);
    received.ecn = meta.tos.and_then(EcnCodepoint::from_bits);
    received.dst_ip = meta.dest;
    received
}

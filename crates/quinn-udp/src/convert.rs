//! A transmit as this library's options, and a received message as QUIC's metadata.
//!
//! mmsg-quinn and mmsg-noq link to this file: the types have the same names and fields in quinn, noq and here.

use mmsg::{Message, SendMeta};

use crate::udp::{EcnCodepoint, RecvMeta, Transmit};

/// The options of a transmit. A segment size that is not shorter than the contents says nothing.
pub(crate) fn send_meta(transmit: &Transmit<'_>) -> SendMeta {
    let segments = |size: &usize| (1..transmit.contents.len()).contains(size);
    let mut meta = SendMeta::new();
    meta.tos = transmit.ecn.map(|ecn| ecn as u8);
    meta.source = transmit.src_ip;
    meta.segment_size =
        transmit.segment_size.filter(segments).and_then(|size| size.try_into().ok());
    meta
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
    received.dst_ip = meta.destination;
    received
}

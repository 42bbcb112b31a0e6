//! Turns messages into headers, for plain sockets and for GSO.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};

use super::coalesce::{
    GsoBatch, Joining, MAX_BATCH_BYTES, Segmenting, explicit_segment_size, has_raw_segment_size,
};
use super::msg::SendMsg;
use crate::ancillary::invalid;
use crate::sys::numbers::SourceRule;
use crate::sys::{self, BorrowedSocket, Dest, Families, OpenHeader, Payload, SendHeaders, numbers};

/// Fills headers with messages in order, as many as there is room for. Without `segmenting` each message has a header and
/// the settings that it asks for. With it, messages form GSO batches, and `batches` describes each header.
///
/// Stops before a message with an explicit segment size that the kernel must not segment, and when the memory for copies
/// might not hold another batch.
///
/// # Errors
///
/// The error of the first message, if it cannot be sent. At a later message that cannot be sent, preparation stops.
pub(crate) fn prepare<'a>(
    headers: &mut SendHeaders<'a>,
    batches: &mut Vec<GsoBatch>,
    socket: BorrowedSocket<'_>,
    msgs: &'a [SendMsg<'a>],
    segmenting: Option<&Segmenting<'_>>,
) -> io::Result<()> {
    let mut encoder = Encoder { socket, segmenting, peer: None, own_ip: None, last: None };
    let mut is_v6 = None;
    let mut rest = msgs;
    while let (false, [first, ..]) = (headers.is_full(), rest) {
        let is_first = headers.len() == 0;
        let takes_any = numbers::V6_SOCKETS_TAKE_V4;
        let mapped = if takes_any { None } else { sys::mapped(socket, &first.dest, &mut is_v6) };
        let dest = mapped.as_ref().unwrap_or(&first.dest);
        let Some(mut header) = headers.open(dest, first.payload) else {
            let reason = "SendMsg::unix_dest is not a valid Unix address on this platform";
            return unless_first(is_first, invalid(reason));
        };
        let batch = match segmenting {
            None => None,
            Some(segmenting) => match gso_batch(&mut header, rest, segmenting) {
                None => break,
                batch => batch,
            },
        };
        // A segment's length fits 16 bits, since even a whole batch's does.
        let size = batch.filter(GsoBatch::is_segmented).map(|batch| batch.segment as u16);
        if size.is_some() || !first.has_no_settings() {
            if let Err(error) = encoder.write(&mut header, first, size) {
                return unless_first(is_first, error);
            }
        }
        header.complete();
        let mut messages = 1;
        if let Some(batch) = batch {
            batches.push(batch);
            messages = batch.messages;
        }
        rest = &rest[messages..];
    }
    Ok(())
}

/// The batch that the open header sends: the first message, and those that join it. `None` to stop before it.
///
/// Not inlined, so that this and the loop of a plain send keep their values in registers.
#[inline(never)]
fn gso_batch<'a>(
    header: &mut OpenHeader<'_, 'a>,
    msgs: &'a [SendMsg<'a>],
    segmenting: &Segmenting<'_>,
) -> Option<GsoBatch> {
    let first = &msgs[0];
    let single = GsoBatch::single(first.len());
    if let Some(size) = explicit_segment_size(first) {
        let batch = GsoBatch { segment: size.into(), ..single };
        return segmenting.permits(first, batch.segment).then_some(batch);
    }
    let joins = segmenting.max_segments > 1 && msgs.len() > 1;
    if !joins || !segmenting.permits(first, single.segment) {
        return Some(single);
    }
    let has_space = header.copies_left() >= MAX_BATCH_BYTES;
    has_space.then(|| join(header, msgs, segmenting.max_segments))
}

/// The error of a message that cannot be sent, if it is the first.
#[cold]
fn unless_first(is_first: bool, error: io::Error) -> io::Result<()> {
    if is_first { Err(error) } else { Ok(()) }
}

/// Adds the messages that form a GSO batch with the first one to the open header, which has the first payload.
///
/// Payloads that touch in memory become one buffer. The others are copied together: one buffer costs the kernel less
/// than many short ones, and no more than long ones.
#[inline]
fn join<'a>(
    header: &mut OpenHeader<'_, 'a>,
    msgs: &'a [SendMsg<'a>],
    max_segments: usize,
) -> GsoBatch {
    let (first, mut others) = (&msgs[0], msgs[1..].iter());
    let mut joining = Joining::begin(first, max_segments);
    if let Payload::One(_) = first.payload {
        header.extend(|end| {
            let msg = others.next()?;
            let Payload::One(data) = msg.payload else { return None };
            (data.as_ptr() == end && joining.takes(msg)).then_some(data)
        });
    }
    let (neighbours, others) = msgs.split_at(joining.batch.messages);
    let Some((next, others)) = others.split_first() else { return joining.batch };
    if !joining.takes(next) {
        return joining.batch;
    }
    header.copy_with(|space| {
        let (all, mut free) = (space.len(), space);
        neighbours.iter().chain([next]).for_each(|msg| copy(msg, &mut free));
        others.iter().take_while(|msg| joining.takes(msg)).for_each(|msg| copy(msg, &mut free));
        all - free.len()
    });
    joining.batch
}

/// Copies a message's payload to the start of `free`, and takes that part off `free`.
#[inline(always)]
fn copy(msg: &SendMsg<'_>, free: &mut &mut [u8]) {
    let mut push = |data: &[u8]| {
        let (now, rest) = mem::take(free).split_at_mut(data.len());
        now.copy_from_slice(data);
        *free = rest;
    };
    match msg.payload {
        Payload::One(data) => push(data),
        Payload::Many(list) => list.iter().for_each(|part| push(part)),
    }
}

/// Writes settings as control messages. Consecutive messages usually have the same settings, and then share them.
struct Encoder<'s, 'a> {
    socket: BorrowedSocket<'s>,
    segmenting: Option<&'s Segmenting<'s>>,
    /// The family of a connected socket's peer, once a message of the call needs it.
    peer: Option<Families>,
    /// The socket's address, if it was asked for. Not kept for the next call: the program may connect the socket.
    own_ip: Option<Option<IpAddr>>,
    last: Option<Encoded<'a>>,
}

/// A message whose settings are encoded in a complete header.
struct Encoded<'a> {
    msg: &'a SendMsg<'a>,
    segment_size: Option<u16>,
    header: usize,
}

impl<'a> Encoder<'_, 'a> {
    /// Gives the open header the control data of a message. `segment_size` is that of the header's GSO batch. Not inlined
    /// either.
    #[inline(never)]
    fn write(
        &mut self,
        header: &mut OpenHeader<'_, 'a>,
        msg: &'a SendMsg<'a>,
        segment_size: Option<u16>,
    ) -> io::Result<()> {
        if let Some(Encoded { msg: last, segment_size: size, header: encoded }) = self.last {
            let same_family = || is_v4(&last.dest) == is_v4(&msg.dest);
            if size == segment_size && last.same_settings(msg) && same_family() {
                header.share_control(encoded);
                return Ok(());
            }
        }
        self.encode(header, msg, segment_size)
    }

    fn encode(
        &mut self,
        header: &mut OpenHeader<'_, 'a>,
        msg: &'a SendMsg<'a>,
        segment_size: Option<u16>,
    ) -> io::Result<()> {
        let (mut meta, raw, mut size) = (msg.meta(), msg.raw_control(), msg.segment_size);
        if let Some(segmenting) = self.segmenting {
            meta.tos = meta.tos.filter(|_| segmenting.tos);
            // Beside a raw one it stays: the same setting twice is an error.
            if !has_raw_segment_size(msg) {
                size = segment_size;
            }
        }
        let families = match is_v4(&msg.dest) {
            Some(v4) => Families { v4, v6: !v4 },
            None if meta.needs_one_family() => self.families_of_peer(),
            None => Families { v4: true, v6: true },
        };
        let rule = sys::v4_rules().source;
        let named = meta.source.is_some() || meta.interface.is_some();
        if rule != SourceRule::Allowed && families.v4 && named {
            let own = match self.own_ip {
                Some(own) => own,
                None => *self.own_ip.insert(sys::own_ip(self.socket)?),
            };
            meta.keep_socket(rule, own)?;
        }
        header.encode_control(|space| meta.encode(families, size, raw, space))?;
        self.last = Some(Encoded { msg, segment_size, header: header.index() });
        Ok(())
    }

    /// The family of a connected socket's peer.
    #[cold]
    fn families_of_peer(&mut self) -> Families {
        let socket = self.socket;
        *self.peer.get_or_insert_with(|| {
            let v4 = sys::peer(socket).is_some_and(|peer| peer.ip().to_canonical().is_ipv4());
            Families { v4, v6: !v4 }
        })
    }
}

/// Whether a message goes to an IPv4 address, or to one mapped to IPv6. `None` if it goes to the socket's peer.
#[inline]
pub(crate) fn is_v4(dest: &Dest<'_>) -> Option<bool> {
    match dest {
        Dest::Addr(SocketAddr::V4(_)) => Some(true),
        Dest::Addr(SocketAddr::V6(addr)) => Some(addr.ip().to_ipv4_mapped().is_some()),
        Dest::Unix(_) => Some(false),
        Dest::None => None,
    }
}

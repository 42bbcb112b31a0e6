//! Turns messages into headers, for plain sockets and for GSO.

use std::io;
use std::mem;
use std::net::SocketAddr;

use super::coalesce::{GsoBatch, Joining, Segmenting, has_raw_segment_size, own_segment_size};
use super::msg::SendMsg;
use crate::ancillary::{SendMeta, invalid};
use crate::sys::{self, BorrowedSocket, Dest, Payload, SendHeaders};

/// Fills headers with messages in order, as many as there is room for. Without `segmenting` each message has a header and
/// the options that it asks for. With it, messages form GSO batches, and `batches` describes each header.
///
/// Stops before a message with its own segment size that the kernel must not segment.
///
/// # Errors
///
/// The error of the first message, if it cannot be sent. At a later message that cannot be sent, wiring stops.
pub(crate) fn wire<'a>(
    headers: &mut SendHeaders<'a>,
    batches: &mut Vec<GsoBatch>,
    socket: BorrowedSocket<'_>,
    msgs: &'a [SendMsg<'a>],
    segmenting: Option<Segmenting<'_>>,
) -> io::Result<()> {
    let tos = segmenting.map(|segmenting| segmenting.tos);
    let mut encoder = Encoder { socket, tos, peer_is_v4: None, last: None };
    let mut rest = msgs;
    while let (false, [first, others @ ..]) = (headers.is_full(), rest) {
        if !headers.open(&first.dest, first.payload) {
            let reason = "SendMsg::unix_dest is not a valid Unix address on this platform";
            return unless_first(headers, invalid(reason));
        }
        let mut batch = GsoBatch::single(first.len());
        if let Some(segmenting) = &segmenting {
            if let Some(size) = own_segment_size(first) {
                batch.segment = size.into();
                if !segmenting.permits(first, batch.segment) {
                    break;
                }
            } else if !others.is_empty() && segmenting.permits(first, batch.segment) {
                batch = join(headers, rest, segmenting.max_segments);
            }
        }
        // A segment's length fits 16 bits, since even a whole batch's does.
        let size = batch.is_segmented().then_some(batch.segment as u16);
        if let Err(error) = encoder.write(headers, first, size) {
            return unless_first(headers, error);
        }
        headers.complete();
        if segmenting.is_some() {
            batches.push(batch);
        }
        rest = &rest[batch.messages..];
    }
    Ok(())
}

/// The error of a message that cannot be sent, if it is the first.
#[cold]
fn unless_first(headers: &SendHeaders<'_>, error: io::Error) -> io::Result<()> {
    if headers.len() == 0 { Err(error) } else { Ok(()) }
}

/// Adds the messages that form a GSO batch with the first one to the open header, which has the first payload.
///
/// Payloads that touch in memory become one buffer. The others are copied together: one buffer costs the kernel less
/// than many short ones, and no more than long ones.
#[inline]
fn join<'a>(
    headers: &mut SendHeaders<'a>,
    msgs: &'a [SendMsg<'a>],
    max_segments: usize,
) -> GsoBatch {
    let mut joining = Joining::begin(&msgs[0], max_segments);
    let mut count = 1;
    while let Some(msg) = msgs.get(count) {
        match (msgs[0].payload, msg.payload) {
            (Payload::One(_), Payload::One(data)) if headers.is_next(data) => {
                if !joining.takes(msg) {
                    return joining.batch;
                }
                headers.extend(data);
                count += 1;
            }
            _ => break,
        }
    }
    // Without room to copy the next message, the batch ends here.
    let Some(next) = msgs.get(count) else { return joining.batch };
    let bytes = joining.batch.bytes.saturating_add(next.len());
    if bytes > headers.copies_left() || !joining.takes(next) {
        return joining.batch;
    }
    let (neighbours, others) = msgs.split_at(count);
    headers.copy_with(|space| {
        let (all, mut free) = (space.len(), space);
        neighbours.iter().chain([next]).for_each(|msg| copy(msg, &mut free));
        for msg in &others[1..] {
            if msg.len() > free.len() || !joining.takes(msg) {
                break;
            }
            copy(msg, &mut free);
        }
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

/// Writes options as control messages. Consecutive messages usually have the same options, and then share them.
struct Encoder<'s, 'a> {
    socket: BorrowedSocket<'s>,
    /// Whether messages keep their TOS, on an `Offload`.
    tos: Option<bool>,
    /// Whether a connected socket's peer has an IPv4 address, once known.
    peer_is_v4: Option<bool>,
    last: Option<Encoded<'a>>,
}

/// A message whose options are encoded in a complete header.
struct Encoded<'a> {
    msg: &'a SendMsg<'a>,
    segment_size: Option<u16>,
    /// Whether they are encoded for IPv4; `None` if it makes no difference.
    v4: Option<bool>,
    header: usize,
}

impl<'a> Encoder<'_, 'a> {
    /// Gives the open header the control data of a message. `segment_size` is that of the header's GSO batch.
    #[inline]
    fn write(
        &mut self,
        headers: &mut SendHeaders<'a>,
        msg: &'a SendMsg<'a>,
        segment_size: Option<u16>,
    ) -> io::Result<()> {
        if segment_size.is_none() && msg.has_no_options() {
            return Ok(());
        }
        if let Some(last) = self.last.take() {
            let same = last.segment_size == segment_size
                && last.msg.same_options(msg)
                && last.v4.is_none_or(|v4| v4 == self.is_v4(&msg.dest));
            if same {
                headers.share_control(last.header);
                self.last = Some(last);
                return Ok(());
            }
        }
        self.encode(headers, msg, segment_size)
    }

    fn encode(
        &mut self,
        headers: &mut SendHeaders<'a>,
        msg: &'a SendMsg<'a>,
        segment_size: Option<u16>,
    ) -> io::Result<()> {
        let (mut options, raw) = (msg.options()?, msg.raw_control());
        if let Some(tos) = self.tos {
            options.tos = options.tos.filter(|_| tos);
            // Beside a raw one it stays: the same option twice is an error.
            if !has_raw_segment_size(msg) {
                options.segment_size = segment_size;
            }
        }
        if options == SendMeta::new() {
            headers.set_control(raw);
            return Ok(());
        }
        let v4 = options.depends_on_family().then(|| self.is_v4(&msg.dest));
        headers.encode_control(|space| options.encode(v4.unwrap_or(true), raw, space))?;
        self.last = Some(Encoded { msg, segment_size, v4, header: headers.len() });
        Ok(())
    }

    /// Whether a message goes to an IPv4 address, or to one mapped to IPv6.
    #[inline]
    fn is_v4(&mut self, dest: &Dest<'_>) -> bool {
        match dest {
            Dest::Addr(SocketAddr::V4(_)) => true,
            Dest::Addr(SocketAddr::V6(addr)) => addr.ip().to_ipv4_mapped().is_some(),
            Dest::Unix(_) => false,
            Dest::None => *self.peer_is_v4.get_or_insert_with(|| {
                sys::peer(self.socket).is_some_and(|peer| peer.ip().to_canonical().is_ipv4())
            }),
        }
    }
}

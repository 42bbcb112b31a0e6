//! Turns messages into headers: the one way for slices, iterators and queues, through plain sockets and
//! with GSO.

use super::coalesce::{Limits, Run, Source, segment_size};
use super::content::{MsgOptions, OptionsRef, SendBuffers};
use super::joined::Joined;
use super::outgoing::{Messages, Outgoing};
use crate::ancillary::{SendMeta, Unencodable, append_raw};
use crate::sys::{
    self, BorrowedSocket, DestRef, Extension, GsoBatch, OpenHeader, Others, SendHeaders,
};

/// Wires messages in order, as many as there is capacity for, and joins those that can go as a
/// GSO batch within the limits. Returns why the message after these is not among them, if there is one that
/// cannot be sent.
#[inline]
pub(crate) fn wire<'a, 'm: 'a, M: Outgoing<'m>>(
    headers: &mut SendHeaders<'a>,
    socket: BorrowedSocket<'_>,
    msgs: &mut Source<impl Messages<'m, Item = M>>,
    limits: Limits,
) -> Option<Unencodable> {
    let mut options = OptionsEncoder { socket, peer_is_v4: None, last: None };
    while !msgs.is_empty() {
        let Some(msg) = msgs.take() else {
            msgs.put_back(None);
            break;
        };
        if !headers.has_capacity(buffers_of(&msg)) {
            msgs.put_back(Some(msg));
            break;
        }
        match wire_run(headers, &mut options, &msg, msgs.rest(), limits) {
            Ok(next) => msgs.put_back(next),
            Err(error) => return Some(error),
        }
    }
    None
}

fn buffers_of<'m>(msg: &impl Outgoing<'m>) -> usize {
    match msg.buffers() {
        SendBuffers::One(_) => 1,
        SendBuffers::Many(many) => many.len(),
    }
}

/// Wires a message and those of `msgs` that join it. Returns the message after them.
#[inline(always)]
fn wire_run<'a, 'm: 'a, M: Outgoing<'m>>(
    headers: &mut SendHeaders<'a>,
    options: &mut OptionsEncoder<'_, 'm>,
    msg: &M,
    msgs: &mut impl Messages<'m, Item = M>,
    limits: Limits,
) -> Result<Option<M>, Unencodable> {
    // By itself, so that the compiler makes a shorter version for the common messages: 1 to 2 % of a call's time.
    match msg.unlent() {
        Some((data, inline)) => {
            let (buffers, own) = (SendBuffers::One(data), OptionsRef::Inline(inline));
            wire_parts(headers, options, msg.dest(), buffers, own, msgs, limits)
        }
        None => wire_any(headers, options, msg, msgs, limits),
    }
}

#[inline(never)]
fn wire_any<'a, 'm: 'a, M: Outgoing<'m>>(
    headers: &mut SendHeaders<'a>,
    options: &mut OptionsEncoder<'_, 'm>,
    msg: &M,
    msgs: &mut impl Messages<'m, Item = M>,
    limits: Limits,
) -> Result<Option<M>, Unencodable> {
    let all = msg.options();
    let own = OptionsRef::Any(&all);
    wire_parts(headers, options, msg.dest(), msg.buffers(), own, msgs, limits)
}

/// Wires a message of these parts and those of `msgs` that join it. Returns the message after them.
#[inline(always)]
fn wire_parts<'a, 'm: 'a, M: Outgoing<'m>>(
    headers: &mut SendHeaders<'a>,
    options: &mut OptionsEncoder<'_, 'm>,
    dest: DestRef<'_, 'm>,
    buffers: SendBuffers<'m>,
    own: OptionsRef<'_, 'm>,
    msgs: &mut impl Messages<'m, Item = M>,
    limits: Limits,
) -> Result<Option<M>, Unencodable> {
    let mut header = match buffers {
        SendBuffers::One(data) => headers.push(dest, data),
        SendBuffers::Many(many) => headers.push_gathered(dest, many),
    };
    if let DestRef::Unix(dest) = dest {
        match header.set_unix_dest(dest) {
            Ok(true) => {}
            Ok(false) => return Err(Unencodable::UnixDest),
            Err(_) => return Err(Unencodable::Memory),
        }
    }
    if limits.plain {
        let own = MsgOptions::from(own);
        options.write(&mut header, dest, own, own.segment_size())?;
        let bytes = buffers.len();
        header.complete(GsoBatch { messages: 1, bytes, segment: bytes }, false);
        return Ok(msgs.next());
    }
    let mut run = Run::start(dest, buffers.len(), own, &limits, header.capacity_left());
    // A single message is common, and a batch takes time to begin.
    let next = if !run.is_open() || msgs.size_hint().1 == Some(0) {
        msgs.next()
    } else {
        header.extend(|buffers| run.join(msgs, buffers))
    };

    let own = MsgOptions::from(own);
    // A message with more buffers than the kernel takes is not segmented: the send fails.
    let callers = segment_size(buffers.len(), &own).filter(|_| header.buffers() > 0);
    // It fits a `u16`: the batch, or a message longer than its segment size, is longer than each segment.
    let joined = if run.count() > 1 { Some(run.segment()) } else { None };
    let asks_for = joined
        .or(callers.filter(|size| !limits.reject(*size)))
        .and_then(|size| size.try_into().ok());
    options.write(&mut header, dest, own, asks_for)?;
    let segment = callers.unwrap_or(run.segment());
    let batch = GsoBatch { messages: run.count(), bytes: run.bytes(), segment };
    header.complete(batch, asks_for.is_some());
    Ok(next)
}

impl<'a, 'm: 'a> Joined<'m> for Extension<'_, 'a> {
    #[inline(always)]
    fn join(&mut self, data: &'m [u8]) {
        self.join(data);
    }

    #[inline(always)]
    fn add_part(&mut self, data: &'m [u8]) {
        self.add_part(data);
    }

    #[inline(always)]
    fn join_alike(&mut self, data: &'m [u8], count: usize) -> Others<'_, 'm> {
        self.join_alike(data, count)
    }

    #[inline(always)]
    fn join_copied(&mut self, len: usize) {
        self.join_copied(len);
    }
}

/// Writes messages' options as control messages, and shares them: consecutive messages usually have the
/// same options.
struct OptionsEncoder<'s, 'm> {
    socket: BorrowedSocket<'s>,
    /// Whether a connected socket's peer takes IPv4's control messages, once known.
    peer_is_v4: Option<bool>,
    last: Option<Encoded<'m>>,
}

/// Options that are encoded in a complete header.
#[derive(Clone, Copy)]
struct Encoded<'m> {
    options: MsgOptions<'m>,
    /// The header's segment size, in place of that of the options.
    segment_size: Option<u16>,
    /// Whether they are encoded for IPv4; `None` if it makes no difference.
    v4: Option<bool>,
    header: usize,
}

impl<'m> OptionsEncoder<'_, 'm> {
    /// Gives a header its control data: the caller's control messages, the encoded options with this segment
    /// size, or both.
    #[inline]
    fn write<'a>(
        &mut self,
        header: &mut OpenHeader<'_, 'a>,
        dest: DestRef<'_, '_>,
        options: MsgOptions<'m>,
        segment_size: Option<u16>,
    ) -> Result<(), Unencodable>
    where
        'm: 'a,
    {
        let options = options.without_inline_segment_size();
        if options.is_none() && segment_size.is_none() {
            return Ok(());
        }
        if let Some(last) = self.last {
            if last.segment_size == segment_size
                && last.options.same(&options)
                && last.v4.is_none_or(|v4| v4 == self.is_v4(dest))
            {
                header.share_control(last.header);
                return Ok(());
            }
        }
        let v4 = match segment_size {
            // The usual GSO batch.
            Some(_) if options.is_none() => {
                let none = SendMeta::new();
                header.encode_control(|space| none.encode(None, segment_size, true, space))?;
                None
            }
            _ => match self.encode(header, dest, &options, segment_size)? {
                Some(v4) => v4,
                None => return Ok(()),
            },
        };
        self.last = Some(Encoded { options, segment_size, v4, header: header.index() });
        Ok(())
    }

    /// Returns what to note about the header's own control data, if it has any: see [`Encoded`].
    fn encode<'a>(
        &mut self,
        header: &mut OpenHeader<'_, 'a>,
        dest: DestRef<'_, '_>,
        options: &MsgOptions<'m>,
        segment_size: Option<u16>,
    ) -> Result<Option<Option<bool>>, Unencodable>
    where
        'm: 'a,
    {
        let (lent, ecn) = (options.lent, options.inline.ecn);
        let v4 = if lent.depend_on_family(ecn) { Some(self.is_v4(dest)) } else { None };
        if v4.is_none() && segment_size.is_none() {
            let control = options.control();
            if !control.is_empty() {
                header.set_control(control);
            }
            return Ok(None);
        }
        header.encode_control(|space| {
            let len =
                lent.with_meta(|meta| meta.encode(ecn, segment_size, v4 != Some(false), space))?;
            append_raw(options.control(), len, space)
        })?;
        Ok(Some(v4))
    }

    /// Whether a message goes to an IPv4 address, or to one mapped to IPv6.
    fn is_v4(&mut self, dest: DestRef<'_, '_>) -> bool {
        let peer = || *self.peer_is_v4.get_or_insert_with(|| sys::peer_is_v4(self.socket));
        dest.is_v4().unwrap_or_else(peer)
    }
}

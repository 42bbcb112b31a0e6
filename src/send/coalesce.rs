//! Finding runs of messages that the kernel can send as one GSO batch. No system calls here.

#[cfg(any(test, fuzzing))]
pub(crate) mod tests;

use std::net::SocketAddr;

use super::content::{MsgOptions, OptionsRef, SendBuffers};
use super::joined::{Joined, copy_while, join_all, next_after};
use super::outgoing::{Messages, Outgoing};
use crate::sys::numbers::{self, CmsgType};
use crate::sys::{CONTROL_SPACE, ControlMessages, DestRef, MAX_SEGMENTS, Others};

/// The largest payload of an IPv4 datagram, and so of a GSO batch: 65,535 bytes less the IP and the
/// UDP header (RFC 791, RFC 768).
const MAX_BYTES_V4: usize = 65_535 - 20 - 8;
/// The same of IPv6, whose length field does not count its own header (RFC 8200).
const MAX_BYTES_V6: usize = 65_535 - 8;

/// Which messages of a call are joined, and which segment sizes are offered to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Segments of this length and longer are not offered to the kernel, which has rejected some.
    pub(crate) rejected_len: usize,
    /// The most segments of a GSO batch.
    pub(crate) max_segments: usize,
    /// Whether a message's own segment size goes to the kernel unchecked.
    pub(crate) plain: bool,
}

impl Limits {
    /// No limits beyond the protocol's.
    pub(crate) const NONE: Self =
        Self { rejected_len: usize::MAX, max_segments: MAX_SEGMENTS, plain: false };
    /// No GSO at all: a message with a segment size is segmented in user space.
    pub(crate) const NO_GSO: Self = Self { rejected_len: 0, max_segments: 1, plain: false };
    /// A plain socket: each message has a header of its own, with the options that it asks for.
    pub(crate) const PLAIN: Self = Self { plain: true, ..Self::NO_GSO };

    /// Whether segments of this length are not to be offered to the kernel.
    #[inline]
    pub(crate) fn reject(&self, segment: usize) -> bool {
        segment >= self.rejected_len
    }
}

/// Messages in order, with one of lookahead.
#[derive(Debug)]
pub(crate) struct Source<I: Iterator> {
    msgs: I,
    ahead: Option<I::Item>,
    ended: bool,
}

impl<I: Iterator> Source<I> {
    pub(crate) fn new(msgs: I) -> Self {
        Self { msgs, ahead: None, ended: false }
    }

    /// The next message.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<I::Item> {
        match self.ahead.take() {
            None if self.ended => None,
            None => self.msgs.next(),
            ahead => ahead,
        }
    }

    /// All messages but one that [`put_back`](Self::put_back) has put back.
    #[inline]
    pub(crate) fn rest(&mut self) -> &mut I {
        &mut self.msgs
    }

    /// Puts back the message taken last, or notes the end.
    #[inline]
    pub(crate) fn put_back(&mut self, msg: Option<I::Item>) {
        self.ended = msg.is_none();
        self.ahead = msg;
    }

    /// Whether the end was seen, so that an iterator is not called past its end.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended
    }
}

/// Messages that follow one another and can go as one GSO batch: to one destination, with the same
/// options and control messages, each as long as the first but the last, which may be shorter, and
/// none of them empty.
#[derive(Clone, Copy)]
pub(crate) struct Run<'r, 'm> {
    dest: DestRef<'r, 'm>,
    /// The options of each message.
    options: OptionsRef<'r, 'm>,
    /// Length of each message but the last.
    segment: usize,
    bytes: usize,
    count: usize,
    /// Bytes that further messages may have together. 0 once no further one can follow.
    bytes_left: usize,
    /// Buffers that further messages may have together.
    buffers_left: usize,
}

impl<'r, 'm> Run<'r, 'm> {
    /// Starts a run with a message of `bytes` bytes. If the message can be joined, others with up to `buffers` buffers
    /// together may follow.
    #[inline(always)]
    pub(crate) fn start(
        dest: DestRef<'r, 'm>,
        bytes: usize,
        options: OptionsRef<'r, 'm>,
        limits: &Limits,
        buffers: usize,
    ) -> Self {
        let joins = bytes > 0
            && !matches!(dest, DestRef::Unix(_))
            && !limits.reject(bytes)
            && !are_for_one_datagram(options);
        // No segment is longer than the first, so that the bytes limit their number, too.
        let segments_left = limits.max_segments.saturating_sub(1);
        let most = max_bytes(dest).saturating_sub(bytes).min(segments_left * bytes);
        let bytes_left = if joins { most } else { 0 };
        Self { dest, options, segment: bytes, bytes, count: 1, bytes_left, buffers_left: buffers }
    }

    /// Joins as many of the next messages as fit the batch, and passes their buffers to `joined`. Returns
    /// the message after them.
    #[inline]
    pub(crate) fn join<M: Outgoing<'m>>(
        &mut self,
        msgs: &mut impl Messages<'m, Item = M>,
        joined: &mut impl Joined<'m>,
    ) -> Option<M> {
        let options = self.options;
        loop {
            let next = match options {
                OptionsRef::Inline(own) => self.join_alike(msgs, joined, |msg| {
                    match msg.unlent() {
                        // No message of a run has a segment size of its own.
                        Some((data, inline)) if inline.is_ecn(own.ecn) => Some(data),
                        _ => None,
                    }
                }),
                OptionsRef::Any(options) => self.join_lent(msgs, joined, options),
            };
            match next.as_ref().and_then(|msg| self.take(msg)) {
                // One that is shorter, or elsewhere in memory.
                Some(SendBuffers::One(data)) => joined.join(data),
                Some(many) => {
                    join_all(joined, many);
                    return self.join_any(msgs, joined);
                }
                None => return next,
            }
        }
    }

    /// Joins messages with the run's options, of which some are behind a reference.
    #[inline(never)]
    fn join_lent<M: Outgoing<'m>>(
        &mut self,
        msgs: &mut impl Messages<'m, Item = M>,
        joined: &mut impl Joined<'m>,
        options: &MsgOptions<'m>,
    ) -> Option<M> {
        self.join_alike(msgs, joined, |msg| match with_options(msg, options)? {
            SendBuffers::One(data) => Some(data),
            SendBuffers::Many(_) => None,
        })
    }

    /// Joins messages of any form.
    #[inline(never)]
    fn join_any<M: Outgoing<'m>>(
        &mut self,
        msgs: &mut impl Messages<'m, Item = M>,
        joined: &mut impl Joined<'m>,
    ) -> Option<M> {
        next_after(msgs, |msg| self.take(msg).map(|buffers| join_all(joined, buffers)).is_some())
    }

    /// Joins messages for which `data_of` returns a payload: one buffer, and the run's options.
    #[inline(always)]
    fn join_alike<M: Outgoing<'m>>(
        &mut self,
        msgs: &mut impl Messages<'m, Item = M>,
        joined: &mut impl Joined<'m>,
        data_of: impl Fn(&M) -> Option<&'m [u8]>,
    ) -> Option<M> {
        // One loop for each form of destination, so that no loop branches on it.
        match self.dest {
            DestRef::Addr(Some(&SocketAddr::V4(to))) => self.join_equal(
                msgs,
                joined,
                data_of,
                |dest| matches!(dest, DestRef::Addr(Some(SocketAddr::V4(dest))) if *dest == to),
            ),
            DestRef::Addr(Some(&SocketAddr::V6(to))) => self.join_equal(
                msgs,
                joined,
                data_of,
                |dest| matches!(dest, DestRef::Addr(Some(SocketAddr::V6(dest))) if *dest == to),
            ),
            DestRef::Raw(to) => self.join_equal(
                msgs,
                joined,
                data_of,
                |dest| matches!(dest, DestRef::Raw(dest) if dest.same(to)),
            ),
            to @ (DestRef::Addr(None) | DestRef::Unix(_)) => {
                self.join_equal(msgs, joined, data_of, |dest| is_same(to, dest))
            }
        }
    }

    /// The common case, messages of one length, only counts how many more may follow.
    #[inline(always)]
    fn join_equal<M: Outgoing<'m>>(
        &mut self,
        msgs: &mut impl Messages<'m, Item = M>,
        joined: &mut impl Joined<'m>,
        data_of: impl Fn(&M) -> Option<&'m [u8]>,
        is_dest: impl Fn(DestRef<'_, '_>) -> bool,
    ) -> Option<M> {
        let segment = self.segment;
        let most = match self.bytes_left {
            0 => 0,
            // The most usual: no division.
            left if left >= segment * (MAX_SEGMENTS - 1) => MAX_SEGMENTS - 1,
            left => left / segment,
        };
        let most = most.min(self.buffers_left);
        let mut left = most;
        if let Some(data) = msgs.take_alike(most) {
            joined.join(data);
            left -= data.len() / segment;
        }
        let payload_of = |msg: &M| match data_of(msg) {
            Some(data) if data.len() == segment && is_dest(msg.dest()) => Some(data),
            _ => None,
        };
        let mut next = msgs.next();
        if let Some(data) = next.as_ref().and_then(payload_of).filter(|_| left > 0) {
            left -= 1;
            // A loop for each case, so that it does nothing else: ARCHITECTURE.md has what is gained.
            next = match joined.join_alike(data, left) {
                Others::Copied(space) => {
                    let (next, copied) = copy_while(msgs, space, payload_of);
                    joined.join_copied(copied);
                    left -= copied / segment;
                    next
                }
                Others::Adjacent(mut last) => next_after(msgs, |msg| {
                    let joins = left > 0 && payload_of(msg).is_some_and(|data| last.join(data));
                    left -= usize::from(joins);
                    joins
                }),
                Others::Apart => next_after(msgs, |msg| {
                    let data = payload_of(msg).filter(|_| left > 0);
                    data.map(|data| joined.join(data)).inspect(|()| left -= 1).is_some()
                }),
            };
        }
        let count = most - left;
        self.count += count;
        self.bytes += count * segment;
        self.bytes_left -= count * segment;
        self.buffers_left -= count;
        if self.count == MAX_SEGMENTS {
            self.bytes_left = 0;
        }
        next
    }

    /// Joins the next message if it fits the batch, and returns its buffers.
    fn take(&mut self, msg: &impl Outgoing<'m>) -> Option<SendBuffers<'m>> {
        if self.bytes_left == 0 {
            return None;
        }
        let buffers = match self.options {
            OptionsRef::Inline(own) => with_options(msg, &MsgOptions::from(*own))?,
            OptionsRef::Any(options) => with_options(msg, options)?,
        };
        let (len, used) = match buffers {
            SendBuffers::One(data) => (data.len(), 1),
            SendBuffers::Many(many) => (buffers.len(), many.len()),
        };
        let fits = len <= self.segment && len <= self.bytes_left && used <= self.buffers_left;
        if len == 0 || !fits || !is_same(self.dest, msg.dest()) {
            return None;
        }
        self.count += 1;
        self.bytes += len;
        self.buffers_left -= used;
        let over = len < self.segment || self.count == MAX_SEGMENTS;
        self.bytes_left = if over { 0 } else { self.bytes_left - len };
        Some(buffers)
    }

    /// Whether a message may follow.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.bytes_left > 0 && self.buffers_left > 0
    }

    /// Where all of it goes.
    #[inline(always)]
    pub(crate) fn dest(&self) -> DestRef<'r, 'm> {
        self.dest
    }

    /// Messages in it.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Length of each message but the last, which may be shorter.
    pub(crate) fn segment(&self) -> usize {
        self.segment
    }

    /// Length of all together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The buffers of a message, if it has these options and control messages.
#[inline(always)]
fn with_options<'m>(msg: &impl Outgoing<'m>, options: &MsgOptions<'_>) -> Option<SendBuffers<'m>> {
    msg.options().same(options).then(|| msg.buffers())
}

/// The message's own segment size, if it yields more than one datagram.
///
/// 0 means none, as in the kernel. A size that the payload does not exceed is dropped, since some
/// devices reject it (`EIO`).
pub(crate) fn segment_size(len: usize, options: &MsgOptions<'_>) -> Option<usize> {
    let size = usize::from(options.segment_size()?);
    let is_used = size > 0 && size < len && !has(options.control(), &[numbers::SEGMENT]);
    is_used.then_some(size)
}

/// Whether options would mean something else for a batch than for each datagram, or do not fit beside
/// the control message of its segment size.
#[inline(always)]
fn are_for_one_datagram(options: OptionsRef<'_, '_>) -> bool {
    match options {
        OptionsRef::Inline(inline) => inline.segment_size().is_some(),
        OptionsRef::Any(options) => any_are_for_one_datagram(options),
    }
}

fn any_are_for_one_datagram(options: &MsgOptions<'_>) -> bool {
    let control = options.control();
    options.segment_size().is_some()
        || options.timestamp_id().is_some()
        || control.len() > CONTROL_SPACE / 2
        || has(control, &[numbers::SEGMENT, numbers::TIMESTAMPING, numbers::STAMP_NUMBER])
}

fn has(control: &[u8], any: &[Option<CmsgType>]) -> bool {
    !control.is_empty()
        && ControlMessages::new(control)
            .any(|message| any.contains(&Some((message.level, message.ty))))
}

/// Whether both are one Internet destination, or none. Those of one send all have the same form.
#[inline]
fn is_same(one: DestRef<'_, '_>, other: DestRef<'_, '_>) -> bool {
    match (one, other) {
        (DestRef::Addr(one), DestRef::Addr(other)) => one == other,
        (DestRef::Raw(one), DestRef::Raw(other)) => one.same(other),
        _ => false,
    }
}

/// The most bytes of a GSO batch to `dest`. The family of a connected socket's peer is unknown here, so
/// the lower limit applies.
#[inline]
fn max_bytes(dest: DestRef<'_, '_>) -> usize {
    if dest.is_v4() == Some(false) { MAX_BYTES_V6 } else { MAX_BYTES_V4 }
}

//! Which messages the kernel can send as one GSO batch. No system calls here.

#[cfg(any(test, fuzzing))]
pub(crate) mod tests;

use super::msg::SendMsg;
use crate::sys::numbers::{self, CmsgType};
use crate::sys::{CONTROL_SPACE, ControlMessages, Dest};

/// The largest payload of an IPv4 datagram, and so of a GSO batch: 65,535 bytes less the IP and the UDP header (RFC
/// 791, RFC 768). IPv6 allows 20 bytes more, but Linux rejects such a batch on some devices.
pub(crate) const MAX_BATCH_BYTES: usize = 65_535 - 20 - 8;

/// How an `Offload` sends the messages of a call.
#[derive(Clone, Copy)]
pub(crate) struct Segmenting<'s> {
    /// The maximum number of messages in a GSO batch; 0 while GSO is off.
    pub(crate) max_segments: usize,
    /// Whether messages keep their TOS. Some kernels reject it.
    pub(crate) tos: bool,
    /// Destinations and segment sizes that the kernel rejected. Longer segments would not pass either.
    pub(crate) rejected: &'s [(Dest<'s>, usize)],
    /// The size from which segments to any destination go singly.
    pub(crate) singly_from: usize,
}

impl Segmenting<'_> {
    /// Whether the kernel may segment `msg` into segments of this size.
    #[inline]
    pub(crate) fn permits(&self, msg: &SendMsg<'_>, segment: usize) -> bool {
        let was_rejected = |(dest, size): &(Dest<'_>, usize)| *dest == msg.dest && segment >= *size;
        self.max_segments > 0
            && segment < self.singly_from
            && !self.rejected.iter().any(was_rejected)
    }
}

/// The messages of one header: a single one, or several as a GSO batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GsoBatch {
    /// The number of messages.
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    /// Length of each datagram but the last, which may be shorter.
    pub(crate) segment: usize,
}

impl GsoBatch {
    /// A message that is one datagram.
    pub(crate) fn single(bytes: usize) -> Self {
        Self { messages: 1, bytes, segment: bytes }
    }

    /// Whether it is more than one datagram.
    pub(crate) fn is_segmented(&self) -> bool {
        self.bytes > self.segment
    }

    /// The number of datagrams.
    pub(crate) fn datagrams(&self) -> usize {
        if self.is_segmented() { self.bytes.div_ceil(self.segment) } else { 1 }
    }
}

/// A GSO batch to which messages are added. All have the same destination, the same settings and the length of the
/// first; the last may be shorter. None is empty.
pub(crate) struct Joining<'r, 'm> {
    first: &'r SendMsg<'m>,
    pub(crate) batch: GsoBatch,
    /// How many messages may still join.
    left: usize,
}

impl<'r, 'm> Joining<'r, 'm> {
    /// Begins a batch of up to `max_segments` messages with the first.
    #[inline]
    pub(crate) fn begin(first: &'r SendMsg<'m>, max_segments: usize) -> Self {
        let batch = GsoBatch::single(first.len());
        // With this limit, no later sum of lengths overflows.
        let joins =
            (1..=MAX_BATCH_BYTES).contains(&batch.bytes) && max_segments > 1 && may_join(first);
        Self { first, batch, left: if joins { max_segments - 1 } else { 0 } }
    }

    /// Adds the next message if it fits the batch. Returns whether it did.
    #[inline(always)]
    pub(crate) fn takes(&mut self, msg: &SendMsg<'_>) -> bool {
        let (len, segment) = (msg.len(), self.batch.segment);
        let joins = self.left > 0
            && len > 0
            && len <= segment
            && self.batch.bytes + len <= MAX_BATCH_BYTES
            && msg.dest == self.first.dest
            && msg.same_settings(self.first);
        if joins {
            self.batch.messages += 1;
            self.batch.bytes += len;
            self.left = if len < segment { 0 } else { self.left - 1 };
        }
        joins
    }
}

/// The message's explicit segment size, if it yields more than one datagram.
///
/// 0 means none, as in the kernel. A size that the payload does not exceed is dropped, since some
/// devices reject it (`EIO`).
#[inline]
pub(crate) fn explicit_segment_size(msg: &SendMsg<'_>) -> Option<u16> {
    let size = msg.segment_size?;
    (size > 0 && usize::from(size) < msg.len()).then_some(size)
}

/// Whether the message's raw control messages have a segment size.
#[inline]
pub(crate) fn has_raw_segment_size(msg: &SendMsg<'_>) -> bool {
    has(msg.raw_control(), &[numbers::SEGMENT])
}

/// Whether the message's settings mean the same for a whole batch, and leave space for a segment size.
fn may_join(msg: &SendMsg<'_>) -> bool {
    let control = msg.raw_control();
    msg.segment_size.is_none()
        && msg.meta.is_none_or(|meta| meta.timestamp_id.is_none())
        && control.len() <= CONTROL_SPACE / 2
        && !has(control, &[numbers::SEGMENT, numbers::TIMESTAMPING, numbers::STAMP_NUMBER])
}

#[inline]
fn has(control: &[u8], any: &[Option<CmsgType>]) -> bool {
    !control.is_empty()
        && ControlMessages::new(control)
            .any(|message| any.contains(&Some((message.level, message.ty))))
}

//! The length and the losses of a received message, and where it is split into its datagrams. No I/O here.

use std::num::NonZero;

use super::datagram::Envelope;
use crate::sys::{RecvResult, numbers};

/// The length, the segment size and the losses of one received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes in the buffers.
    pub(crate) len: usize,
    /// Length of a coalesced message's segments; `None` for a single datagram.
    pub(crate) segment_size: Option<NonZero<usize>>,
    /// Whether payload is missing (`MSG_TRUNC`).
    data_truncated: bool,
    /// Whether control messages are missing (`MSG_CTRUNC`).
    pub(super) control_truncated: bool,
    /// Whether the segment size may be among them: the datagram boundaries are then unknown.
    boundaries_lost: bool,
}

impl Received {
    /// From the system's result, for a buffer of `capacity` bytes.
    #[inline]
    pub(super) fn new(result: &RecvResult, capacity: usize, envelope: &Envelope<'_>) -> Self {
        let whole = Self {
            len: result.len.min(capacity),
            segment_size: envelope.meta.segment_size.and_then(|size| NonZero::new(size.into())),
            data_truncated: result.truncated,
            control_truncated: result.control_truncated,
            boundaries_lost: false,
        };
        if result.control_truncated { whole.without_control(envelope) } else { whole }
    }

    /// By value, so the common path keeps these in registers.
    #[cold]
    fn without_control(self, envelope: &Envelope<'_>) -> Self {
        // Only Internet sockets coalesce, and their messages have a source.
        let is_inet = || envelope.source.get().is_some();
        let boundaries_lost = numbers::GRO.is_some() && self.segment_size.is_none() && is_inet();
        Self { boundaries_lost, ..self }
    }

    #[inline]
    pub(crate) fn truncated(&self) -> bool {
        self.data_truncated || self.boundaries_lost
    }
}

/// Where a message is split into its datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    /// Whether another datagram follows; an empty message yields one.
    more: bool,
    /// Length of each segment but the last.
    segment: usize,
    /// Whether bytes are missing at the message's end: its last datagram is then incomplete or empty.
    truncated: bool,
}

impl Split {
    /// Nothing follows.
    pub(super) const NONE: Self = Self { more: false, segment: 0, truncated: false };

    /// Returns the split of a message, and how many of its bytes to split: 0 if the datagram boundaries are unknown.
    #[inline]
    pub(crate) fn new(received: &Received) -> (Self, usize) {
        let segment = received.segment_size.map_or(usize::MAX, NonZero::get);
        let split = Self { more: true, segment, truncated: received.truncated() };
        (split, if received.boundaries_lost { 0 } else { received.len })
    }

    /// The length of the next datagram, if `left` bytes are left, and whether it is truncated.
    #[inline(always)]
    pub(super) fn next(&mut self, left: usize) -> Option<(usize, bool)> {
        if !self.more {
            return None;
        }
        let len = self.segment.min(left);
        // In a truncated message another datagram follows a whole segment even if no bytes are left.
        self.more = left > len || (self.truncated && len == self.segment);
        Some((len, self.truncated && !self.more))
    }

    /// The number of datagrams to come, if `left` bytes are left.
    #[inline]
    pub(crate) fn count(&self, left: usize) -> usize {
        match (self.more, self.truncated) {
            (false, _) => 0,
            (true, false) => left.div_ceil(self.segment).max(1),
            (true, true) => left / self.segment + 1,
        }
    }
}

#[cfg(all(test, linux_like))]
mod tests {
    use super::*;
    use crate::ancillary::RecvMeta;
    use crate::sys::RawAddr;

    /// Only a message that may be coalesced, and whose segment size is missing, has unknown boundaries.
    #[test]
    fn r4_datagram_boundaries_are_unknown_only_without_the_segment_size() {
        let size = |segment_size| RecvMeta { segment_size, ..RecvMeta::default() };
        for (control_truncated, meta, from_inet, lost) in [
            (true, size(None), true, true),
            (true, size(Some(7)), true, false),
            (true, size(None), false, false),
            (false, size(None), true, false),
        ] {
            let result = RecvResult { control_truncated, ..RecvResult::of(20, 20) };
            let source = RawAddr::new(from_inet.then_some(&([127, 0, 0, 1], 53).into()));
            let received = Received::new(&result, 20, &Envelope::new(source.lend(), &meta));
            assert_eq!(received.boundaries_lost, lost, "{meta:?} {from_inet}");
            assert_eq!(
                (received.truncated(), received.control_truncated),
                (lost, control_truncated)
            );
            let size = meta.segment_size.map(usize::from);
            assert_eq!(received.segment_size.map(NonZero::get), size);
        }
    }
}

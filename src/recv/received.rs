//! The lengths and losses of a received message.

use std::num::NonZero;

use crate::ancillary::RecvMeta;
use crate::sys::{RawAddrRef, RecvEntry, RecvResult, numbers};

/// The length, the segment size and the losses of one received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Length that the system reported: more than the buffers' capacity if it reports the full length
    /// of a truncated message.
    pub(crate) reported: usize,
    /// Length of a coalesced message's segments; `None` for a single datagram.
    pub(crate) segment_size: Option<NonZero<usize>>,
    pub(crate) truncation: Truncation,
}

/// What a message lost because its buffers were too small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truncation {
    /// Payload (`MSG_TRUNC`).
    pub(crate) data: bool,
    /// Control messages (`MSG_CTRUNC`).
    pub(crate) control: bool,
    /// The segment size: the message may be coalesced, and its datagram boundaries are unknown.
    pub(crate) segment_size: bool,
}

impl Truncation {
    pub(crate) const NONE: Self = Self { data: false, control: false, segment_size: false };

    /// Takes values: references would keep them out of registers in the usual case, too.
    #[cold]
    fn of(data: bool, control: bool, has_segment_size: bool, source: RawAddrRef<'_>) -> Self {
        // Only Internet sockets coalesce, and their messages have a source.
        let may_be_coalesced =
            numbers::GRO.is_some() && !has_segment_size && source.get().is_some();
        Self { data, control, segment_size: control && may_be_coalesced }
    }
}

impl Received {
    pub(crate) const NONE: Self =
        Self { reported: 0, segment_size: None, truncation: Truncation::NONE };

    /// From the system's result, the decoded metadata and the source.
    #[inline]
    pub(crate) fn new<'a>(
        result: &RecvResult,
        meta: &RecvMeta,
        source: impl FnOnce() -> RawAddrRef<'a>,
    ) -> Self {
        let segment_size = meta.segment_size.and_then(|size| NonZero::new(size.into()));
        let truncation = if !result.truncated && !result.control_truncated {
            Truncation::NONE
        } else {
            let (data, control) = (result.truncated, result.control_truncated);
            Truncation::of(data, control, segment_size.is_some(), source())
        };
        Self { reported: result.len, segment_size, truncation }
    }

    /// From a header after a receive and its decoded control data.
    #[inline]
    pub(crate) fn of_entry(entry: &RecvEntry<'_>, meta: &RecvMeta) -> Self {
        Self::new(&entry.result, meta, || entry.source())
    }

    /// The message's full length, if known, when `len` bytes are in the buffers.
    pub(crate) fn full_len(&self, len: usize) -> Option<usize> {
        (!self.truncation.data || self.reported > len).then_some(self.reported)
    }

    /// How many bytes are missing at the message's end, when `len` bytes are in the buffers.
    #[inline]
    pub(crate) fn missing(&self, len: usize) -> Missing {
        match self.full_len(len) {
            _ if !self.truncated() => Missing::NOTHING,
            Some(full_len) if !self.truncation.segment_size => Missing(full_len - len),
            _ => Missing::UNKNOWN,
        }
    }

    #[inline]
    pub(crate) fn truncated(&self) -> bool {
        self.truncation.data || self.truncation.segment_size
    }
}

/// How many bytes a message or a datagram lacks at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing(usize);

impl Missing {
    pub(crate) const NOTHING: Self = Self(0);
    /// At least one byte; the system did not report how many.
    const UNKNOWN: Self = Self(usize::MAX);

    #[inline(always)]
    pub(crate) fn is_truncated(self) -> bool {
        self != Self::NOTHING
    }

    /// The length before truncation, when `len` bytes were received.
    #[inline]
    pub(crate) fn full_len(self, len: usize) -> Option<usize> {
        (self != Self::UNKNOWN).then(|| len + self.0)
    }

    /// The part missing from the last segment, which has `len` bytes: at most the rest of the segment.
    #[inline(always)]
    pub(crate) fn of_last_segment(self, len: usize, segment: usize) -> Self {
        if self == Self::UNKNOWN { self } else { Self(self.0.min(segment - len)) }
    }
}

#[cfg(all(test, linux_like))]
mod tests {
    use super::*;
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
            let result = RecvResult {
                len: 20,
                truncated: false,
                control_truncated,
                source_len: 16,
                control_len: 0,
            };
            let source = RawAddr::new(from_inet.then_some(&([127, 0, 0, 1], 53).into()));
            let received = Received::new(&result, &meta, || source.lend());
            assert_eq!(received.truncation.segment_size, lost, "{meta:?} {from_inet}");
            assert_eq!(
                (received.truncated(), received.truncation.control),
                (lost, control_truncated)
            );
            let size = meta.segment_size.map(usize::from);
            assert_eq!(received.segment_size.map(NonZero::get), size);
        }
    }
}

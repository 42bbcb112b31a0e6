//! What a receive reports about a message beside its bytes: lengths, losses, metadata, and how to answer it.

use std::net::SocketAddr;

use crate::ancillary::RecvMeta;
use crate::send::msg::SendMsg;
use crate::sys::{RawAddrRef, RecvResult, UnixAddr, numbers};

/// What a receive call reports about one message, besides its payload and its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Length that the system reported: more than the buffers' capacity if it reports the full length
    /// of a truncated message.
    pub(crate) reported: usize,
    /// Length of a coalesced message's segments; `None` for a single datagram.
    pub(crate) segment_size: Option<u16>,
    pub(crate) truncation: Truncation,
    /// Whether control messages came with it.
    pub(crate) has_meta: bool,
}

/// A message's metadata; borrowed, since it is large and often empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta<'a> {
    decoded: &'a RecvMeta,
    /// The control messages, if they are in memory.
    pub(crate) raw: &'a [u8],
}

static NO_META: RecvMeta = RecvMeta::NONE;

impl<'a> Meta<'a> {
    #[inline(always)]
    pub(crate) fn new(decoded: Option<&'a RecvMeta>, raw: &'a [u8]) -> Self {
        Self { decoded: decoded.unwrap_or(&NO_META), raw }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> RecvMeta {
        *self.decoded
    }
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
}

impl Received {
    pub(crate) const NONE: Self =
        Self { reported: 0, segment_size: None, truncation: Truncation::NONE, has_meta: false };

    /// What the system reported, with the metadata decoded from the control data, if there is any;
    /// `from_inet` returns whether the source is an Internet address.
    #[inline]
    pub(crate) fn new(
        result: &RecvResult,
        meta: Option<&RecvMeta>,
        from_inet: impl FnOnce() -> bool,
    ) -> Self {
        let segment_size = meta.and_then(|meta| meta.segment_size).filter(|size| *size > 0);
        let control = result.control_truncated;
        let truncation = Truncation {
            data: result.truncated,
            control,
            // Only Internet sockets coalesce, and their messages have a source.
            segment_size: control
                && numbers::GRO.is_some()
                && segment_size.is_none()
                && from_inet(),
        };
        Self { reported: result.len, segment_size, truncation, has_meta: meta.is_some() }
    }

    /// The message's full length, of which `len` bytes are in the buffers.
    pub(crate) fn full_len(&self, len: usize) -> Option<usize> {
        (!self.truncation.data || self.reported > len).then_some(self.reported)
    }

    /// What the message's last datagram lacks, at least, if `len` bytes are in the buffers.
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

    #[inline]
    pub(crate) fn control_truncated(&self) -> bool {
        self.truncation.control
    }
}

/// How many bytes a message or a datagram lacks at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing(usize);

impl Missing {
    pub(crate) const NOTHING: Self = Self(0);
    /// More than none, and the system did not report how many.
    const UNKNOWN: Self = Self(usize::MAX);

    #[inline(always)]
    pub(crate) fn is_truncated(self) -> bool {
        self != Self::NOTHING
    }

    /// The length before truncation, if `len` bytes are left.
    #[inline]
    pub(crate) fn full_len(self, len: usize) -> Option<usize> {
        (self != Self::UNKNOWN).then(|| len + self.0)
    }

    /// What a segment of `len` bytes lacks that ends the message: no more than makes it whole.
    #[inline(always)]
    pub(crate) fn of_last(self, len: usize, segment: usize) -> Self {
        if self == Self::UNKNOWN { self } else { Self(self.0.min(segment - len)) }
    }
}

/// A datagram with `data` to `source`, if `source` can be answered.
pub(crate) fn reply<'d>(
    source: RawAddrRef<'d>,
    meta: Meta<'d>,
    data: &'d [u8],
) -> Option<SendMsg<'d>> {
    // Source port 0 means that no reply is expected (RFC 768). 0.0.0.0 is never a destination (RFC
    // 1122, section 3.2.1.3).
    let answerable =
        |source: &SocketAddr| source.port() != 0 && !source.ip().to_canonical().is_unspecified();
    let msg = match source.get() {
        Some(source) => Some(source).filter(answerable).map(|source| SendMsg::to(source, data)),
        None => match source.unix() {
            Some(UnixAddr::Unnamed) | None => None,
            Some(source) => Some(SendMsg::to_unix(source, data)),
        },
    }?;
    let RecvMeta { local, destination, .. } = meta.decoded;
    let has_dest = local.is_some() || destination.is_some();
    Some(if has_dest { msg.with_reply(meta.decoded) } else { msg })
}

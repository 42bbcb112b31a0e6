//! Datagrams of a queue that are alike, as one entry, and what each of them takes.

use std::net::SocketAddr;

use super::error::PushError;
use crate::ancillary::{ControlBuf, SendMeta};
use crate::send::content::{InlineOptions, LentOptions};
use crate::send::msg::SendMsg;
use crate::sys::{DestRef, RawAddr, UnixAddr, UnixAddrBuf};

/// Datagrams that were pushed one after another: to one destination, with the same options, each as long as the
/// first but the last, which may be shorter. An empty datagram is alone. So a push compares and adds bytes, and most of
/// a GSO batch is found.
#[derive(Clone, Copy)]
pub(super) struct QueueEntry {
    /// The Internet destination.
    pub(super) dest: RawAddr,
    pub(super) inline: InlineOptions,
    /// Length of each datagram but the last.
    pub(super) segment: u32,
    /// Where its options are, plus 1.
    pub(super) option: u32,
    pub(super) stored: Stored,
    /// Bytes of the Unix destination.
    pub(super) name_len: u8,
    /// Whether a datagram may follow.
    pub(super) open: bool,
    /// Whether it is the entry before it to another destination, and stores nothing.
    pub(super) repeats: bool,
    pub(super) start: usize,
    /// Bytes of all its datagrams.
    pub(super) len: usize,
}

/// The options that a stage has for an entry, beside those in the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    None,
    Meta,
    Control,
}

impl Stored {
    /// Bytes of these options in the stage.
    #[inline]
    fn size(self) -> usize {
        match self {
            Self::None => 0,
            Self::Meta => size_of::<SendMeta>(),
            Self::Control => size_of::<ControlBuf<'_>>(),
        }
    }
}

impl QueueEntry {
    /// One datagram of this length.
    #[inline(always)]
    pub(super) fn of(len: u32) -> Self {
        Self {
            dest: RawAddr::NONE,
            inline: InlineOptions::NONE,
            segment: len,
            option: 0,
            stored: Stored::None,
            name_len: 0,
            open: true,
            repeats: false,
            start: 0,
            len: len as usize,
        }
    }

    /// Whether a datagram of this length, with options that the stage stores like this, can follow.
    #[inline(always)]
    pub(super) fn takes(
        &self,
        dest: Option<&SocketAddr>,
        len: usize,
        inline: &InlineOptions,
        stored: Stored,
    ) -> bool {
        self.open
            && len <= self.segment as usize
            && len > 0
            && self.inline == *inline
            && self.stored == stored
            && self.dest.is(dest)
    }

    #[inline(always)]
    pub(super) fn add(&mut self, len: usize) {
        self.len += len;
        self.open = len == self.segment as usize;
    }

    /// How many datagrams are in its last `bytes` bytes.
    #[inline]
    pub(super) fn count(&self, bytes: usize) -> usize {
        let segment = self.segment as usize;
        if bytes <= segment { 1 } else { bytes.div_ceil(segment) }
    }

    /// What `count` of its datagrams, of `bytes` bytes together, count against the bound.
    #[inline]
    pub(super) fn counted(&self, count: usize, bytes: usize) -> usize {
        if self.repeats {
            return count * OVERHEAD;
        }
        bytes + count * (OVERHEAD + self.stored.size() + usize::from(self.name_len))
    }
}

/// Bytes that each datagram counts beside its payload: those of an entry, since each may be one.
pub(super) const OVERHEAD: usize = size_of::<QueueEntry>();

/// What a datagram takes in a queue.
pub(super) struct Size {
    /// Bytes of payload.
    pub(super) len: u32,
    /// Bytes of a Unix destination.
    pub(super) name_len: u8,
    /// Bytes counted against the bound.
    pub(super) counted: usize,
}

impl Size {
    /// # Errors
    ///
    /// `TooLong` for lengths that cannot be counted: no system sends so much. `NoAddress`.
    #[inline]
    pub(super) fn of(msg: &SendMsg<'_>) -> Result<Self, PushError> {
        let name = match msg.dest_ref() {
            DestRef::Unix(dest) => name_len(dest)?,
            _ => 0,
        };
        let options = match msg.options().lent {
            LentOptions::None => Stored::None,
            LentOptions::Meta(_) | LentOptions::Reply(_) => Stored::Meta,
            LentOptions::Control(_) => Stored::Control,
        };
        let (len, rest) = (msg.len(), options.size() + name + OVERHEAD);
        match (len.try_into(), name.try_into(), len.checked_add(rest)) {
            (Ok(len), Ok(name_len), Some(counted)) => Ok(Self { len, name_len, counted }),
            _ => Err(PushError::TooLong),
        }
    }
}

#[cold]
fn name_len(dest: UnixAddr<'_>) -> Result<usize, PushError> {
    Ok(UnixAddrBuf::encode(dest).ok_or(PushError::NoAddress)?.as_bytes().len())
}

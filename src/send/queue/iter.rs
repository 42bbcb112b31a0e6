//! The datagrams of a stage in the order of sending.

use super::entry::{QueueEntry, Stored};
use super::stage::Stage;
use crate::send::content::{InlineOptions, LentOptions, MsgOptions, SendBuffers};
use crate::send::msg::SendMsg;
use crate::send::outgoing::{Messages, Outgoing};
use crate::sys::{self, DestRef};

impl Stage {
    #[inline]
    pub(super) fn iter(&self) -> StageIter<'_> {
        StageIter { stage: self, next: self.first, gone: self.gone, entry: None, rest: &[] }
    }

    /// The options of an entry beside those in the entry.
    #[inline]
    fn lent_options(&self, entry: &QueueEntry) -> LentOptions<'_> {
        match entry.stored {
            Stored::None => LentOptions::None,
            Stored::Meta => LentOptions::Meta(&self.metas[entry.option as usize - 1]),
            Stored::Control => LentOptions::Control(&self.controls[entry.option as usize - 1]),
        }
    }

    /// The Unix destination of an entry.
    #[cold]
    fn unix_dest(&self, entry: &QueueEntry) -> DestRef<'_, '_> {
        let name = &self.payload[entry.start + entry.len..][..entry.name_len.into()];
        sys::unix_addr(name).map_or(DestRef::Addr(None), DestRef::Unix)
    }

    /// Writes the first datagrams as `SendMsg`s, as many as there is memory for, and returns how many. Decodes a
    /// destination once for those that are alike.
    pub(super) fn fill<'a>(&'a self, msgs: &mut [SendMsg<'a>]) -> usize {
        let (mut datagrams, mut count) = (self.iter(), 0);
        while count < msgs.len() {
            let Some(first) = datagrams.next() else { break };
            let first = first.to_msg();
            msgs[count] = first;
            count += 1;
            let alike = datagrams.take_alike(msgs.len() - count).unwrap_or_default();
            let alike = alike.chunks_exact(first.len().max(1));
            count += alike.len();
            let slots = msgs[count - alike.len()..].iter_mut();
            slots.zip(alike).for_each(|(slot, data)| *slot = first.with_data(data));
        }
        count
    }
}

/// Iterates over a stage in the order of sending. A type of its own, so that `next` is inlined: what it returns is
/// read at once.
pub(super) struct StageIter<'a> {
    stage: &'a Stage,
    /// The entry after the present one, and how many of its bytes to leave out.
    next: usize,
    gone: usize,
    /// The present entry, and its bytes that are left.
    entry: Option<&'a QueueEntry>,
    rest: &'a [u8],
}

impl<'a> StageIter<'a> {
    /// Goes on to the next entry.
    #[inline]
    fn begin(&mut self) -> Option<&'a QueueEntry> {
        let entry = self.stage.entry(self.next)?;
        self.rest = &self.stage.payload[entry.start..][self.gone..entry.len];
        (self.entry, self.gone) = (Some(entry), 0);
        self.next += 1;
        self.entry
    }
}

impl<'a> Iterator for StageIter<'a> {
    type Item = Queued<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Queued<'a>> {
        let entry = if self.rest.is_empty() { self.begin()? } else { self.entry? };
        let (data, rest) = self.rest.split_at(self.rest.len().min(entry.segment as usize));
        self.rest = rest;
        Some(Queued { stage: self.stage, entry, data })
    }
}

impl<'a> Messages<'a> for StageIter<'a> {
    #[inline]
    fn take_alike(&mut self, most: usize) -> Option<&'a [u8]> {
        // The last one may be shorter; an empty one is alone.
        let segment = self.entry?.segment as usize;
        let count = self.rest.len().checked_div(segment)?.min(most);
        let (data, rest) = self.rest.split_at(count * segment);
        self.rest = rest;
        (count > 0).then_some(data)
    }
}

/// A datagram in a stage, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Queued<'a> {
    stage: &'a Stage,
    entry: &'a QueueEntry,
    data: &'a [u8],
}

impl<'a> Outgoing<'a> for Queued<'a> {
    #[inline]
    fn dest(&self) -> DestRef<'_, 'a> {
        match self.entry.name_len {
            0 => DestRef::Raw(self.entry.dest.lend()),
            _ => self.stage.unix_dest(self.entry),
        }
    }

    #[inline]
    fn buffers(&self) -> SendBuffers<'a> {
        SendBuffers::One(self.data)
    }

    #[inline]
    fn options(&self) -> MsgOptions<'a> {
        MsgOptions { lent: self.stage.lent_options(self.entry), inline: self.entry.inline }
    }

    #[inline]
    fn unlent(&self) -> Option<(&'a [u8], &InlineOptions)> {
        let is_unlent = self.entry.stored == Stored::None;
        is_unlent.then_some((self.data, &self.entry.inline))
    }

    #[inline(always)]
    fn to_msg(&self) -> SendMsg<'a> {
        SendMsg::from_parts(self.dest(), self.data, self.options())
    }
}

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
        StageIter {
            stage: self,
            next: self.first,
            gone: self.gone,
            rest: &[],
            segment: 0,
            dest: DestRef::Addr(None),
            options: MsgOptions::NONE,
        }
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
    /// Of the present entry: the bytes left, and what each datagram has.
    rest: &'a [u8],
    segment: usize,
    dest: DestRef<'a, 'a>,
    options: MsgOptions<'a>,
}

impl<'a> StageIter<'a> {
    /// Goes on to the next entry.
    #[inline]
    fn begin(&mut self, entry: &'a QueueEntry) {
        let Stage { payload, metas, controls, .. } = self.stage;
        let lent = match entry.stored {
            Stored::None => LentOptions::None,
            Stored::Meta => LentOptions::Meta(&metas[entry.option as usize - 1]),
            Stored::Control => LentOptions::Control(&controls[entry.option as usize - 1]),
        };
        self.dest = match entry.name_len {
            0 => DestRef::Raw(entry.dest.lend()),
            len => stored_name(&payload[entry.start + entry.len..][..len.into()]),
        };
        self.options = MsgOptions { lent, inline: entry.inline };
        self.rest = &payload[entry.start..][self.gone..entry.len];
        (self.segment, self.gone) = (entry.segment as usize, 0);
        self.next += 1;
    }
}

#[cold]
fn stored_name<'s>(name: &'s [u8]) -> DestRef<'s, 's> {
    sys::unix_addr(name).map_or(DestRef::Addr(None), DestRef::Unix)
}

impl<'a> Iterator for StageIter<'a> {
    type Item = Queued<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Queued<'a>> {
        if self.rest.is_empty() {
            self.begin(self.stage.entry(self.next)?);
        }
        let (data, rest) = self.rest.split_at(self.segment.min(self.rest.len()));
        self.rest = rest;
        Some(Queued { dest: self.dest, data, options: self.options })
    }
}

impl<'a> Messages<'a> for StageIter<'a> {
    #[inline]
    fn take_alike(&mut self, most: usize) -> Option<&'a [u8]> {
        // The last one may be shorter; an empty one is alone.
        let count = self.rest.len().checked_div(self.segment)?.min(most);
        let (data, rest) = self.rest.split_at(count * self.segment);
        self.rest = rest;
        (count > 0).then_some(data)
    }
}

/// A datagram in a stage, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Queued<'a> {
    dest: DestRef<'a, 'a>,
    data: &'a [u8],
    options: MsgOptions<'a>,
}

impl<'a> Outgoing<'a> for Queued<'a> {
    #[inline]
    fn dest(&self) -> DestRef<'_, 'a> {
        self.dest
    }

    #[inline]
    fn buffers(&self) -> SendBuffers<'a> {
        SendBuffers::One(self.data)
    }

    #[inline]
    fn options(&self) -> MsgOptions<'a> {
        self.options
    }

    #[inline]
    fn unlent(&self) -> Option<(&'a [u8], &InlineOptions)> {
        self.options.unlent().map(|inline| (self.data, inline))
    }

    #[inline(always)]
    fn to_msg(&self) -> SendMsg<'a> {
        SendMsg::from_parts(self.dest, self.data, self.options)
    }
}

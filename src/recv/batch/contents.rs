//! The slots of a batch, and what the last receive left in them.

use std::iter::Zip;
use std::ops::Range;
use std::slice;

use crate::ancillary::RecvMeta;
use crate::recv::datagram::Datagram;
use crate::recv::message::Message;
use crate::recv::received::{Received, ReceivedTotals};
use crate::recv::split::Segments;
use crate::sys::{SlotIter, SlotIterMut, Slots};

/// Slots with the messages of one receive.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) slots: Slots,
    /// Messages of the last receive.
    pub(super) len: usize,
    /// What the control data of each slot means; set where there is any.
    pub(super) metas: Vec<RecvMeta>,
    /// Whether all messages are whole, and a datagram each.
    pub(super) singles: bool,
    /// Whether the messages come from an implementation of `BatchSocket` other than the kernel's: there
    /// is no control data, and all of `metas` is set.
    pub(super) filled: bool,
}

impl Contents {
    /// `metas` has one element for each slot.
    pub(super) fn new(slots: Slots, metas: Vec<RecvMeta>) -> Self {
        Self { slots, len: 0, metas, singles: true, filled: false }
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.len = 0;
        (self.singles, self.filled) = (true, false);
        self.slots.close_fds();
    }

    #[inline]
    pub(super) fn message(&self, index: usize) -> Option<Message<'_>> {
        if index >= self.len {
            return None;
        }
        let (payload, row) = self.slots.slot(index);
        let has_meta = self.filled || row.result().control_len > 0;
        Some(Message::of_row(payload, row, has_meta.then_some(&self.metas[index])))
    }

    /// Slots and metadata, if each has a single whole datagram that came from the kernel.
    #[inline]
    pub(super) fn singles(&self) -> Option<Zip<SlotIter<'_>, slice::Iter<'_, RecvMeta>>> {
        let singles = self.singles && !self.filled;
        singles.then(|| self.slots.iter(self.len).zip(&self.metas))
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> Zip<SlotIterMut<'_>, slice::Iter<'_, RecvMeta>> {
        self.slots.iter_mut(self.len).zip(&self.metas)
    }

    /// The first datagram in the slots from `next` on, the slot after it, and the remaining segments
    /// of its message.
    ///
    /// Passes the position by value, so that the caller's iterator stays in registers.
    #[inline(never)]
    pub(super) fn any_datagram(
        &self,
        mut next: usize,
    ) -> Option<(Datagram<'_>, usize, Segments<'_>)> {
        loop {
            let mut datagrams = self.message(next)?.datagrams();
            next += 1;
            if let Some(datagram) = datagrams.next() {
                return Some((datagram, next, Segments::rest_of(&datagrams)));
            }
        }
    }

    /// What the last receive brought. Not counted with [`read_back`](Self::read_back): that would take 30
    /// instructions a datagram, also on sockets that count nothing.
    #[inline]
    pub(super) fn totals(&self) -> ReceivedTotals {
        let mut totals = ReceivedTotals::default();
        for (i, result) in self.slots.results(0..self.len).enumerate() {
            let has_meta = self.filled || result.control_len > 0;
            let from_inet = || self.slots.row(i).source().get().is_some();
            let received = Received::new(&result, has_meta.then(|| &self.metas[i]), from_inet);
            totals.add(&received, result.len.min(self.slots.slot_len()));
        }
        totals
    }

    /// Decodes the control data in the slots of `range`, which a receive has filled.
    #[inline]
    pub(super) fn read_back(&mut self, range: Range<usize>) {
        let (start, mut singles) = (range.start, self.singles);
        for (i, result) in self.slots.results(range).enumerate() {
            singles &= !(result.truncated | result.control_truncated);
            if result.control_len > 0 {
                let meta = &mut self.metas[start + i];
                meta.set(self.slots.row(start + i).control());
                singles &= meta.segment_size.is_none();
            }
        }
        self.singles = singles;
    }
}

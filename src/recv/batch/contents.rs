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
    /// What the last receive brought, unless the batch is `filled`.
    pub(super) totals: ReceivedTotals,
    /// Whether the messages come from an implementation of `BatchSocket` other than the kernel's: there
    /// is no control data, and all of `metas` is set.
    pub(super) filled: bool,
}

impl Contents {
    /// `metas` has one element for each slot.
    pub(super) fn new(slots: Slots, metas: Vec<RecvMeta>) -> Self {
        Self { slots, len: 0, metas, totals: ReceivedTotals::NONE, filled: false }
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        (self.len, self.totals, self.filled) = (0, ReceivedTotals::NONE, false);
        self.slots.close_fds();
    }

    /// Always inlined: see [`Message::of_row`].
    #[inline(always)]
    pub(super) fn message(&self, index: usize) -> Option<Message<'_>> {
        if index >= self.len {
            return None;
        }
        let (payload, row) = self.slots.slot(index);
        let has_meta = self.filled || row.result().control_len > 0;
        let meta = if has_meta { &self.metas[index] } else { &RecvMeta::NONE };
        Some(Message::of_row(payload, row, meta))
    }

    /// Whether each message is a single whole datagram that came from the kernel.
    #[inline]
    pub(super) fn are_singles(&self) -> bool {
        self.totals.are_singles() && !self.filled
    }

    /// Slots and metadata, if each has a single whole datagram that came from the kernel.
    #[inline]
    pub(super) fn singles(&self) -> Option<Zip<SlotIter<'_>, slice::Iter<'_, RecvMeta>>> {
        self.are_singles().then(|| self.slots.iter(self.len).zip(&self.metas))
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

    /// Reads back what a receive left in the slots of `range`, after the messages that are there.
    #[inline]
    pub(super) fn read_back(&mut self, range: Range<usize>) {
        self.len = range.end;
        for i in range {
            let result = self.slots.result(i);
            if result.is_plain() {
                self.totals.add_datagram(result.len.min(self.slots.slot_len()));
            } else {
                self.read_back_one(i);
            }
        }
    }

    /// Reads back a message with control data, or of which something is missing. Not inlined, so that the loop over
    /// messages without either stays short.
    #[inline(never)]
    fn read_back_one(&mut self, i: usize) {
        let row = self.slots.row(i);
        let (result, mut meta) = (row.result(), &RecvMeta::NONE);
        if result.control_len > 0 {
            self.metas[i].set(row.control());
            meta = &self.metas[i];
        }
        let received = Received::new(&result, meta, || row.source());
        self.totals.add(&received, result.len.min(self.slots.slot_len()));
    }
}

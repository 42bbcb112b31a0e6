//! The slots of a batch, and what the last receive left in them.

use std::iter::Zip;
use std::ops::Range;
use std::slice;

use crate::ancillary::RecvMeta;
use crate::recv::datagram::Datagram;
use crate::recv::message::Message;
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
        (index < self.len).then(|| {
            let (payload, row) = self.slots.slot(index);
            let has_meta = self.filled || row.result().control_len > 0;
            Message::of_row(payload, row, has_meta.then_some(&self.metas[index]))
        })
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

    /// Decodes the control data in the slots of `range`, which a receive has filled.
    #[inline]
    pub(super) fn read_back(&mut self, range: Range<usize>) {
        let mut singles = self.singles;
        for (i, result) in range.clone().zip(self.slots.results(range)) {
            singles &= !(result.truncated | result.control_truncated);
            if result.control_len > 0 {
                let (_, row) = self.slots.slot(i);
                self.metas[i] = RecvMeta::decode(row.control());
                singles &= self.metas[i].segment_size.is_none();
            }
        }
        self.singles = singles;
    }
}

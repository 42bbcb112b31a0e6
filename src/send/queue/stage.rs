//! Datagrams in order, stored as entries: what the datagrams of an entry have in common is stored once.

use std::net::SocketAddr;

use super::entry::{QueueEntry, Size, Stored};
use super::error::PushError;
use crate::ancillary::{ControlBuf, SendMeta};
use crate::send::content::{InlineOptions, LentOptions, MsgOptions, SendBuffers};
use crate::send::msg::SendMsg;
use crate::sys::{DestRef, RawAddr, UnixAddr, UnixAddrBuf};

/// Datagrams in order, consumed from their start.
///
/// Invariants:
///
/// 1. `payload[entry.start..][..entry.len]` is the payload of each entry's datagrams, one after another, and a Unix
///    destination follows it, if the entry has one. `entry.option - 1` is the place of its options in `metas` or
///    `controls`, as `entry.stored` says.
/// 2. An entry's `len` bytes are datagrams of `segment` bytes each, but the last, which may have fewer. An entry
///    without bytes is one datagram.
/// 3. In the back stage, and in a stage without datagrams, nothing has left: `first` and `gone` are 0, and `order` is
///    empty.
pub(super) struct Stage {
    entries: Vec<QueueEntry>,
    pub(super) payload: Vec<u8>,
    pub(super) metas: Vec<SendMeta>,
    pub(super) controls: Vec<ControlBuf<'static>>,
    /// The order of sending, if it is not that of the entries: the key of each entry's destination, and its place.
    order: Vec<(u64, u32)>,
    /// The first entry, in the order of sending, that is still here, and how many of its bytes have left.
    pub(super) first: usize,
    pub(super) gone: usize,
    /// Datagrams that are still here.
    len: usize,
}

/// The options of a message to be stored, beside those in the message itself.
enum Options<'m> {
    None,
    Meta(SendMeta),
    Control(&'m ControlBuf<'m>),
}

impl<'m> Options<'m> {
    fn of(lent: LentOptions<'m>) -> Self {
        match lent {
            LentOptions::None => Self::None,
            LentOptions::Meta(meta) => Self::Meta(*meta),
            LentOptions::Reply(received) => Self::Meta(received.reply()),
            LentOptions::Control(control) => Self::Control(control),
        }
    }
}

/// The lengths of a stage, for [`Stage::truncate`].
pub(super) struct Lengths {
    entries: usize,
    last: Option<QueueEntry>,
    payload: usize,
    metas: usize,
    controls: usize,
    len: usize,
}

impl Stage {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            payload: Vec::new(),
            metas: Vec::new(),
            controls: Vec::new(),
            order: Vec::new(),
            first: 0,
            gone: 0,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a datagram to the last entry, if it can follow there and has no options but those in the message.
    /// Returns whether it did.
    #[inline(always)]
    pub(super) fn join(
        &mut self,
        dest: Option<&SocketAddr>,
        data: &[u8],
        inline: &InlineOptions,
    ) -> bool {
        match self.entries.last_mut() {
            Some(entry) if entry.takes(dest, data.len(), inline, Stored::None) => {
                self.payload.extend_from_slice(data);
                entry.add(data.len());
                self.len += 1;
                true
            }
            _ => false,
        }
    }

    /// Begins an entry with such a datagram.
    ///
    /// # Errors
    ///
    /// `TooLong` for a length that an entry cannot have.
    #[inline(never)]
    pub(super) fn begin(
        &mut self,
        dest: Option<&SocketAddr>,
        data: &[u8],
        inline: &InlineOptions,
    ) -> Result<(), PushError> {
        let len = data.len().try_into().map_err(|_| PushError::TooLong)?;
        // Grow first: if growing panics, the stage is unchanged.
        self.entries.reserve(1);
        let start = self.payload.len();
        self.payload.extend_from_slice(data);
        self.push_entry(dest, QueueEntry { start, inline: *inline, ..QueueEntry::of(len) });
        self.len += 1;
        Ok(())
    }

    #[inline]
    fn push_entry(&mut self, dest: Option<&SocketAddr>, entry: QueueEntry) {
        self.entries.push(entry);
        // Written in place: to copy what was just written in smaller pieces takes 7 ns.
        if let Some(entry) = self.entries.last_mut() {
            entry.dest.space().set(dest);
        }
    }

    /// Stores a message without descriptors.
    pub(super) fn push(&mut self, msg: &SendMsg<'_>, size: &Size) {
        // Grow first: if growing panics, the stage is unchanged.
        self.payload.reserve(size.len as usize + usize::from(size.name_len));
        self.entries.reserve(1);
        let MsgOptions { lent, inline } = msg.options();
        let (dest, len) = (msg.dest(), size.len as usize);
        let start = self.payload.len();
        let options = Options::of(lent);
        let joins = size.name_len == 0 && self.joins(dest.as_ref(), len, &inline, &options);
        let (stored, option) = if joins { (Stored::None, 0) } else { self.store_options(&options) };
        match msg.buffers() {
            SendBuffers::One(data) => self.payload.extend_from_slice(data),
            SendBuffers::Many(data) => {
                data.iter().for_each(|part| self.payload.extend_from_slice(part));
            }
        }
        self.len += 1;
        match self.entries.last_mut() {
            Some(entry) if joins => entry.add(len),
            _ => {
                if let DestRef::Unix(dest) = msg.dest_ref() {
                    self.store_name(dest);
                }
                let open = stored != Stored::Control && size.name_len == 0;
                let name_len = size.name_len;
                let of = QueueEntry::of(size.len);
                let entry = QueueEntry { inline, stored, option, name_len, start, open, ..of };
                self.push_entry(dest.as_ref(), entry);
            }
        }
    }

    /// Whether a message with these options can follow in the last entry.
    fn joins(
        &self,
        dest: Option<&SocketAddr>,
        len: usize,
        inline: &InlineOptions,
        options: &Options<'_>,
    ) -> bool {
        let Some(entry) = self.entries.last() else { return false };
        match options {
            Options::None => entry.takes(dest, len, inline, Stored::None),
            Options::Meta(meta) => {
                entry.takes(dest, len, inline, Stored::Meta) && self.metas.last() == Some(meta)
            }
            Options::Control(_) => false,
        }
    }

    /// Stores a Unix destination, which is beside the payload.
    #[cold]
    fn store_name(&mut self, dest: UnixAddr<'_>) {
        if let Some(name) = UnixAddrBuf::encode(dest) {
            self.payload.extend_from_slice(name.as_bytes());
        }
    }

    /// Returns where the options are, plus 1. These places fit: each takes an entry's memory as well, and memory does
    /// not hold 2^32 of those.
    fn store_options(&mut self, options: &Options<'_>) -> (Stored, u32) {
        match options {
            Options::None => (Stored::None, 0),
            Options::Meta(meta) => {
                self.metas.push(*meta);
                (Stored::Meta, self.metas.len() as u32)
            }
            Options::Control(control) => {
                self.controls.push(control.without_fds());
                (Stored::Control, self.controls.len() as u32)
            }
        }
    }

    /// Repeats the last datagram with another destination.
    pub(super) fn repeat(&mut self, dest: SocketAddr) {
        let last = *self.entries.last().expect("a datagram was pushed");
        let before = (last.count(last.len) - 1) * last.segment as usize;
        let len = last.len - before;
        self.entries.push(QueueEntry {
            dest: RawAddr::new(Some(&dest)),
            segment: len as u32, // at most that of a segment
            open: false,
            repeats: true,
            start: last.start + before,
            len,
            ..last
        });
        self.len += 1;
    }

    /// How much is in it.
    pub(super) fn lengths(&self) -> Lengths {
        Lengths {
            entries: self.entries.len(),
            last: self.entries.last().copied(),
            payload: self.payload.len(),
            metas: self.metas.len(),
            controls: self.controls.len(),
            len: self.len,
        }
    }

    /// Drops what was pushed after `lengths`.
    pub(super) fn truncate(&mut self, lengths: &Lengths) {
        self.entries.truncate(lengths.entries);
        if let (Some(entry), Some(last)) = (self.entries.last_mut(), lengths.last) {
            *entry = last;
        }
        self.payload.truncate(lengths.payload);
        self.metas.truncate(lengths.metas);
        self.controls.truncate(lengths.controls);
        self.len = lengths.len;
    }

    /// Puts together what goes to one destination, unless it is already. Without memory for it, nothing changes.
    pub(super) fn group(&mut self) {
        let count = self.entries.len();
        if !self.order.is_empty() || self.order.try_reserve(count).is_err() {
            return;
        }
        self.forget_gone();
        let entries = &self.entries;
        let keys = entries.iter().map(|entry| entry.dest.lend().key());
        // The places fit, as the places of options do.
        self.order.extend(keys.zip(0u32..));
        // The place decides last: the order within each destination stays.
        self.order[self.first..].sort_unstable_by(|(one, i), (other, j)| {
            let dest = |i: u32| entries[i as usize].dest.lend();
            one.cmp(other).then_with(|| dest(*i).compare(dest(*j))).then(i.cmp(j))
        });
    }

    /// Takes the datagrams that have left out of the first entry, so that it can stand anywhere.
    fn forget_gone(&mut self) {
        if let Some(entry) = self.entries.get_mut(self.first) {
            (entry.start, entry.len) = (entry.start + self.gone, entry.len - self.gone);
            self.gone = 0;
        }
    }

    /// The entry that is sent as number `i`.
    #[inline]
    pub(super) fn entry(&self, i: usize) -> Option<&QueueEntry> {
        let place = if self.order.is_empty() { i } else { self.order.get(i)?.1 as usize };
        self.entries.get(place)
    }

    /// Drops the first `n` datagrams and returns their counted size.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) -> usize {
        let (mut counted, mut left) = (0, n);
        while let (1.., Some(entry)) = (left, self.entry(self.first)) {
            let bytes = entry.len - self.gone;
            let sent = left.saturating_mul(entry.segment as usize);
            if sent < bytes {
                counted += entry.counted(left, sent);
                (self.gone, left) = (self.gone + sent, 0);
                break;
            }
            let count = entry.count(bytes);
            counted += entry.counted(count, bytes);
            (self.first, self.gone, left) = (self.first + 1, 0, left - count);
        }
        self.len -= n - left;
        if self.len == 0 {
            self.clear();
        }
        counted
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.payload.clear();
        self.metas.clear();
        self.controls.clear();
        self.order.clear();
        (self.first, self.gone, self.len) = (0, 0, 0);
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.payload.shrink_to_fit();
        self.metas.shrink_to_fit();
        self.controls.shrink_to_fit();
        self.order.shrink_to_fit();
    }
}

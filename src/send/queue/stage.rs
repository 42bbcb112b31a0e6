//! One stage of a queue: datagrams in order, with their payload.

use std::net::SocketAddr;

use super::error::PushError;
use crate::ancillary::{Ecn, SendMeta};
use crate::send::msg::SendMsg;
use crate::send::row::{self, Row};
use crate::sys::{self, Dest, Payload, RawAddr, UnixAddr};

/// Datagrams in order, consumed from their start.
///
/// Invariants:
///
/// 1. `payload[entry.start..][..entry.len]` is each entry's payload, followed by its Unix destination, if it has one.
///    `entry.meta - 1` indexes its options in `metas`, unless `entry.meta` is 0.
/// 2. In the back stage and in an empty stage, `first` is 0 and `order` is empty.
pub(super) struct Stage {
    entries: Vec<Entry>,
    payload: Vec<u8>,
    metas: Vec<SendMeta>,
    /// The sending order, if it is not that of the entries.
    order: Vec<u32>,
    /// The number of datagrams that have left.
    first: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// The destination, unless it is a Unix address.
    dest: Dest<'static>,
    start: usize,
    /// Bytes counted against the bound.
    pub(super) cost: usize,
    len: u32,
    /// The index of its options plus 1, or 0.
    meta: u32,
    segment_size: Option<u16>,
    ecn: Option<Ecn>,
    /// Bytes of a Unix destination.
    name_len: u8,
}

/// Bytes that a message counts against the bound.
///
/// # Errors
///
/// `TooLong` for lengths that 32 bits cannot hold, which no system sends; `HasControl`; `NoAddress`.
#[inline]
pub(super) fn cost(msg: &SendMsg<'_>) -> Result<usize, PushError> {
    if !msg.raw_control().is_empty() {
        return Err(PushError::HasControl);
    }
    let mut rest = size_of::<Entry>();
    if let Dest::Unix(dest) = msg.dest {
        rest += RawAddr::of_unix(dest).ok_or(PushError::NoAddress)?.as_bytes().len();
    }
    if msg.has_metas() {
        rest += size_of::<SendMeta>();
    }
    // The length is stored in 32 bits.
    let len = u32::try_from(msg.len()).map_err(|_| PushError::TooLong)?;
    (len as usize).checked_add(rest).ok_or(PushError::TooLong)
}

/// Truncates the payload to `len` bytes when it is dropped, also by a panic.
struct Kept<'a> {
    len: usize,
    payload: &'a mut Vec<u8>,
}

impl Drop for Kept<'_> {
    #[inline]
    fn drop(&mut self) {
        self.payload.truncate(self.len);
    }
}

impl Stage {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            payload: Vec::new(),
            metas: Vec::new(),
            order: Vec::new(),
            first: 0,
        }
    }

    /// The number of datagrams that have not left.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.first
    }

    /// Stores a message, and up to `max_len` further bytes that `fill` writes. Returns `cost` plus the number of these bytes.
    ///
    /// # Errors
    ///
    /// `OptionTwice`, `OutOfMemory`; `TooLong` if `fill` returns more than `max_len`. The stage is then unchanged, as it
    /// is if `fill` panics.
    #[inline]
    pub(super) fn push_with(
        &mut self,
        msg: &SendMsg<'_>,
        cost: usize,
        max_len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, PushError> {
        // `cost` includes a Unix destination, which follows the payload.
        let space = cost.saturating_add(max_len);
        let grown = self.payload.try_reserve(space).and(self.entries.try_reserve(1));
        grown.map_err(|_| PushError::OutOfMemory)?;
        let mut options = None;
        if msg.has_metas() {
            self.metas.try_reserve(1).map_err(|_| PushError::OutOfMemory)?;
            options = Some(msg.borrowed_options().map_err(|_| PushError::OptionTwice)?);
        }
        let start = self.payload.len();
        let mut kept = Kept { len: start, payload: &mut self.payload };
        match msg.payload {
            Payload::One(data) => kept.payload.extend_from_slice(data),
            Payload::Many(list) => {
                list.iter().for_each(|part| kept.payload.extend_from_slice(part))
            }
        }
        let own_end = kept.payload.len();
        kept.payload.resize(own_end + max_len, 0);
        let written = fill(&mut kept.payload[own_end..]);
        if written > max_len {
            return Err(PushError::TooLong);
        }
        kept.len = own_end + written;
        drop(kept);
        let len = (self.payload.len() - start) as u32; // The queue has checked it.
        let mut meta = 0;
        if let Some(options) = options {
            self.metas.push(options);
            // The index fits in 32 bits: 2^32 entries would take 256 GiB.
            meta = self.metas.len() as u32;
        }
        let (dest, name_len) = match (&msg.dest, self.entries.last()) {
            (Dest::Unix(dest), _) => (Dest::None, self.push_name(*dest)),
            // The destination usually repeats. The last entry's copies faster: the message's own has just been written.
            (dest, Some(last)) if last.dest == *dest => (last.dest, 0),
            (Dest::Addr(dest), _) => (Dest::Addr(*dest), 0),
            (Dest::None, _) => (Dest::None, 0),
        };
        let (segment_size, ecn, cost) = (msg.segment_size, msg.ecn, cost + written);
        self.entries.push(Entry { dest, start, cost, len, meta, segment_size, ecn, name_len });
        Ok(cost)
    }

    /// Stores a Unix destination behind its payload, and returns its length.
    #[cold]
    fn push_name(&mut self, dest: UnixAddr<'_>) -> u8 {
        let name = RawAddr::of_unix(dest).unwrap_or(RawAddr::NONE);
        self.payload.extend_from_slice(name.as_bytes());
        name.as_bytes().len() as u8 // At most 112.
    }

    /// Repeats the last datagram with another destination.
    pub(super) fn repeat(&mut self, dest: SocketAddr) -> Result<(), PushError> {
        self.entries.try_reserve(1).map_err(|_| PushError::OutOfMemory)?;
        if let Some(last) = self.entries.last().copied() {
            self.entries.push(Entry { dest: Dest::Addr(dest), cost: size_of::<Entry>(), ..last });
        }
        Ok(())
    }

    /// Keeps the first `len` datagrams. Only for the back stage, from which none has left.
    pub(super) fn truncate(&mut self, len: usize) {
        if let Some(entry) = self.entries.get(len) {
            self.payload.truncate(entry.start);
            let metas = (entry.meta as usize).checked_sub(1).unwrap_or(self.metas.len());
            self.metas.truncate(metas);
        }
        self.entries.truncate(len);
    }

    /// The datagrams in the order of sending.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = SendMsg<'_>> {
        (self.first..self.entries.len()).map(|i| self.msg(self.entry(i)))
    }

    /// Writes the first datagrams to a row, at most `max`, and returns them.
    #[inline]
    pub(super) fn fill<'q, 'r>(&'q self, row: &'r mut Row<'q>, max: usize) -> &'r [SendMsg<'q>] {
        row::fill_by(row, max.min(self.len()), |i| self.msg(self.entry(self.first + i)))
    }

    /// The entry at place `i` of the sending order.
    #[inline]
    fn entry(&self, i: usize) -> &Entry {
        &self.entries[self.order.get(i).map_or(i, |place| *place as usize)]
    }

    #[inline]
    fn msg(&self, entry: &Entry) -> SendMsg<'_> {
        let data = &self.payload[entry.start..][..entry.len as usize];
        let meta = (entry.meta as usize).checked_sub(1).map(|i| &self.metas[i]);
        let dest = if entry.name_len == 0 { entry.dest } else { self.unix_dest(entry) };
        let (payload, Entry { segment_size, ecn, .. }) = (Payload::One(data), *entry);
        SendMsg { dest, payload, reply: None, meta, control: None, ecn, segment_size }
    }

    #[cold]
    fn unix_dest(&self, entry: &Entry) -> Dest<'_> {
        let name = &self.payload[entry.start + entry.len as usize..][..entry.name_len.into()];
        sys::decode_unix(name).map_or(Dest::None, Dest::Unix)
    }

    /// Groups the datagrams by destination, unless they already are or memory runs out.
    pub(super) fn group(&mut self) {
        let count = self.entries.len();
        if !self.order.is_empty() || self.order.try_reserve(count).is_err() {
            return;
        }
        let entries = &self.entries;
        // Indices fit in 32 bits, as those of options do.
        self.order.extend(0..count as u32);
        // The index comes last in the key, so that each destination's datagrams stay in order.
        let key = |i: &u32| match entries[*i as usize].dest {
            Dest::Addr(dest) => (Some(dest), *i),
            _ => (None, *i),
        };
        self.order[self.first..].sort_unstable_by_key(key);
    }

    /// Drops the first `n` datagrams and returns their cost.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) -> usize {
        let end = (self.first + n).min(self.entries.len());
        let cost = (self.first..end).map(|i| self.entry(i).cost).sum();
        self.first = end;
        if self.len() == 0 {
            self.clear();
        }
        cost
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.payload.clear();
        self.metas.clear();
        self.order.clear();
        self.first = 0;
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.payload.shrink_to_fit();
        self.metas.shrink_to_fit();
        self.order.shrink_to_fit();
    }
}

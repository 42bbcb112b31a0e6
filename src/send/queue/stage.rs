//! One stage of a queue: messages in order, and the memory that they borrow.

#![allow(unsafe_code)]

use std::mem;
use std::net::SocketAddr;
use std::ptr;
use std::slice;

use super::error::PushError;
use crate::ancillary::SendMeta;
use crate::send::msg::SendMsg;
use crate::send::row::{self, Row};
use crate::sys::{self, Dest, Payload, RawAddr};

/// Messages in order, consumed from their start.
///
/// Invariants:
///
/// 1. The messages borrow from `bytes` and `metas`, whose values stay in place while there are messages. A message is lent
///    only for as long as the stage is borrowed.
/// 2. In the back stage and in an empty stage, `first` is 0 and `order` is empty.
pub(super) struct Stage {
    messages: Vec<SendMsg<'static>>,
    /// Payloads, each followed by its Unix destination, if it has one.
    bytes: Store<u8>,
    metas: Store<SendMeta>,
    /// The sending order, if it is not that of the messages.
    order: Vec<u32>,
    /// The number of datagrams that have left.
    first: usize,
}

/// Values that stay in place until they are cleared.
struct Store<T> {
    last: Vec<T>,
    full: Vec<Vec<T>>,
}

impl<T: Copy> Store<T> {
    const fn new() -> Self {
        Self { last: Vec::new(), full: Vec::new() }
    }

    /// Makes room for `n` more values in a row. A new piece of memory has room for up to `max` values.
    #[inline]
    fn reserve(&mut self, n: usize, max: usize) -> Result<(), PushError> {
        if n <= self.last.capacity() - self.last.len() { Ok(()) } else { self.grow(n, max) }
    }

    #[cold]
    fn grow(&mut self, n: usize, max: usize) -> Result<(), PushError> {
        let mut next = Vec::new();
        let room = self.last.capacity().saturating_mul(2).min(max).max(n);
        next.try_reserve_exact(room).and(self.full.try_reserve(1)).map_err(no_memory)?;
        let full = mem::replace(&mut self.last, next);
        if !full.is_empty() {
            self.full.push(full);
        }
        Ok(())
    }

    /// The values from this place of the last piece on.
    ///
    /// # Safety
    ///
    /// They are not used after `clear`, `truncate` or `drop`.
    #[inline]
    unsafe fn since(&self, start: usize) -> &'static [T] {
        let len = self.last[start..].len();
        // SAFETY: these values are initialised. They neither move nor change: `reserve` leaves their memory as it is, and
        // pushes write behind them.
        unsafe { slice::from_raw_parts(self.last.as_ptr().add(start), len) }
    }

    /// Keeps the largest piece of memory.
    fn clear(&mut self) {
        self.last.clear();
        self.full.clear();
    }
}

/// Bytes that a message counts against the bound.
///
/// # Errors
///
/// `TooLong`, `HasControl`, `NoAddress`.
#[inline]
pub(super) fn cost(msg: &SendMsg<'_>) -> Result<usize, PushError> {
    if !msg.raw_control().is_empty() {
        return Err(PushError::HasControl);
    }
    let mut rest = size_of::<SendMsg<'_>>();
    if let Dest::Unix(dest) = msg.dest {
        rest += RawAddr::of_unix(dest).ok_or(PushError::NoAddress)?.as_bytes().len();
    }
    if msg.has_metas() {
        rest += size_of::<SendMeta>();
    }
    msg.len().checked_add(rest).ok_or(PushError::TooLong)
}

#[cold]
fn no_memory<E>(_: E) -> PushError {
    PushError::OutOfMemory
}

impl Stage {
    pub(super) const fn new() -> Self {
        Self {
            messages: Vec::new(),
            bytes: Store::new(),
            metas: Store::new(),
            order: Vec::new(),
            first: 0,
        }
    }

    /// The number of datagrams that have not left.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.messages.len() - self.first
    }

    /// Stores a message of one buffer without borrowed options, if there is memory for it and it counts at most `left`.
    /// Returns what it counts. A push thus takes half the time.
    #[inline]
    pub(super) fn push_simple(&mut self, msg: &SendMsg<'_>, left: usize) -> Option<usize> {
        let Payload::One(data) = msg.payload else { return None };
        let room = self.bytes.last.capacity() - self.bytes.last.len();
        let simple =
            !msg.has_metas() && msg.control.is_none() && !matches!(msg.dest, Dest::Unix(_));
        let fits = data.len() <= room && self.messages.len() < self.messages.capacity();
        let cost = size_of::<SendMsg<'_>>().checked_add(data.len())?;
        if !simple || !fits || cost > left {
            return None;
        }
        // SAFETY: of the destinations, only Unix addresses borrow.
        let dest = unsafe { mem::transmute::<Dest<'_>, Dest<'static>>(msg.dest) };
        let start = self.bytes.last.len();
        self.bytes.last.extend_from_slice(data);
        // SAFETY: invariant 1.
        let payload = Payload::One(unsafe { self.bytes.since(start) });
        self.store(dest, payload, None, msg);
        Some(cost)
    }

    /// Stores a message that counts `cost`, and up to `max_len` further bytes that `fill` writes. Returns their number. The
    /// queue's bound limits how far the memory grows.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`; `TooLong` if `fill` returns more than `max_len`. The stage is then unchanged, as it is if `fill`
    /// panics.
    #[inline]
    pub(super) fn push_with(
        &mut self,
        msg: &SendMsg<'_>,
        (cost, bound): (usize, usize),
        max_len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, PushError> {
        // `cost` includes a Unix destination, which follows the payload.
        self.bytes.reserve(cost.saturating_add(max_len), bound)?;
        self.reserve_message(bound)?;
        if msg.has_metas() {
            let each = size_of::<SendMsg<'_>>() + size_of::<SendMeta>();
            self.metas.reserve(1, bound / each)?;
        }
        let (start, own_end) = (self.bytes.last.len(), self.bytes.last.len() + msg.len());
        let space = &mut self.bytes.last.spare_capacity_mut()[msg.len()..][..max_len];
        space.fill(mem::MaybeUninit::new(0));
        // SAFETY: `space` has just been initialised.
        let written =
            fill(unsafe { slice::from_raw_parts_mut(space.as_mut_ptr().cast(), max_len) });
        if written > max_len {
            return Err(PushError::TooLong);
        }
        match msg.payload {
            Payload::One(data) => self.bytes.last.extend_from_slice(data),
            Payload::Many(list) => {
                list.iter().for_each(|part| self.bytes.last.extend_from_slice(part));
            }
        }
        // SAFETY: the payload ends at `own_end`, and `space` follows it.
        unsafe { self.bytes.last.set_len(own_end + written) };
        // SAFETY: invariant 1.
        let data = unsafe { self.bytes.since(start) };
        let dest = match msg.dest {
            Dest::Addr(dest) => Dest::Addr(dest),
            Dest::None => Dest::None,
            Dest::Unix(dest) => self.keep_name(&RawAddr::of_unix(dest).unwrap_or(RawAddr::NONE)),
        };
        let meta = if msg.has_metas() { self.keep_options(msg) } else { None };
        self.store(dest, Payload::One(data), meta, msg);
        Ok(written)
    }

    /// Adds a message of what the stage has kept, with the inline options of `msg`.
    #[inline(always)]
    fn store(
        &mut self,
        dest: Dest<'static>,
        payload: Payload<'static>,
        meta: Option<&'static SendMeta>,
        &SendMsg { ecn, segment_size, .. }: &SendMsg<'_>,
    ) {
        let (reply, control, by_interface) = (None, None, false);
        let msg = SendMsg { dest, payload, reply, meta, control, ecn, segment_size, by_interface };
        self.messages.push(msg);
    }

    #[inline]
    fn reserve_message(&mut self, bound: usize) -> Result<(), PushError> {
        if self.messages.len() < self.messages.capacity() { Ok(()) } else { self.grow(bound) }
    }

    #[cold]
    fn grow(&mut self, bound: usize) -> Result<(), PushError> {
        let count = self.messages.len();
        let more = (bound / size_of::<SendMsg<'_>>()).saturating_sub(count).min(count.max(4));
        self.messages.try_reserve_exact(more.max(1)).map_err(no_memory)
    }

    /// Stores a Unix destination behind its payload.
    #[cold]
    fn keep_name(&mut self, name: &RawAddr) -> Dest<'static> {
        let start = self.bytes.last.len();
        self.bytes.last.extend_from_slice(name.as_bytes());
        // SAFETY: invariant 1.
        let name = unsafe { self.bytes.since(start) };
        sys::decode_unix(name).map_or(Dest::None, Dest::Unix)
    }

    #[cold]
    fn keep_options(&mut self, msg: &SendMsg<'_>) -> Option<&'static SendMeta> {
        let start = self.metas.last.len();
        self.metas.last.push(msg.borrowed_options());
        // SAFETY: invariant 1.
        unsafe { self.metas.since(start) }.first()
    }

    /// Repeats the last message with another destination.
    pub(super) fn repeat(&mut self, dest: SocketAddr, bound: usize) -> Result<(), PushError> {
        self.reserve_message(bound)?;
        if let Some(last) = self.messages.last() {
            self.messages.push(last.with_dest(dest));
        }
        Ok(())
    }

    /// Takes back the last push, from its first message at `place` on. Only for the back stage.
    pub(super) fn take_back(&mut self, place: usize) {
        let Some(msg) = self.messages.get(place).copied() else { return };
        self.messages.truncate(place);
        self.bytes.last.truncate(self.bytes.last.len() - msg.len());
        self.metas.last.truncate(self.metas.last.len() - usize::from(msg.meta.is_some()));
    }

    /// The datagrams in the order of sending.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = SendMsg<'_>> {
        (0..self.len()).map(|i| self.messages[self.place(i)])
    }

    /// The first datagrams, at most `max`. Copies them to a row if their order differs from that of the messages.
    #[inline]
    pub(super) fn fill<'q, 'r>(&'q self, row: &'r mut Row<'q>, max: usize) -> &'r [SendMsg<'q>] {
        let count = max.min(self.len());
        if self.order.is_empty() {
            return &self.messages[self.first..][..count];
        }
        row::fill_by(row, count, |i| self.messages[self.place(i)])
    }

    /// The place of the `i`th datagram to send among the messages.
    #[inline]
    fn place(&self, i: usize) -> usize {
        let i = self.first + i;
        self.order.get(i).map_or(i, |place| *place as usize)
    }

    /// Groups the datagrams by destination, unless they already are or memory runs out.
    pub(super) fn group(&mut self) {
        let count = self.messages.len();
        if !self.order.is_empty() || self.order.try_reserve(count).is_err() {
            return;
        }
        // 2^32 messages would take 352 GiB.
        self.order.extend(0..count as u32);
        // The place comes last in the key, so that each destination's datagrams stay in order.
        let key = |place: &u32| match self.messages[*place as usize].dest {
            Dest::Addr(dest) => (Some(dest), *place),
            _ => (None, *place),
        };
        self.order[self.first..].sort_unstable_by_key(key);
    }

    /// Drops the first `n` datagrams, not more than there are, and returns their cost.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) -> usize {
        let cost = (0..n).map(|i| self.cost(self.place(i))).sum();
        self.first += n;
        if self.len() == 0 {
            self.clear();
        }
        cost
    }

    /// What the message at this place counts. One that repeats the message before it has no payload and options of its own.
    #[inline]
    fn cost(&self, place: usize) -> usize {
        let (own, msg) = (size_of::<SendMsg<'_>>(), &self.messages[place]);
        let (Payload::One(data), None, Dest::Addr(_) | Dest::None) =
            (msg.payload, msg.meta, msg.dest)
        else {
            return self.cost_of_rare(place);
        };
        if place > 0 && starts_at(&self.messages[place - 1], data) { own } else { own + data.len() }
    }

    #[cold]
    fn cost_of_rare(&self, place: usize) -> usize {
        let msg = &self.messages[place];
        let before = place.checked_sub(1).and_then(|before| self.messages[before].meta);
        match (before, msg.meta) {
            (Some(before), Some(meta)) if ptr::eq(before, meta) => size_of::<SendMsg<'_>>(),
            _ => cost(msg).unwrap_or(0),
        }
    }

    #[inline(never)]
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.bytes.clear();
        self.metas.clear();
        self.order.clear();
        self.first = 0;
    }

    /// Frees unused memory: all of an empty stage.
    pub(super) fn shrink_to_fit(&mut self) {
        if self.len() == 0 {
            *self = Self::new();
        }
        self.messages.shrink_to_fit();
        self.order.shrink_to_fit();
    }
}

/// Whether the message's payload starts where `data` starts, and is not empty.
#[inline]
fn starts_at(msg: &SendMsg<'_>, data: &[u8]) -> bool {
    matches!(msg.payload, Payload::One(own) if !own.is_empty() && ptr::eq(own.as_ptr(), data.as_ptr()))
}

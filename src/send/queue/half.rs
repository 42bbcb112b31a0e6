//! One half of a queue: messages in order, and the memory that they borrow.

#![allow(unsafe_code)]

use std::mem::{self, MaybeUninit};
use std::net::SocketAddr;
use std::ptr;
use std::slice;

use super::error::PushError;
use crate::ancillary::SendMeta;
use crate::send::chunk::{self, Chunk};
use crate::send::msg::SendMsg;
use crate::sys::{Dest, Payload};

/// Bytes of a message's record.
pub(super) const OVERHEAD: usize = size_of::<SendMsg<'_>>() + size_of::<usize>();

/// Messages in order, consumed from their start.
///
/// Invariants:
///
/// 1. The messages borrow from `bytes` and `metas`, whose values stay in place while there are messages. A message is lent
///    only for as long as the half is borrowed.
/// 2. In the back half and in an empty half, `first` is 0 and `order` is empty.
pub(super) struct Half {
    messages: Vec<SendMsg<'static>>,
    /// What each message counts against the bound.
    costs: Vec<usize>,
    /// Payloads.
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

impl Store<SendMeta> {
    /// Stores the settings of a message.
    #[cold]
    fn keep(&mut self, settings: SendMeta) -> Option<&'static SendMeta> {
        let start = self.last.len();
        self.last.push(settings);
        // SAFETY: invariant 1 of the half.
        unsafe { self.since(start) }.first()
    }
}

/// Checks whether a datagram that counts `cost` fits into what is left of the bound; if not, whether it ever could.
#[inline]
fn check(cost: usize, left: usize, bound: usize) -> Result<(), PushError> {
    match cost {
        cost if cost <= left => Ok(()),
        cost if cost > bound => Err(PushError::TooLong),
        _ => Err(PushError::Full),
    }
}

/// Bytes that a message counts against the bound.
///
/// # Errors
///
/// `TooLong`, `HasControl`, `HasUnixDest`.
#[inline]
pub(super) fn cost(msg: &SendMsg<'_>) -> Result<usize, PushError> {
    if !msg.raw_control().is_empty() {
        return Err(PushError::HasControl);
    }
    if msg.unix_dest().is_some() {
        return Err(PushError::HasUnixDest);
    }
    let settings = if msg.has_metas() { size_of::<SendMeta>() } else { 0 };
    msg.len().checked_add(OVERHEAD + settings).ok_or(PushError::TooLong)
}

#[cold]
fn no_memory<E>(_: E) -> PushError {
    PushError::OutOfMemory
}

impl Half {
    pub(super) const fn new() -> Self {
        Self {
            messages: Vec::new(),
            costs: Vec::new(),
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

    /// Stores a message, and up to `max_len` further bytes that `fill` writes, if it counts at most `left` with them. Returns
    /// what it counts: 0 if `fill` returns `None`, and nothing is stored. The queue's bound limits how far the memory grows.
    ///
    /// # Errors
    ///
    /// Any [`PushError`]; `TooLong` also if `fill` returns more than `max_len`. The half is then unchanged, as it is if
    /// `fill` panics.
    #[inline(always)]
    pub(super) fn push_with(
        &mut self,
        msg: &SendMsg<'_>,
        (left, bound): (usize, usize),
        max_len: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Result<usize, PushError> {
        let cost = cost(msg)?.saturating_add(max_len);
        check(cost, left, bound)?;
        if self.messages.len() == self.messages.capacity() {
            self.grow(left)?;
        }
        let len = msg.len();
        self.bytes.reserve(len.saturating_add(max_len), bound)?;
        if msg.has_metas() {
            self.metas.reserve(1, bound / (OVERHEAD + size_of::<SendMeta>()))?;
        }
        let start = self.bytes.last.len();
        let (mut own, free) = self.bytes.last.spare_capacity_mut().split_at_mut(len);
        let space = &mut free[..max_len];
        space.fill(MaybeUninit::new(0));
        // SAFETY: `space` has just been initialised.
        let written =
            fill(unsafe { slice::from_raw_parts_mut(space.as_mut_ptr().cast(), max_len) });
        let Some(written) = written else { return Ok(0) };
        if written > max_len {
            return Err(PushError::TooLong);
        }
        match msg.payload {
            Payload::One(data) => copy(data, &mut own),
            Payload::Many(list) => list.iter().for_each(|part| copy(part, &mut own)),
        }
        // SAFETY: the payload has just been copied, and the start of `space` follows it.
        unsafe { self.bytes.last.set_len(start + len + written) };
        // SAFETY: invariant 1.
        let kept = SendMsg::new(unsafe { self.bytes.since(start) });
        let kept = self.messages.spare_capacity_mut()[0].write(kept);
        // Written in place: a copy would be read while its parts are on their way to memory, and a push would take twice
        // the time.
        if let Dest::Addr(dest) = msg.dest {
            kept.dest = Dest::Addr(dest);
        }
        (kept.ecn, kept.segment_size) = (msg.ecn, msg.segment_size);
        if msg.has_metas() {
            kept.meta = self.metas.keep(msg.borrowed_settings());
        }
        let cost = cost - (max_len - written);
        self.costs.push(cost);
        // SAFETY: `kept` has just been written, and there is room for it.
        unsafe { self.messages.set_len(self.messages.len() + 1) };
        Ok(cost)
    }

    /// Makes room for messages of which the queue takes `left` more bytes.
    #[cold]
    fn grow(&mut self, left: usize) -> Result<(), PushError> {
        let more = (left / OVERHEAD).min(self.messages.len().max(4));
        let costs = self.costs.try_reserve_exact(more);
        costs.and(self.messages.try_reserve_exact(more)).map_err(no_memory)
    }

    /// Repeats the last message with another destination, if it fits.
    pub(super) fn repeat(
        &mut self,
        dest: SocketAddr,
        (left, bound): (usize, usize),
    ) -> Result<(), PushError> {
        check(OVERHEAD, left, bound)?;
        if self.messages.len() == self.messages.capacity() {
            self.grow(left)?;
        }
        if let Some(last) = self.messages.last() {
            self.messages.push(last.with_dest(dest));
            self.costs.push(OVERHEAD);
        }
        Ok(())
    }

    /// Takes back the last push, from its first message at `place` on. Only for the back half.
    pub(super) fn take_back(&mut self, place: usize) {
        let Some(msg) = self.messages.get(place).copied() else { return };
        self.messages.truncate(place);
        self.costs.truncate(place);
        self.bytes.last.truncate(self.bytes.last.len() - msg.len());
        self.metas.last.truncate(self.metas.last.len() - usize::from(msg.meta.is_some()));
    }

    /// The datagrams in the order of sending.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = SendMsg<'_>> {
        (0..self.len()).map(|i| self.messages[self.place(i)])
    }

    /// The first datagrams, at most `max`. Copies them to a chunk if their order differs from that of the messages.
    #[inline]
    pub(super) fn fill<'q, 'r>(
        &'q self,
        chunk: &'r mut Chunk<'q>,
        max: usize,
    ) -> &'r [SendMsg<'q>] {
        let count = max.min(self.len());
        if self.order.is_empty() {
            return &self.messages[self.first..][..count];
        }
        chunk::fill(chunk, count, &mut (0..count).map(|i| self.messages[self.place(i)]))
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
        // 2^32 messages would take 384 GiB.
        self.order.extend(0..count as u32);
        // The place comes last in the key, so that each destination's datagrams stay in order.
        let key = |place: &u32| (self.messages[*place as usize].dest(), *place);
        self.order[self.first..].sort_unstable_by_key(key);
    }

    /// Drops the first `n` datagrams, not more than there are, and returns their cost.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) -> usize {
        let cost = (0..n).map(|i| self.costs[self.place(i)]).sum();
        self.first += n;
        if self.len() == 0 {
            self.clear();
        }
        cost
    }

    #[inline(never)]
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.costs.clear();
        self.bytes.clear();
        self.metas.clear();
        self.order.clear();
        self.first = 0;
    }
}

/// Copies bytes to the start of `free`, and takes that part off `free`.
#[inline(always)]
fn copy(data: &[u8], free: &mut &mut [MaybeUninit<u8>]) {
    let (now, rest) = mem::take(free).split_at_mut(data.len());
    // SAFETY: `now` is as long as `data`, and exclusively borrowed.
    unsafe { ptr::copy_nonoverlapping(data.as_ptr(), now.as_mut_ptr().cast(), data.len()) };
    *free = rest;
}

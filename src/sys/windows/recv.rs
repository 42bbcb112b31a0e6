//! Receiving on Windows: one message a call.

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::slice;

use socket2::{MaybeUninitSlice, SockRef};

use super::{AddrSpace, BorrowedSocket, OwnedSocket, RawAddr, RawAddrRef, UnixAddrBuf, retry};
use crate::sys::{Backend, CONTROL_SPACE, CallResult, MAX_BATCH, RecvFlags, RecvResult};

/// `MSG_PEEK` (winsock2.h).
const MSG_PEEK: i32 = 2;

/// The number of messages that a call may receive, and what the last one received.
#[derive(Debug)]
pub(crate) struct RecvStorage {
    capacity: usize,
    row: RowMemory,
}

/// What was received of one message.
#[derive(Clone, Debug)]
struct RowMemory {
    result: RecvResult,
    source: RawAddr,
}

impl RowMemory {
    const EMPTY: Self = Self {
        result: RecvResult {
            len: 0,
            truncated: false,
            control_truncated: false,
            source_len: 0,
            control_len: 0,
        },
        source: RawAddr::NONE,
    };

    fn lend(&self) -> Row<'_> {
        Row(self)
    }
}

/// What a receive left of one message, beside its payload.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a>(&'a RowMemory);

impl<'a> Row<'a> {
    pub(crate) fn result(self) -> RecvResult {
        self.0.result
    }

    pub(crate) fn source(self) -> RawAddrRef<'a> {
        self.0.source.lend()
    }

    /// There is none.
    pub(crate) fn control(self) -> &'a [u8] {
        &[]
    }
}

impl RecvStorage {
    pub(crate) const fn new() -> Self {
        Self { capacity: 0, row: RowMemory::EMPTY }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn reserve(&mut self, n: usize) -> io::Result<()> {
        if n > self.capacity {
            self.capacity = n.next_power_of_two().min(MAX_BATCH);
        }
        Ok(())
    }

    pub(crate) fn shrink_to(&mut self, n: usize) {
        self.capacity = self.capacity.min(n);
    }

    pub(crate) fn wire(&mut self) -> RecvHeaders<'_> {
        RecvHeaders { row: &mut self.row, space: None }
    }

    /// A receive brings one message or none.
    pub(crate) fn row(&self, _: usize) -> Row<'_> {
        self.row.lend()
    }

    /// There are none.
    pub(crate) fn drain_fds(&mut self) -> impl Iterator<Item = (usize, OwnedSocket)> {
        [].into_iter()
    }
}

/// The memory of the first message of a receive: no more are received.
pub(crate) struct RecvHeaders<'a> {
    row: &'a mut RowMemory,
    space: Option<(Buffers<'a>, Option<AddrSpace<'a>>)>,
}

enum Buffers<'a> {
    One(MaybeUninitSlice<'a>),
    Many(Vec<MaybeUninitSlice<'a>>),
}

impl<'a> RecvHeaders<'a> {
    pub(crate) fn push(
        &mut self,
        buffers: &'a mut [IoSliceMut<'_>],
        source: AddrSpace<'a>,
        _: Option<&'a mut [u8; CONTROL_SPACE]>,
    ) {
        if self.space.is_some() {
            return;
        }
        let buffers = match buffers {
            [buffer] => Buffers::One(uninit(buffer)),
            // The one allocation of this platform: socket2 wants slices of its own.
            _ => Buffers::Many(buffers.iter_mut().map(|buffer| uninit(buffer)).collect()),
        };
        self.space = Some((buffers, Some(source)));
    }

    pub(crate) fn push_buffer(&mut self, buffer: &'a mut IoSliceMut<'_>) {
        if self.space.is_none() {
            self.space = Some((Buffers::One(uninit(buffer)), None));
        }
    }

    /// None comes.
    pub(crate) fn accept_fds(&mut self) {}

    pub(crate) fn recv(
        self,
        _: Backend,
        socket: BorrowedSocket<'_>,
        flags: RecvFlags,
    ) -> CallResult {
        let Some((mut buffers, place)) = self.space else { return CallResult::moved(0) };
        let slices = match &mut buffers {
            Buffers::One(buffer) => slice::from_mut(buffer),
            Buffers::Many(buffers) => &mut buffers[..],
        };
        match recv_one(socket, slices, flags) {
            Ok(row) => {
                if let Some(place) = place {
                    *place.0 = row.source;
                }
                *self.row = row;
                CallResult::moved(1)
            }
            Err(error) => CallResult::stopped(0, error),
        }
    }
}

/// Payload memory, and what was received beside it.
#[derive(Debug)]
pub(crate) struct Slots {
    payload: Vec<u8>,
    rows: Vec<RowMemory>,
    slot_len: usize,
}

impl Slots {
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(crate) fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        let (mut payload, mut rows) = (Vec::new(), Vec::new());
        payload.try_reserve_exact(slots * slot_len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        rows.try_reserve_exact(slots).map_err(|_| io::ErrorKind::OutOfMemory)?;
        payload.resize(slots * slot_len, 0);
        rows.resize(slots, RowMemory::EMPTY);
        Ok(Self { payload, rows, slot_len })
    }

    pub(crate) fn recv(
        &mut self,
        _: Backend,
        socket: BorrowedSocket<'_>,
        range: Range<usize>,
        flags: RecvFlags,
    ) -> CallResult {
        let i = range.start;
        let slot = &mut self.payload[i * self.slot_len..][..self.slot_len];
        match recv_one(socket, &mut [uninit(slot)], flags) {
            Ok(row) => {
                self.rows[i] = row;
                CallResult::moved(1)
            }
            Err(error) => CallResult::stopped(0, error),
        }
    }

    /// Sets what is in slot `i`, as if it had been received.
    pub(crate) fn fill(&mut self, i: usize, result: RecvResult, source: &UnixAddrBuf) {
        self.rows[i] =
            RowMemory { result: RecvResult { control_len: 0, ..result }, source: source.0 };
    }

    /// Exchanges the payload of two slots.
    pub(crate) fn swap_payload(&mut self, i: usize, j: usize) {
        let (low, high) = (i.min(j), i.max(j));
        if low < high {
            let (start, end) = self.payload.split_at_mut(high * self.slot_len);
            let low = &mut start[low * self.slot_len..][..self.slot_len];
            low.swap_with_slice(&mut end[..self.slot_len]);
        }
    }

    /// What the last receive left in slot `i`: its whole payload memory, and the rest.
    pub(crate) fn results(&self, range: Range<usize>) -> impl Iterator<Item = RecvResult> {
        self.rows[range].iter().map(|row| row.result)
    }

    pub(crate) fn slot(&self, i: usize) -> (&[u8], Row<'_>) {
        (&self.payload[i * self.slot_len..][..self.slot_len], self.rows[i].lend())
    }

    /// Iterates over the first `n` slots.
    pub(crate) fn iter(&self, n: usize) -> SlotIter<'_> {
        SlotIter { payload: self.payload.chunks_exact(self.slot_len), rows: self.rows[..n].iter() }
    }

    /// Iterates over the first `n` slots, whose payload may be changed.
    pub(crate) fn iter_mut(&mut self, n: usize) -> SlotIterMut<'_> {
        let payload = self.payload.chunks_exact_mut(self.slot_len);
        SlotIterMut { payload, rows: self.rows[..n].iter() }
    }

    pub(crate) fn slot_len(&self) -> usize {
        self.slot_len
    }

    pub(crate) fn buffers(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.payload.chunks_exact_mut(self.slot_len)
    }

    /// No descriptor comes with a message here.
    pub(crate) fn accept_fds(&mut self, _: bool) {}

    pub(crate) fn accepts_fds(&self) -> bool {
        false
    }

    pub(crate) fn take_fds(&mut self, _: usize) -> impl Iterator<Item = OwnedSocket> {
        [].into_iter()
    }

    pub(crate) fn add_fds(&mut self, _: usize, _: impl Iterator<Item = OwnedSocket>) {}

    pub(crate) fn close_fds(&mut self) {}
}

/// Iterates over slots: the payload memory of each, and what was received beside it.
#[derive(Clone)]
pub(crate) struct SlotIter<'a> {
    payload: slice::ChunksExact<'a, u8>,
    rows: slice::Iter<'a, RowMemory>,
}

impl<'a> Iterator for SlotIter<'a> {
    type Item = (&'a [u8], Row<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        Some((self.payload.next()?, row.lend()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

/// The same with payload that may be changed.
pub(crate) struct SlotIterMut<'a> {
    payload: slice::ChunksExactMut<'a, u8>,
    rows: slice::Iter<'a, RowMemory>,
}

impl<'a> Iterator for SlotIterMut<'a> {
    type Item = (&'a mut [u8], Row<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        Some((self.payload.next()?, row.lend()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

fn recv_one(
    socket: BorrowedSocket<'_>,
    slices: &mut [MaybeUninitSlice<'_>],
    flags: RecvFlags,
) -> io::Result<RowMemory> {
    if flags.contains(RecvFlags::DONT_WAIT) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let native = if flags.contains(RecvFlags::PEEK) { MSG_PEEK } else { 0 };
    let socket = SockRef::from(&socket);
    let (len, flags, addr) = retry(|| socket.recv_from_vectored_with_flags(slices, native))?;
    let truncated = flags.is_truncated();
    let result = RecvResult { len, truncated, ..RowMemory::EMPTY.result };
    Ok(RowMemory { result, source: RawAddr(addr.as_socket()) })
}

/// The same bytes as a slice that may be left uninitialised.
fn uninit(buffer: &mut [u8]) -> MaybeUninitSlice<'_> {
    // SAFETY: the same layout. socket2 promises of its receive calls that they write no
    // uninitialised bytes into the buffers, so the `&mut [u8]` stays one.
    MaybeUninitSlice::new(unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) })
}

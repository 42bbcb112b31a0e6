//! Payload memory with headers that stay wired to it.

use std::fmt;
use std::io;
use std::iter::Zip;
use std::ops::Range;
use std::ptr;
use std::slice;

use super::Storage;
use super::recv::{RecvStorage, Row, Rows, reset};
use crate::sys::addr::{UNIX_NAME_LEN, UnixAddrBuf};
use crate::sys::native::header::Buffer;
use crate::sys::zeroed::Zeroed;
use crate::sys::{
    Backend, BorrowedSocket, CONTROL_SPACE, CallResult, OwnedSocket, RecvFlags, RecvResult,
};

/// Memory for messages of one length each, and a header for each, wired once.
///
/// ```text
/// rows     the headers, and memory for a source address and for control data each
/// buffers  [ buffer 0  ][ buffer 1  ] ...
/// payload  [ slot 0    ][ slot 1    ] ...   the caller's slot length each
/// ```
///
/// Invariant 3 (ARCHITECTURE.md): header `i` points at name `i`, at buffer `i` and at control `i`, and buffer `i` at slot
/// `i`, and nothing else points there. All of them are [`Zeroed`], so they stay where they are when this
/// moves; `rows` is neither resized nor wired anew.
pub(crate) struct Slots {
    rows: RecvStorage,
    /// Read by the kernel alone.
    buffers: Zeroed<Buffer>,
    payload: Zeroed<u8>,
    slot_len: usize,
    /// Whether received descriptors are stored.
    accepts_fds: bool,
    /// Slots from the start that the kernel may have written to since they were armed.
    touched: usize,
}

impl Slots {
    /// The caller has checked that the total fits an `isize`, and that no slot is empty.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(crate) fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        let mut new = Self {
            rows: RecvStorage::new(),
            buffers: Zeroed::try_new(slots)?,
            payload: Zeroed::try_new(slots * slot_len)?,
            slot_len,
            accepts_fds: false,
            touched: slots,
        };
        new.rows.resize(slots)?;
        // Addresses of the arrays, not of borrows of their elements: they outlive this call.
        let payload = new.payload.as_mut_ptr();
        let buffers = new.buffers.as_mut_ptr();
        let RecvStorage { headers, names, controls, .. } = &mut new.rows;
        let (names, controls) = (names.as_mut_ptr(), controls.as_mut_ptr());
        for (i, (header, buffer)) in headers.iter_mut().zip(&mut *new.buffers).enumerate() {
            // Within the arrays, since `i < slots`.
            *buffer = Buffer::new(payload.wrapping_add(i * slot_len), slot_len);
            header.set_buffers(buffers.wrapping_add(i), 1);
            header.set_name(names.wrapping_add(i).cast(), UNIX_NAME_LEN);
            header.set_control(controls.wrapping_add(i).cast(), CONTROL_SPACE);
        }
        Ok(new)
    }

    /// Receives into the slots of `range`; see the contract in [`crate::sys`]. A range that
    /// begins at 0 begins a new batch.
    #[inline]
    pub(crate) fn recv(
        &mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        range: Range<usize>,
        flags: RecvFlags,
    ) -> CallResult {
        if range.start == 0 {
            self.reset_used();
        }
        self.check(range.clone());
        let result = self.rows.wired(range.clone(), self.accepts_fds).recv(backend, socket, flags);
        // One more than was counted: a call that failed may have touched the slot it failed at. At a
        // socket's end, all of them.
        let touched = range.start + result.count + 1;
        self.touched = if result.ended { range.end } else { range.end.min(touched) };
        result
    }

    /// Checks what of the invariant can be seen.
    #[inline]
    fn check(&self, range: Range<usize>) {
        if cfg!(debug_assertions) {
            for i in range {
                let (header, buffer) = (&self.rows.headers[i], &self.buffers[i]);
                debug_assert!(ptr::eq(header.name().0, self.rows.names[i].as_ptr()));
                debug_assert!(ptr::eq(header.control().0, self.rows.controls[i].0.as_ptr()));
                debug_assert!(ptr::eq(header.buffers().0, buffer));
                let slot = &self.payload[i * self.slot_len..][..self.slot_len];
                debug_assert!(ptr::eq(buffer.start(), slot.as_ptr()));
                debug_assert_eq!(buffer.len(), slot.len());
            }
        }
    }

    /// Resets the headers that the kernel wrote to, and no others.
    #[inline]
    fn reset_used(&mut self) {
        self.rows.headers[..self.touched].iter_mut().for_each(reset);
        self.touched = 0;
    }

    /// Sets what is in slot `i`, as if it had been received.
    pub(crate) fn fill(&mut self, i: usize, result: RecvResult, source: &UnixAddrBuf) {
        let (name, len) = source.name();
        self.rows.names[i] = *name;
        let header = &mut self.rows.headers[i];
        header.set_result(RecvResult { source_len: len as usize, ..result });
        self.touched = self.touched.max(i + 1);
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

    /// What the last receive reported about the message in slot `i`.
    #[inline]
    pub(crate) fn result(&self, i: usize) -> RecvResult {
        self.rows.headers[i].result()
    }

    /// What the last receive left beside the payload in slot `i`.
    #[inline]
    pub(crate) fn row(&self, i: usize) -> Row<'_> {
        self.rows.row(i)
    }

    /// What the last receive left in slot `i`: its whole payload memory, and the rest.
    #[inline]
    pub(crate) fn slot(&self, i: usize) -> (&[u8], Row<'_>) {
        (&self.payload[i * self.slot_len..][..self.slot_len], self.rows.row(i))
    }

    /// Iterates over the first `n` slots.
    #[inline]
    pub(crate) fn iter(&self, n: usize) -> SlotIter<'_> {
        SlotIter(self.rows.iter(n).zip(self.payload.chunks_exact(self.slot_len)))
    }

    /// Iterates over the first `n` slots, whose payload may be changed.
    pub(crate) fn iter_mut(&mut self, n: usize) -> SlotIterMut<'_> {
        SlotIter(self.rows.iter(n).zip(self.payload.chunks_exact_mut(self.slot_len)))
    }

    /// Payload bytes of a slot.
    #[inline]
    pub(crate) fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// Sets whether received descriptors are stored or closed. Closes the stored ones.
    pub(crate) fn accept_fds(&mut self, on: bool) {
        self.accepts_fds = on;
        self.rows.fds.clear();
    }

    pub(crate) fn accepts_fds(&self) -> bool {
        self.accepts_fds
    }

    /// Takes the descriptors that came with message `i`.
    pub(crate) fn take_fds(&mut self, i: usize) -> impl Iterator<Item = OwnedSocket> {
        self.rows.fds.take(i)
    }

    /// Adds descriptors that came with message `i`, if they were asked for.
    pub(crate) fn add_fds(&mut self, i: usize, add: impl Iterator<Item = OwnedSocket>) {
        if self.accepts_fds {
            self.rows.fds.extend(i, add);
        }
    }

    /// Closes the descriptors that are there.
    #[inline]
    pub(crate) fn close_fds(&mut self) {
        self.rows.fds.clear();
    }

    /// The payload memory of each slot, for those who fill it themselves.
    pub(crate) fn buffers(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.payload.chunks_exact_mut(self.slot_len)
    }
}

/// Iterates over slots: the payload memory of each, by an iterator `P`, and what a receive left beside it.
#[derive(Clone)]
pub(crate) struct SlotIter<'a, P = slice::ChunksExact<'a, u8>>(Zip<Rows<'a>, P>);

/// The same with payload that may be changed.
pub(crate) type SlotIterMut<'a> = SlotIter<'a, slice::ChunksExactMut<'a, u8>>;

impl<'a, P: Iterator> Iterator for SlotIter<'a, P> {
    type Item = (P::Item, Row<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let ((header, (name, control)), payload) = self.0.next()?;
        Some((payload, Row::new(header, name, control)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("slots", &self.rows.capacity())
            .field("slot_len", &self.slot_len)
            .finish_non_exhaustive()
    }
}

//! The buffers of all headers of a send, in one row of iovecs.
//!
//! Adjacent buffers become one iovec, and other small ones are copied together, since an iovec costs
//! the kernel more than the copy.

use std::io;
use std::ops::Range;

use crate::sys::MAX_BUFFERS;
use crate::sys::native::header::Buffer;
use crate::sys::zeroed::Zeroed;

/// Buffers of up to this length are copied together: ARCHITECTURE.md has what was measured.
const COPY_MAX: usize = 512;
/// Iovecs for each header of the capacity.
const IOVECS: usize = 4;

/// Memory for the row and for copies.
pub(super) struct BufferStorage {
    iovecs: Zeroed<Buffer>,
    copies: Zeroed<u8>,
}

impl BufferStorage {
    pub(super) const fn new() -> Self {
        Self { iovecs: Zeroed::empty(), copies: Zeroed::empty() }
    }

    /// Makes the row long enough for `capacity` headers. The copies grow with it, if in use, so that no later call has to.
    pub(super) fn resize(&mut self, capacity: usize) -> io::Result<()> {
        // Any message that the kernel can take fits.
        let len = if capacity == 0 { 0 } else { (capacity * IOVECS).max(MAX_BUFFERS) };
        let iovecs = Zeroed::try_new(len)?;
        if !self.copies.is_empty() {
            self.copies = Zeroed::try_new(capacity * COPY_MAX)?;
        }
        self.iovecs = iovecs;
        Ok(())
    }

    /// Makes memory for the copies of `capacity` headers, if there is none.
    #[inline]
    pub(super) fn reserve_copies(&mut self, capacity: usize) -> io::Result<()> {
        if self.copies.len() < capacity * COPY_MAX {
            self.copies = Zeroed::try_new(capacity * COPY_MAX)?;
        }
        Ok(())
    }

    /// The empty row.
    #[inline]
    pub(super) fn row(&mut self) -> BufferRow<'_> {
        BufferRow {
            first: self.iovecs.as_mut_ptr(),
            row: &mut self.iovecs,
            used: 0,
            copies_start: self.copies.as_mut_ptr(),
            copies: &mut self.copies,
            copied: 0,
        }
    }
}

/// A row of iovecs that grows at its end.
pub(super) struct BufferRow<'a> {
    /// The address of the row, and not of a borrow of it: headers keep it while the row is
    /// written to.
    first: *mut Buffer,
    row: &'a mut [Buffer],
    used: usize,
    /// The same of the copies.
    copies_start: *mut u8,
    copies: &'a mut [u8],
    copied: usize,
}

impl BufferRow<'_> {
    #[inline(always)]
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Free iovecs.
    #[inline(always)]
    pub(super) fn left(&self) -> usize {
        self.row.len() - self.used
    }

    /// The address of iovec `i`.
    #[inline(always)]
    pub(super) fn pointer(&self, i: usize) -> *mut Buffer {
        self.first.wrapping_add(i)
    }

    /// Iovecs in use.
    pub(super) fn get(&self, range: Range<usize>) -> &[Buffer] {
        &self.row[..self.used][range]
    }

    /// Adds a buffer.
    #[inline(always)]
    pub(super) fn add(&mut self, data: &[u8]) {
        self.row[self.used] = Buffer::new(data.as_ptr(), data.len());
        self.used += 1;
    }

    /// The last buffer, for further ones to go on from. Nothing may follow in an empty row.
    #[inline(always)]
    pub(super) fn tail(&self) -> Tail {
        let last = &self.row[self.used - 1];
        let (start, len) = (last.start(), last.len());
        Tail { used: self.used, start, len, copied: self.copied }
    }

    /// Adds a buffer after the last one, or to it.
    #[inline(always)]
    pub(super) fn push(&mut self, tail: &mut Tail, data: &[u8]) {
        let mut start = data.as_ptr();
        let end = tail.start.wrapping_add(tail.len);
        if start != end && data.len() <= COPY_MAX {
            // A gathered message may have more small buffers than there is memory for copies.
            if let Some(copy) = self.copies.get_mut(tail.copied..tail.copied + data.len()) {
                copy.copy_from_slice(data);
                start = self.copies_start.wrapping_add(tail.copied).cast_const();
                tail.copied += data.len();
            }
        }
        if start == end {
            tail.len += data.len();
        } else {
            self.close(*tail);
            *tail = Tail { used: tail.used + 1, start, len: data.len(), ..*tail };
        }
    }

    /// Writes the last buffer into the row.
    #[inline(always)]
    pub(super) fn close(&mut self, tail: Tail) {
        self.row[tail.used - 1] = Buffer::new(tail.start, tail.len);
        (self.used, self.copied) = (tail.used, tail.copied);
    }
}

/// The last buffer of a row that grows: apart from it, so that a loop has it in registers.
#[derive(Clone, Copy)]
pub(super) struct Tail {
    /// Buffers in the row, this one included.
    used: usize,
    start: *const u8,
    len: usize,
    copied: usize,
}

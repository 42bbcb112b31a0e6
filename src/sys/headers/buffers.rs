//! The buffers of all headers of a send, in one row of iovecs.
//!
//! Adjacent buffers become one iovec, and other small ones are copied together, since an iovec costs
//! the kernel more than the copy.

use std::io;
use std::mem;
use std::ops::Range;

use crate::sys::MAX_BUFFERS;
use crate::sys::native::header::Buffer;
use crate::sys::zeroed::Zeroed;

/// Buffers of up to this length are copied together: ARCHITECTURE.md has what was measured.
const COPY_MAX: usize = 768;
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
            copies: Copies { start: self.copies.as_mut_ptr(), free: &mut self.copies },
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
    copies: Copies<'a>,
}

/// Memory for copies that is not in use yet.
struct Copies<'a> {
    /// Its address, and not that of a borrow of it, as in [`BufferRow`].
    start: *const u8,
    free: &'a mut [u8],
}

impl Copies<'_> {
    #[inline(always)]
    fn fits(&self, data: &[u8]) -> bool {
        data.len() <= COPY_MAX.min(self.free.len())
    }

    /// Copies what [fits](Self::fits), right after the copy before it.
    #[inline(always)]
    fn push(&mut self, data: &[u8]) {
        let (to, free) = mem::take(&mut self.free).split_at_mut(data.len());
        to.copy_from_slice(data);
        self.start = self.start.wrapping_add(data.len());
        self.free = free;
    }
}

impl<'a> BufferRow<'a> {
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

    /// The last buffer, for further ones to go on from: `data`, if that is all of it. Nothing may follow in
    /// an empty row. [`close`](Self::close) puts it back.
    #[inline(always)]
    pub(super) fn tail<'d>(&mut self, data: Option<&'d [u8]>) -> Tail<'a, 'd> {
        let last = &self.row[self.used - 1];
        let start = last.start();
        let copies = Copies { start: self.copies.start, free: mem::take(&mut self.copies.free) };
        Tail { used: self.used, start, end: start.wrapping_add(last.len()), data, copies }
    }

    /// Adds a buffer after the last one, or to it.
    #[inline(always)]
    pub(super) fn push(&mut self, tail: &mut Tail<'a, '_>, data: &[u8]) {
        let start = data.as_ptr();
        if start == tail.end {
            tail.end = start.wrapping_add(data.len());
        } else if tail.copies.fits(data) {
            if tail.end != tail.copies.start {
                self.begin_copies(tail, data.len());
            }
            tail.copies.push(data);
            tail.end = tail.copies.start;
        } else {
            self.next(tail, start);
            tail.end = start.wrapping_add(data.len());
        }
    }

    /// Makes the copy that comes next the last buffer or a part of it. The one before it is copied as well,
    /// if it is small: for a single buffer the kernel has a shorter way.
    fn begin_copies(&mut self, tail: &mut Tail<'a, '_>, len: usize) {
        // Another may have been added to it, of which nothing is known here but the end.
        let alone = tail.data.take().filter(|data| data.as_ptr_range().end == tail.end);
        match alone {
            Some(data) if data.len() <= COPY_MAX && data.len() + len <= tail.copies.free.len() => {
                tail.start = tail.copies.start;
                tail.copies.push(data);
            }
            _ => self.next(tail, tail.copies.start),
        }
    }

    /// Begins the next buffer.
    #[inline(always)]
    fn next(&mut self, tail: &mut Tail<'a, '_>, start: *const u8) {
        self.write(tail);
        tail.used += 1;
        (tail.start, tail.data) = (start, None);
    }

    /// Writes the last buffer into the row.
    #[inline(always)]
    fn write(&mut self, tail: &Tail<'a, '_>) {
        self.row[tail.used - 1] = Buffer::new(tail.start, tail.end as usize - tail.start as usize);
    }

    /// Ends what [`tail`](Self::tail) began.
    #[inline(always)]
    pub(super) fn close(&mut self, tail: Tail<'a, '_>) {
        self.write(&tail);
        (self.used, self.copies) = (tail.used, tail.copies);
    }
}

/// The last buffer of a row that grows: apart from it, so that a loop has it in registers.
pub(super) struct Tail<'a, 'd> {
    /// Buffers in the row, this one included.
    used: usize,
    start: *const u8,
    end: *const u8,
    /// The buffer that it began with, which is all of it as long as both have one end.
    data: Option<&'d [u8]>,
    copies: Copies<'a>,
}

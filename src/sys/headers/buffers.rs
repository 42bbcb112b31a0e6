//! The buffers of all headers of a send, in one row of iovecs.
//!
//! Adjacent buffers of a GSO batch become one iovec, and other short ones are copied together.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;

use super::WiredBuffers;
use super::copies::Copies;
use crate::sys::MAX_BUFFERS;
use crate::sys::native::header::Buffer;
use crate::sys::zeroed::Zeroed;

/// Buffers of up to this length on average are copied together: ARCHITECTURE.md has what was measured.
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
        if self.copies.is_empty() { self.make_copies(capacity) } else { Ok(()) }
    }

    #[cold]
    fn make_copies(&mut self, capacity: usize) -> io::Result<()> {
        self.copies = Zeroed::try_new(capacity * COPY_MAX)?;
        Ok(())
    }

    /// The empty row.
    #[inline]
    pub(super) fn row(&mut self) -> BufferRow<'_> {
        BufferRow {
            first: self.iovecs.as_mut_ptr(),
            row: &mut self.iovecs,
            used: 0,
            copies: Copies::new(&mut self.copies),
            copying: false,
            whole: 0,
        }
    }
}

/// A row of iovecs that grows at its end.
///
/// Invariant: those in use are readable for `'a`.
pub(super) struct BufferRow<'a> {
    /// The address of the row, and not of a borrow of it: headers keep it while the row is
    /// written to.
    first: *mut Buffer,
    row: &'a mut [Buffer],
    used: usize,
    copies: Copies<'a>,
    /// Whether the last buffer is the last of the copies.
    copying: bool,
    /// Buffers from here on are as they were added: no other was joined to them, which may be of another allocation.
    whole: usize,
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
    #[inline(always)]
    pub(super) fn get(&self, range: Range<usize>) -> &[Buffer] {
        &self.row[..self.used][range]
    }

    /// Adds a buffer.
    #[inline(always)]
    pub(super) fn add(&mut self, data: &'a [u8]) {
        self.row[self.used] = Buffer::new(data.as_ptr(), data.len());
        self.used += 1;
        self.copying = false;
    }

    /// Adds a buffer to the last one, if it follows that in memory or can be copied behind a copy, else after it. The
    /// row has at least one.
    #[inline(always)]
    pub(super) fn join(&mut self, data: &'a [u8]) {
        let last = &mut self.row[self.used - 1];
        if self.copying {
            if data.len() <= COPY_MAX && data.len() <= self.copies.left() {
                self.copies.space(data.len()).copy_from_slice(data);
                return self.join_copied(data.len());
            }
        } else if data.as_ptr() == end(last) {
            *last = Buffer::new(last.start(), last.len() + data.len());
            self.whole = self.used;
            return;
        }
        self.add(data);
    }

    /// Adds one of several buffers of a message: a short one as it is, so that all can be copied together in the end.
    #[inline(always)]
    pub(super) fn add_part(&mut self, data: &'a [u8]) {
        if data.len() > COPY_MAX || self.copying { self.join(data) } else { self.add(data) }
    }

    /// Adds a buffer to those from `start` on, and returns how to add the next ones: up to `count` of the same length.
    #[inline(always)]
    pub(super) fn join_alike(
        &mut self,
        start: usize,
        data: &'a [u8],
        count: usize,
    ) -> Others<'_, 'a> {
        let at = self.used - 1;
        let first = self.row[at];
        if !self.copying && data.as_ptr() == end(&first) {
            let last = &mut self.row[at];
            let end = data.as_ptr_range().end;
            *last = Buffer::new(first.start(), first.len() + data.len());
            self.whole = self.used;
            return Others::Adjacent(Adjacent { end, last, data: PhantomData });
        }
        let (len, both) = (data.len(), 2 * data.len());
        let is_alone = !self.copying && at == start && first.len() == len && at >= self.whole;
        if len > COPY_MAX || !is_alone || both + len * count > self.copies.left() {
            self.join(data);
            return Others::Apart;
        }
        let from = WiredBuffers { buffers: &[first] };
        let (copy, other) = self.copies.space(both).split_at_mut(len);
        from.iter().for_each(|first| copy.copy_from_slice(first));
        other.copy_from_slice(data);
        self.row[at] = self.copies.take(both);
        self.copying = true;
        Others::Copied(self.copies.space(len * count))
    }

    /// Joins what was copied into the first `len` bytes of the space for [`Others::Copied`].
    #[inline(always)]
    pub(super) fn join_copied(&mut self, len: usize) {
        let last = &mut self.row[self.used - 1];
        *last = Buffer::new(last.start(), last.len() + self.copies.take(len).len());
    }

    /// Makes one buffer of those from `start` on by copying, if they are short: each costs the kernel more than its copy, and
    /// for a single one it has a shorter way. Buffers that others were joined to stay.
    #[inline(always)]
    pub(super) fn copy_together(&mut self, start: usize) {
        let start = start.max(self.whole);
        if self.used - start > 1 {
            self.copy_from(start);
        }
    }

    #[inline(never)]
    fn copy_from(&mut self, start: usize) {
        let from = WiredBuffers { buffers: &self.row[start..self.used] };
        let bytes = from.buffers.iter().map(Buffer::len).sum();
        if bytes > (from.buffers.len() * COPY_MAX).min(self.copies.left()) {
            return;
        }
        let mut rest = self.copies.space(bytes);
        for data in from.iter() {
            let to;
            (to, rest) = rest.split_at_mut(data.len());
            to.copy_from_slice(data);
        }
        self.row[start] = self.copies.take(bytes);
        (self.used, self.copying) = (start + 1, true);
    }
}

/// The address after a buffer.
#[inline(always)]
fn end(buffer: &Buffer) -> *const u8 {
    buffer.start().wrapping_add(buffer.len())
}

/// How buffers are added that are like the last one.
pub(crate) enum Others<'r, 'a> {
    /// By copies into this memory: [`join_copied`](BufferRow::join_copied) adds them.
    Copied(&'r mut [u8]),
    /// By making the last one longer, as long as they follow it in memory.
    Adjacent(Adjacent<'r, 'a>),
    /// One by one.
    Apart,
}

/// The last buffer of a row, for adjacent ones to be joined: apart from the row, so that a loop has it in registers.
pub(crate) struct Adjacent<'r, 'a> {
    last: &'r mut Buffer,
    end: *const u8,
    data: PhantomData<fn(&'a [u8])>,
}

impl<'a> Adjacent<'_, 'a> {
    /// Adds a buffer if it follows the last one in memory. Returns whether it does.
    #[inline(always)]
    pub(crate) fn join(&mut self, data: &'a [u8]) -> bool {
        let is_next = data.as_ptr() == self.end;
        if is_next {
            *self.last = Buffer::new(self.last.start(), self.last.len() + data.len());
            self.end = data.as_ptr_range().end;
        }
        is_next
    }
}

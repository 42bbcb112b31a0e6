//! Memory for copies of short buffers.

use std::marker::PhantomData;
use std::slice;

use crate::sys::native::header::Buffer;
use crate::sys::zeroed::Zeroed;

/// Memory for copies, used from its start on.
///
/// By its address, and not by a borrow of it: headers keep that while the rest is written to.
///
/// Invariant: `start` is the start of `len` bytes that are lent for `'a`. No buffer points behind the first `used` of
/// them, which are at most `len`.
pub(super) struct Copies<'a> {
    start: *mut u8,
    len: usize,
    used: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Copies<'a> {
    /// All of this memory, unused.
    #[inline]
    pub(super) fn new(memory: &'a mut Zeroed<u8>) -> Self {
        Self { start: memory.as_mut_ptr(), len: memory.len(), used: 0, memory: PhantomData }
    }

    /// Bytes that are not in use.
    #[inline(always)]
    pub(super) fn left(&self) -> usize {
        self.len - self.used
    }

    /// The next `len` bytes.
    #[inline(always)]
    pub(super) fn space(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.left());
        // SAFETY: the invariant; initialised, since the memory is a slice of bytes.
        unsafe { slice::from_raw_parts_mut(self.start.add(self.used), len) }
    }

    /// The next `len` bytes as a buffer: they are in use now.
    #[inline(always)]
    pub(super) fn take(&mut self, len: usize) -> Buffer {
        assert!(len <= self.left());
        let start = self.start.wrapping_add(self.used);
        self.used += len;
        Buffer::new(start, len)
    }
}

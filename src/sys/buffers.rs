//! The caller's buffers for one message to receive.

#![allow(unsafe_code)]

use std::io::IoSliceMut;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

use super::native::header::Buffer;
use super::numbers;

/// One buffer, which may be uninitialised, or a list of buffers that are filled in order.
///
/// It keeps pointers. A `&mut [MaybeUninit<u8>]` made from a caller's `&mut [u8]` would let safe code uninitialise it, and a
/// `&mut [IoSliceMut<'a>]` would tie the list's lifetime to that of its buffers.
///
/// Invariant 7 (ARCHITECTURE.md):
/// - The buffers, and the list, are borrowed exclusively for `'a`.
/// - Their first `initialised` bytes are initialised.
pub(crate) struct RecvBuffers<'a> {
    memory: Memory,
    /// Bytes from the start, across the buffers. More than they have means all.
    initialised: usize,
    borrowed: PhantomData<&'a mut [u8]>,
}

enum Memory {
    One(Buffer),
    List(NonNull<[Buffer]>),
}

// SAFETY: as a `&mut [u8]`, it lends its bytes by the borrow of itself.
unsafe impl Send for RecvBuffers<'_> {}
// SAFETY: as above.
unsafe impl Sync for RecvBuffers<'_> {}

impl<'a> RecvBuffers<'a> {
    #[inline]
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self::one(buffer.as_mut_ptr(), buffer.len(), usize::MAX)
    }

    #[inline]
    pub(crate) fn uninit(buffer: &'a mut [MaybeUninit<u8>]) -> Self {
        if !numbers::KNOWS_LENGTHS {
            buffer.fill(MaybeUninit::new(0));
        }
        let initialised = if numbers::KNOWS_LENGTHS { 0 } else { usize::MAX };
        Self::one(buffer.as_mut_ptr().cast(), buffer.len(), initialised)
    }

    #[inline]
    fn one(start: *mut u8, len: usize, initialised: usize) -> Self {
        Self { memory: Memory::One(Buffer::new(start, len)), initialised, borrowed: PhantomData }
    }

    #[inline]
    pub(crate) fn list(list: &'a mut [IoSliceMut<'_>]) -> Self {
        // std documents that an `IoSliceMut` has the layout of a `Buffer`.
        let len = list.len();
        let list = NonNull::slice_from_raw_parts(NonNull::from(list).cast(), len);
        Self { memory: Memory::List(list), initialised: usize::MAX, borrowed: PhantomData }
    }

    #[inline]
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.memory, Memory::List(_))
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[Buffer] {
        match &self.memory {
            Memory::One(buffer) => slice::from_ref(buffer),
            // SAFETY: invariant 7, and nobody writes to the list itself.
            Memory::List(list) => unsafe { list.as_ref() },
        }
    }

    /// Bytes of all buffers.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.as_slice().iter().fold(0, |sum, buffer| buffer.len().saturating_add(sum))
    }

    /// The first `len` bytes, buffer by buffer, as far as they are initialised.
    #[inline]
    pub(crate) fn slices(&self, len: usize) -> impl Iterator<Item = &[u8]> {
        let mut left = len.min(self.initialised);
        self.as_slice().iter().map(move |buffer| {
            let len = left.min(buffer.len());
            left -= len;
            // SAFETY: invariant 7; the bytes are borrowed as long as `self`.
            unsafe { slice::from_raw_parts(buffer.start(), len) }
        })
    }

    /// The bytes of [`slices`](Self::slices) in the first buffer.
    #[inline]
    pub(crate) fn first(&self, len: usize) -> &[u8] {
        self.slices(len).next().unwrap_or_default()
    }

    pub(crate) fn first_mut(&mut self, len: usize) -> &mut [u8] {
        let len = self.first(len).len();
        let Some(buffer) = self.as_slice().first() else { return &mut [] };
        // SAFETY: invariant 7; the bytes are borrowed exclusively as long as `self`.
        unsafe { slice::from_raw_parts_mut(buffer.start().cast_mut(), len) }
    }

    /// Copies as much of `data` as fits. Returns how many bytes it copied.
    pub(crate) fn fill(&mut self, data: &[u8]) -> usize {
        let mut rest = data;
        for buffer in self.as_slice() {
            let (now, later) = rest.split_at(rest.len().min(buffer.len()));
            // SAFETY: invariant 7; `data` is borrowed elsewhere, so the two do not overlap.
            unsafe { buffer.start().cast_mut().copy_from_nonoverlapping(now.as_ptr(), now.len()) };
            rest = later;
        }
        let copied = data.len() - rest.len();
        self.initialised = self.initialised.max(copied);
        copied
    }

    /// # Safety
    ///
    /// The first `len` bytes have been written, or all if there are fewer.
    #[inline]
    pub(crate) unsafe fn assume_init(&mut self, len: usize) {
        self.initialised = self.initialised.max(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_is_shown() {
        let mut memory = [MaybeUninit::uninit(); 8];
        let mut buffers = RecvBuffers::uninit(&mut memory);
        let known = if numbers::KNOWS_LENGTHS { 0 } else { 8 };
        assert_eq!((buffers.capacity(), buffers.first(8).len()), (8, known));
        assert_eq!((buffers.fill(b"five!"), buffers.first(3)), (5, &b"fiv"[..]));
        assert_eq!((buffers.fill(b"two"), buffers.first(5)), (3, &b"twoe!"[..]));
        buffers.first_mut(2).fill(b'-');
        assert!(buffers.slices(usize::MAX).next().is_some_and(|shown| shown.starts_with(b"--oe!")));
        assert_eq!(buffers.fill(b"more than fits"), 8);
        assert_eq!(buffers.first(usize::MAX), b"more tha");
    }

    #[test]
    fn a_list_is_filled_in_order() {
        let (mut one, mut other) = ([b'.'; 2], [b'.'; 3]);
        let mut list = [&mut one[..], &mut [], &mut other].map(IoSliceMut::new);
        let mut buffers = RecvBuffers::list(&mut list);
        assert_eq!((buffers.capacity(), buffers.fill(b"abc")), (5, 3));
        assert!(buffers.slices(4).eq([&b"ab"[..], b"", b"c."]));
        buffers.first_mut(9).fill(b'-');
        assert!(buffers.slices(9).eq([&b"--"[..], b"", b"c.."]));
        assert_eq!((one, other), ([b'-'; 2], *b"c.."));
    }
}

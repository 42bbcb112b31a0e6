//! A heap array of plain C values that starts as zero bytes.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::slice;

use super::addr::Name;
use super::layout::Control;
use super::native::header::{Buffer, Header};

/// Types of which any bytes are a value, zeros included.
///
/// # Safety
///
/// The type has no invalid bit patterns, no padding that is read, and no `Drop`.
pub(super) unsafe trait Plain: Sized {}

// SAFETY: bytes.
unsafe impl Plain for u8 {}
// SAFETY: an array of bytes.
unsafe impl Plain for Control {}
// SAFETY: a C struct of a raw pointer and a length.
unsafe impl Plain for Buffer {}
// SAFETY: an array of bytes.
unsafe impl Plain for Name {}
// SAFETY: a C struct of raw pointers, lengths and flags; a null pointer is a valid raw pointer.
unsafe impl Plain for Header {}

/// A boxed slice of a fixed length, zeroed, whose elements never move while it lives.
///
/// The allocator zeroes it: a large one consists of fresh pages, which take no memory until they are touched.
/// A `Box<[T]>` would not do: its pointer is exclusive, so that moving it would invalidate the
/// header's pointers into it.
///
/// Invariants:
/// 1. `ptr` is the start of an allocation of `len` elements, or dangling and aligned if `len` or
///    the size of `T` is 0.
/// 2. All elements are initialised: zeroed at first, and only written as `T` or, by the kernel, as
///    the bytes of a [`Plain`] type.
pub(super) struct Zeroed<T: Plain> {
    ptr: NonNull<T>,
    len: usize,
}

// SAFETY: the raw pointers in a header are numbers until a system call follows them, and those who make the
// call own or borrow what they point to.
unsafe impl Send for Header {}
// SAFETY: as above.
unsafe impl Sync for Header {}
// SAFETY: as for a header.
unsafe impl Send for Buffer {}
// SAFETY: as for a header.
unsafe impl Sync for Buffer {}

// SAFETY: it owns its elements, and gives them out by the borrow rules alone.
unsafe impl<T: Plain + Send> Send for Zeroed<T> {}
// SAFETY: as above; a shared reference gives shared references only.
unsafe impl<T: Plain + Sync> Sync for Zeroed<T> {}

impl<T: Plain> Zeroed<T> {
    /// No elements, no memory.
    pub(super) const fn empty() -> Self {
        Self { ptr: NonNull::dangling(), len: 0 }
    }

    /// `len` elements of zero bytes.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if the allocation fails.
    pub(super) fn try_new(len: usize) -> io::Result<Self> {
        let layout = Layout::array::<T>(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if layout.size() == 0 {
            return Ok(Self { ptr: NonNull::dangling(), len });
        }
        // SAFETY: the layout's size is not 0.
        let memory = unsafe { alloc_zeroed(layout) }.cast::<T>();
        let ptr = NonNull::new(memory).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { ptr, len })
    }

    /// The address of element `i`, good for as long as `self` lives, wherever it moves. Writes to other elements
    /// leave it good.
    #[inline]
    pub(super) fn pointer(&self, i: usize) -> *mut T {
        debug_assert!(i <= self.len);
        self.ptr.as_ptr().wrapping_add(i)
    }

    /// Element `i`, borrowed apart from the others, to which there may be pointers.
    #[inline]
    pub(super) fn at(&mut self, i: usize) -> &mut T {
        assert!(i < self.len);
        // SAFETY: invariants 1 and 2; the exclusive borrow of `self` is that of the element.
        unsafe { &mut *self.ptr.as_ptr().add(i) }
    }

    /// The elements of `range`, borrowed apart from the others.
    #[inline]
    pub(super) fn range(&mut self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: invariants 1 and 2; the exclusive borrow of `self` is that of the elements.
        unsafe { slice::from_raw_parts_mut(self.ptr.as_ptr().add(range.start), range.len()) }
    }
}

impl<T: Plain> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: invariants 1 and 2; the borrow of `self` is the borrow of the elements.
        unsafe { slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Zeroed<T> {
    fn drop(&mut self) {
        let layout = Layout::array::<T>(self.len).expect("was computed before");
        if layout.size() > 0 {
            // SAFETY: invariant 1: allocated by `try_new` with this layout. `Plain` needs no drop.
            unsafe { dealloc(self.ptr.as_ptr().cast(), layout) }
        }
    }
}

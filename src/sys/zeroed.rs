//! A heap array of plain C values, zeroed at first.

#![allow(unsafe_code)]

use std::alloc::{Layout, LayoutError, alloc_zeroed, dealloc};
use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::slice;

/// Types for which any bytes are a valid value, zeros included.
///
/// # Safety
///
/// The type has no invalid bit patterns, no padding that is read, and no `Drop`. Any thread may use it: only system calls
/// follow pointers in it, and their callers own or borrow the memory.
pub(super) unsafe trait Plain: Sized {
    /// Where an array of them begins: at a multiple of this power of two, at least the type's own alignment.
    const ALIGN: usize = align_of::<Self>();
}

// SAFETY: any byte is a valid `u8`.
unsafe impl Plain for u8 {}
// SAFETY: any bytes are a valid array of bytes.
unsafe impl<const N: usize> Plain for [u8; N] {}

/// Bytes that begin at a multiple of 8.
#[repr(C, align(8))]
pub(super) struct Aligned<const N: usize>(pub(super) [u8; N]);

// SAFETY: any bytes are a valid array of bytes.
unsafe impl<const N: usize> Plain for Aligned<N> {}

/// A zeroed slice on the heap, of fixed length. Its elements stay in place when it moves.
///
/// The allocator zeroes it, so a large one consists of fresh pages, which take no memory until they are touched. A `Box<[T]>`
/// would not do: its pointer is exclusive, so a move would invalidate the headers' pointers into it. An allocation with the
/// alignment of [`Plain::ALIGN`] would be zeroed by writing to it, so its elements begin behind `padding` instead.
///
/// Invariants:
/// 1. `ptr` is `padding` bytes behind the start of an allocation for `len` elements (`layout`), all of which it holds. If
///    `len` or the size of `T` is 0, it is dangling and aligned.
/// 2. All elements are initialised: zeroed at first, and only written as a `T`, or by the kernel as bytes of a [`Plain`]
///    type.
pub(super) struct Zeroed<T: Plain> {
    ptr: NonNull<T>,
    len: usize,
    padding: usize,
}

// SAFETY: it owns its elements, and any thread may use them (`Plain`).
unsafe impl<T: Plain> Send for Zeroed<T> {}
// SAFETY: as above; a shared reference gives shared references only.
unsafe impl<T: Plain> Sync for Zeroed<T> {}

impl<T: Plain> Zeroed<T> {
    /// No elements, no memory.
    pub(super) const fn empty() -> Self {
        Self { ptr: NonNull::dangling(), len: 0, padding: 0 }
    }

    /// `len` elements of zero bytes.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if the allocation fails.
    pub(super) fn try_new(len: usize) -> io::Result<Self> {
        let layout = layout::<T>(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if layout.size() == 0 {
            return Ok(Self { ptr: NonNull::dangling(), len, padding: 0 });
        }
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        let start = start.ok_or(io::ErrorKind::OutOfMemory)?;
        let padding = start.addr().get().wrapping_neg() % T::ALIGN;
        // SAFETY: the layout has space for the elements behind any padding.
        let ptr = unsafe { start.add(padding) }.cast();
        Ok(Self { ptr, len, padding })
    }

    /// The address of element `i`. It stays valid while `self` lives, also when `self` moves and when other elements are
    /// written.
    #[inline]
    pub(super) fn pointer(&self, i: usize) -> *mut T {
        debug_assert!(i <= self.len);
        self.ptr.as_ptr().wrapping_add(i)
    }

    /// Element `i`. Pointers to other elements stay valid, since this borrows no other element.
    #[inline]
    pub(super) fn at(&mut self, i: usize) -> &mut T {
        assert!(i < self.len);
        // SAFETY: invariants 1 and 2; the element is borrowed exclusively because `self` is.
        unsafe { &mut *self.ptr.as_ptr().add(i) }
    }

    /// The elements of `range`. Pointers to other elements stay valid.
    #[inline]
    pub(super) fn range(&mut self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: invariants 1 and 2; the elements are borrowed exclusively because `self` is.
        unsafe { slice::from_raw_parts_mut(self.ptr.as_ptr().add(range.start), range.len()) }
    }
}

impl<T: Plain> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: invariants 1 and 2; the elements are borrowed for as long as `self`.
        unsafe { slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Plain> fmt::Debug for Zeroed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[_; {}]", self.len)
    }
}

impl<T: Plain> Drop for Zeroed<T> {
    fn drop(&mut self) {
        let layout = layout::<T>(self.len).expect("`try_new` computed the same layout");
        if layout.size() > 0 {
            // SAFETY: invariant 1: `try_new` allocated the memory with this layout. `Plain` types have no `Drop`.
            unsafe { dealloc(self.ptr.as_ptr().cast::<u8>().sub(self.padding), layout) }
        }
    }
}

/// Memory for `len` elements, and for the padding before them: none for no bytes.
fn layout<T: Plain>(len: usize) -> Result<Layout, LayoutError> {
    let elements = Layout::array::<T>(len)?;
    let padding = if elements.size() == 0 { 0 } else { T::ALIGN - align_of::<T>() };
    Layout::from_size_align(elements.size() + padding, elements.align())
}

/// Resizes to the next power of two if `needed` exceeds `capacity`, so that a batch that grows step by step allocates seldom.
///
/// # Errors
///
/// The error of `resize`.
pub(super) fn grow(
    capacity: usize,
    needed: usize,
    resize: impl FnOnce(usize) -> io::Result<()>,
) -> io::Result<()> {
    if needed <= capacity { Ok(()) } else { resize(needed.next_power_of_two()) }
}

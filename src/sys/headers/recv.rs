//! The headers of a batch to receive: their storage and results, a builder that points them at the caller's memory for one
//! call, and the slots of a batch, whose untouched headers stay prepared.
//!
//! ```text
//! headers  [ header 0  ][ header 1  ] ...   name, buffers, control: pointers
//! names    [ name 0    ][ name 1    ] ...   a source address each
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
//! ```

#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::io::{self, IoSliceMut};
use std::marker::PhantomData;
use std::ptr;
use std::slice::ChunksExactMut;

use crate::sys::addr::{NAME_LEN, Name, RawAddr};
use crate::sys::buffers::RecvBuffers;
use crate::sys::control_message::{CONTROL_SPACE, Control};
use crate::sys::message::RecvResult;
use crate::sys::native::header::{Buffer, Header};
use crate::sys::numbers;
use crate::sys::zeroed::{Zeroed, grow};

/// Storage for the headers of a batch to receive.
#[derive(Debug)]
pub(crate) struct RecvStorage {
    headers: Zeroed<Header>,
    names: Zeroed<Name>,
    controls: Zeroed<Control>,
    /// The number of headers, from the first, that were never set or that a call may have written to since.
    touched: usize,
}

impl RecvStorage {
    pub(crate) const fn new() -> Self {
        Self {
            headers: Zeroed::empty(),
            names: Zeroed::empty(),
            controls: Zeroed::empty(),
            touched: 0,
        }
    }

    /// Capacity in headers.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Makes room for `n` headers.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`; the capacity is unchanged.
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize) -> io::Result<()> {
        grow(self.capacity(), n, |n| self.resize(n))
    }

    /// Replaces the memory. Copies nothing, since each call writes every header that it uses.
    #[cold]
    fn resize(&mut self, n: usize) -> io::Result<()> {
        let (headers, names) = (Zeroed::try_new(n)?, Zeroed::try_new(n)?);
        self.controls = Zeroed::try_new(n)?;
        (self.headers, self.names) = (headers, names);
        Ok(())
    }

    /// Begins a batch without headers.
    #[inline]
    pub(crate) fn begin(&mut self) -> RecvHeaders<'_> {
        RecvHeaders { storage: self, len: 0, borrowed: PhantomData }
    }

    /// What the last call reported about message `i`.
    #[inline]
    pub(crate) fn result(&self, i: usize) -> RecvResult {
        self.headers[i].result()
    }

    /// The memory that the source of message `i` was written to.
    #[inline]
    pub(crate) fn name(&self, i: usize) -> &Name {
        &self.names[i]
    }

    /// The source of message `i` with this result.
    #[inline]
    pub(crate) fn source(&self, i: usize, result: &RecvResult) -> RawAddr<'_> {
        RawAddr::new(self.name(i), result.source_len)
    }

    /// The control data of message `i` with this result.
    #[inline]
    pub(crate) fn control(&self, i: usize, result: &RecvResult) -> &[u8] {
        &self.controls[i].0[..result.control_len]
    }
}

/// A builder of headers to receive into.
///
/// Invariant: the name, buffers and control data of the first `len` headers are writable for `'a` and used by nobody else:
/// they are borrowed for `'a`, or lie in the storage.
pub(crate) struct RecvHeaders<'a> {
    storage: &'a mut RecvStorage,
    len: usize,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> RecvHeaders<'a> {
    /// Points the next header at a message's buffers. The caller has reserved capacity.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if there are too many. (In a batch the kernel would keep that error for the socket's next call.)
    #[inline]
    pub(crate) fn push(&mut self, buffers: &'a mut RecvBuffers<'_>) -> io::Result<()> {
        let list = buffers.as_slice();
        if list.len() > numbers::MAX_BUFFERS {
            return Err(io::Error::from_raw_os_error(numbers::EMSGSIZE));
        }
        self.push_list(list.as_ptr(), list.len());
        Ok(())
    }

    /// Points the next header at a buffer. The caller has reserved capacity.
    #[inline]
    pub(crate) fn push_slice(&mut self, buffer: &'a mut IoSliceMut<'_>) {
        // std documents that an `IoSliceMut` has the layout of a `Buffer`.
        self.push_list(ptr::from_mut(buffer).cast(), 1);
    }

    /// The buffers are borrowed exclusively for `'a`.
    #[inline]
    fn push_list(&mut self, first: *const Buffer, count: usize) {
        let name = self.storage.names.pointer(self.len).cast();
        let control = self.storage.controls.pointer(self.len).cast();
        let header = self.storage.headers.at(self.len);
        header.set_buffers(first, count);
        reset(header, name, control);
        self.len += 1;
    }

    /// The headers, for the call.
    #[inline]
    pub(crate) fn prepared(self) -> PreparedRecvs<'a> {
        let RecvStorage { headers, touched, .. } = self.storage;
        // SAFETY: the invariant, which `push` keeps. The storage is borrowed for `'a`.
        unsafe { PreparedRecvs::new(headers.range(0..self.len), 0, touched) }
    }
}

/// Sets the fields that a call overwrites.
#[inline]
fn reset(header: &mut Header, name: *mut u8, control: *mut u8) {
    header.set_name(name, NAME_LEN);
    header.set_control(control, CONTROL_SPACE);
    header.clear_result();
}

/// Headers to receive into. Safe code can only read them.
///
/// Invariant 1 (ARCHITECTURE.md), which makes the system call sound: each header's name, buffers and control data are
/// writable for `'h` and used by nobody else, with the lengths in the header.
pub(crate) struct PreparedRecvs<'h> {
    headers: &'h mut [Header],
    /// The index of the first header in its storage.
    first: usize,
    /// [`RecvStorage::touched`].
    touched: &'h mut usize,
}

impl<'h> PreparedRecvs<'h> {
    /// # Safety
    ///
    /// The headers meet the invariant, and no call has overwritten their fields.
    #[inline]
    unsafe fn new(headers: &'h mut [Header], first: usize, touched: &'h mut usize) -> Self {
        debug_assert!(headers.iter().all(|header| {
            let ((first, count), (control, len)) = (header.buffers(), header.control());
            header.name_len() == NAME_LEN
                && len == CONTROL_SPACE
                && !control.is_null()
                && (count == 0 || !first.is_null())
        }));
        *touched = first + headers.len();
        Self { headers, first, touched }
    }

    #[inline]
    pub(in crate::sys) fn as_slice(&self) -> &[Header] {
        self.headers
    }

    /// Whether the first header has a buffer with space.
    #[cfg(unix)]
    pub(in crate::sys) fn has_space(&self) -> bool {
        let (first, count) = self.headers.first().map_or((ptr::null(), 0), Header::buffers);
        // SAFETY: by the invariant `first` points at `count` buffers.
        (0..count).any(|i| unsafe { (*first.add(i)).len() } > 0)
    }

    /// For the system call.
    #[inline]
    pub(in crate::sys) fn as_mut_ptr(&mut self) -> *mut Header {
        self.headers.as_mut_ptr()
    }

    /// Limits the headers that must be set anew to the first `n`: without this, all of them.
    ///
    /// # Safety
    ///
    /// The calls so far have written to no other headers.
    #[inline]
    pub(in crate::sys) unsafe fn set_touched(&mut self, n: usize) {
        *self.touched = self.first + n.min(self.headers.len());
    }
}

/// The alignment of the first slot: a page on most systems.
const PAGE: usize = 4096;
/// The alignment of the other slots: a cache line on most processors.
const LINE: usize = 64;

/// Memory for messages of up to `slot_len` bytes. Each slot has a header, which is set up again after a call has used it.
///
/// ```text
/// storage  the headers, each with memory for a source address and control data
/// buffers  [ buffer 0  ][ buffer 1  ] ...
/// payload  ... [ slot 0    ][ slot 1    ] ...
/// ```
///
/// The kernel copies slowly into a slot whose offset in its page is slightly above that of the sender's payload. So the
/// first slot begins a page, and the others begin cache lines. `payload` has a spare page for that: an allocation aligned
/// to a page would be zeroed by writing to it, and unused slots would take memory.
///
/// Invariant 3 (ARCHITECTURE.md): from `touched` to `fresh`, header `i` points at name `i`, buffer `i` and control `i`, and buffer `i`
/// at slot `i`; nothing else points there. All of them are [`Zeroed`], so they stay in place when this moves. `storage` is never resized,
/// and a header never points elsewhere.
#[derive(Debug)]
pub(crate) struct Slots {
    storage: RecvStorage,
    /// One for each slot. Only the kernel reads them.
    buffers: Zeroed<Buffer>,
    payload: Zeroed<u8>,
    /// Slots from here on were never offered to a call: their headers are not set up, and use no memory.
    fresh: usize,
    /// Bytes of `payload` before the first slot.
    offset: usize,
    stride: usize,
    slot_len: usize,
}

impl Slots {
    /// No slots, no memory.
    pub(crate) fn empty() -> Self {
        let (storage, buffers, payload) = (RecvStorage::new(), Zeroed::empty(), Zeroed::empty());
        Self { storage, buffers, payload, fresh: 0, offset: 0, stride: 0, slot_len: 0 }
    }

    /// The caller has checked that the total fits an `isize`, and that `slot_len` is not 0.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(crate) fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        let stride = slot_len.next_multiple_of(LINE);
        let (buffers, mut storage) = (Zeroed::try_new(slots)?, RecvStorage::new());
        storage.resize(slots)?;
        let payload = Zeroed::<u8>::try_new(slots * stride + PAGE)?;
        let offset = payload.pointer(0).cast_const().align_offset(PAGE).min(PAGE);
        Ok(Self { storage, buffers, payload, fresh: 0, offset, stride, slot_len })
    }

    /// The headers of `count` slots from `first` on, for the call. Sets up those that earlier calls touched, and fresh ones.
    #[inline]
    pub(crate) fn prepared(&mut self, first: usize, count: usize) -> PreparedRecvs<'_> {
        let RecvStorage { headers, names, controls, touched } = &mut self.storage;
        let end = first + count;
        if self.fresh < end {
            (self.fresh, *touched) = (end, end.max(*touched));
        }
        for i in first..*touched {
            // Calls do not change the buffer. Writing it fetches its cache line while the others are fetched; the kernel
            // would wait for it.
            let slot = self.payload.pointer(self.offset + i * self.stride);
            *self.buffers.at(i) = Buffer::new(slot, self.slot_len);
            let header = headers.at(i);
            header.set_buffers(self.buffers.pointer(i), 1);
            reset(header, names.pointer(i).cast(), controls.pointer(i).cast());
        }
        // SAFETY: invariant 3; `self` is borrowed exclusively until the call has returned.
        unsafe { PreparedRecvs::new(headers.range(first..end), first, touched) }
    }

    /// Sets the result and source of slot `i`, as a receive would.
    pub(crate) fn set_received(&mut self, i: usize, result: RecvResult, source: &Name) {
        *self.storage.names.at(i) = *source;
        self.storage.headers.at(i).set_result(result);
        self.storage.touched = self.storage.touched.max(i + 1);
    }

    /// The number of slots.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.storage.capacity()
    }

    /// The length of each slot in bytes.
    #[inline]
    pub(crate) fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// The results of the last receive.
    #[inline]
    pub(crate) fn headers(&self) -> &RecvStorage {
        &self.storage
    }

    /// The payload memory of slot `i`.
    #[inline]
    pub(crate) fn payload(&self, i: usize) -> &[u8] {
        &self.payload[self.offset + i * self.stride..][..self.slot_len]
    }

    pub(crate) fn payload_mut(&mut self, i: usize) -> &mut [u8] {
        let start = self.offset + i * self.stride;
        self.payload.range(start..start + self.slot_len)
    }

    /// The slots in order, each with its padding, and the results of the last receive.
    pub(crate) fn iter_mut(&mut self) -> (ChunksExactMut<'_, u8>, &RecvStorage) {
        let end = self.offset + self.len() * self.stride;
        let slots = self.payload.range(self.offset..end).chunks_exact_mut(self.stride);
        (slots, &self.storage)
    }
}

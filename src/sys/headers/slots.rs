//! Payload memory for a batch, with headers that always point at it.

use std::io;
use std::slice::ChunksExactMut;

use super::WiredRecvs;
use super::recv::RecvStorage;
use crate::sys::addr::NAME_LEN;
use crate::sys::native::header::Buffer;
use crate::sys::zeroed::Zeroed;
use crate::sys::{
    self, Backend, BorrowedSocket, CONTROL_SPACE, RawAddr, RecvFlags, RecvResult, Taken,
};

/// The alignment of the first slot: a page on most systems.
const PAGE: usize = 4096;
/// The alignment of the other slots: a cache line on most processors.
const LINE: usize = 64;

/// Memory for messages of up to `slot_len` bytes. Each slot has a header that is set up once.
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
/// Invariant 3 (ARCHITECTURE.md): header `i` points at name `i`, buffer `i` and control `i`; buffer `i` points at slot `i`;
/// nothing else points there. All of them are [`Zeroed`], so they stay in place when this moves. `storage` is never resized,
/// and its headers never point elsewhere.
#[derive(Debug)]
pub(crate) struct Slots {
    storage: RecvStorage,
    /// One for each slot. Only the kernel reads them.
    buffers: Zeroed<Buffer>,
    payload: Zeroed<u8>,
    /// Bytes of `payload` before the first slot.
    offset: usize,
    stride: usize,
    slot_len: usize,
    /// The number of headers, from the first, that the kernel may have written to since the last reset.
    touched: usize,
}

impl Slots {
    /// The caller has checked that the total fits an `isize`, and that `slot_len` is not 0.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(crate) fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        let stride = slot_len.next_multiple_of(LINE);
        let payload = Zeroed::<u8>::try_new(slots * stride + PAGE)?;
        let offset = payload.pointer(0).cast_const().align_offset(PAGE).min(PAGE);
        let mut new = Self {
            storage: RecvStorage::new(),
            buffers: Zeroed::try_new(slots)?,
            payload,
            offset,
            stride,
            slot_len,
            touched: slots,
        };
        new.storage.resize(slots)?;
        for i in 0..slots {
            let slot = new.payload.pointer(offset + i * stride);
            *new.buffers.at(i) = Buffer::new(slot, slot_len);
            let (name, control) = (new.storage.names.pointer(i), new.storage.controls.pointer(i));
            let header = new.storage.headers.at(i);
            header.set_buffers(new.buffers.pointer(i), 1);
            header.set_name(name.cast(), NAME_LEN);
            header.set_control(control.cast(), CONTROL_SPACE);
        }
        Ok(new)
    }

    /// Receives into the slots from `first` on; see [`crate::sys::backend::recv`].
    ///
    /// # Errors
    ///
    /// The error of the first message.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn recv(
        &mut self,
        first: usize,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        flags: RecvFlags,
    ) -> io::Result<Taken> {
        let offered = flags.max_messages(self.len() - first);
        self.reset(first);
        // SAFETY: invariant 3; `self` is borrowed exclusively until the call has returned.
        let mut wired =
            unsafe { WiredRecvs::new(self.storage.headers.range(first..first + offered)) };
        let result = sys::backend::recv(backend, socket, &mut wired, flags);
        let count = result.as_ref().map_or(0, |taken| taken.count);
        // After a shutdown the kernel fills the rest of the slots with empty messages, which do not count.
        let ended = count < offered && self.storage.headers[first + count].name_len() == 0;
        // The kernel may also write to the header at which it finds an error.
        self.touched = first + if ended { offered } else { offered.min(count + 1) };
        result
    }

    /// Resets the fields that the kernel overwrote, from slot `first` on.
    #[inline]
    fn reset(&mut self, first: usize) {
        for i in first..self.touched {
            let (name, control) = (self.storage.names.pointer(i), self.storage.controls.pointer(i));
            let header = self.storage.headers.at(i);
            debug_assert!(std::ptr::eq(header.buffers().0, self.buffers.pointer(i)));
            header.set_name(name.cast(), NAME_LEN);
            header.set_control(control.cast(), CONTROL_SPACE);
            header.clear_flags();
        }
        self.touched = first;
    }

    /// Sets the result and source of slot `i`, as a receive would.
    pub(crate) fn set_received(&mut self, i: usize, result: RecvResult, source: &RawAddr) {
        let (name, len) = source.name();
        *self.storage.names.at(i) = *name;
        let result = RecvResult { source_len: len, control_len: 0, ..result };
        self.storage.headers.at(i).set_result(result);
        self.touched = self.touched.max(i + 1);
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
    pub(crate) fn storage(&self) -> &RecvStorage {
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

//! Payload memory with headers that stay wired to it.

use std::fmt;
use std::io;
use std::slice::ChunksExactMut;

use super::WiredRecvs;
use super::recv::RecvStorage;
use crate::sys::addr::NAME_LEN;
use crate::sys::native::header::Buffer;
use crate::sys::zeroed::Zeroed;
use crate::sys::{self, Backend, BorrowedSocket, CONTROL_SPACE, RawAddr, RecvFlags, RecvResult};

/// Where the first slot begins is a multiple of this: a page of most systems.
const PAGE: usize = 4096;
/// The distance from slot to slot is a multiple of this: a cache line of most processors.
const LINE: usize = 64;

/// Memory for messages of one length each, and a header for each, wired once.
///
/// ```text
/// rows     the headers, and memory for a source address and for control data each
/// buffers  [ buffer 0  ][ buffer 1  ] ...
/// payload  ... [ slot 0    ][ slot 1    ] ...
/// ```
///
/// The kernel's copy into a slot is slow where the slot's address, modulo a page, lies shortly behind that of the
/// sender's payload. So the first slot begins a page, and the others whole cache lines. The payload memory is longer
/// than the slots, and not moved: pages that nothing was received into take no memory.
///
/// Invariant 3 (ARCHITECTURE.md): header `i` points at name `i`, buffer `i` and control `i`, buffer `i` at slot `i`,
/// and nothing else points there. All of them are [`Zeroed`], so they stay where they are when this moves; `rows` is
/// neither resized nor wired anew.
pub(crate) struct Slots {
    storage: RecvStorage,
    /// Read by the kernel alone.
    buffers: Zeroed<Buffer>,
    payload: Zeroed<u8>,
    /// Where slot 0 begins.
    offset: usize,
    stride: usize,
    slot_len: usize,
    /// Slots from the start that the kernel may have written to since they were reset.
    touched: usize,
}

impl Slots {
    /// The caller has checked that the total fits an `isize`, and that no slot is empty.
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

    /// Receives into the slots from the first on; see [`crate::sys::backend::recv`].
    ///
    /// # Errors
    ///
    /// The error of the first message.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn recv(
        &mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        flags: RecvFlags,
    ) -> io::Result<usize> {
        let offered = flags.max_messages(self.len());
        self.reset();
        // SAFETY: invariant 3, and `self` is borrowed exclusively for as long.
        let mut wired = unsafe { WiredRecvs::new(self.storage.headers.range(0..offered)) };
        let result = sys::backend::recv(backend, socket, &mut wired, flags);
        let count = *result.as_ref().unwrap_or(&0);
        // A socket that was shut down fills slots with messages from nowhere, which do not count.
        let ended = count < offered && self.storage.headers[count].name_len() == 0;
        // The kernel may touch the slot in which it finds an error, too.
        self.touched = if ended { offered } else { offered.min(count + 1) };
        result
    }

    /// Sets the fields that a receive overwrites, of the headers that the kernel wrote to.
    #[inline]
    fn reset(&mut self) {
        for i in 0..self.touched {
            let (name, control) = (self.storage.names.pointer(i), self.storage.controls.pointer(i));
            let header = self.storage.headers.at(i);
            debug_assert!(std::ptr::eq(header.buffers().0, self.buffers.pointer(i)));
            header.set_name(name.cast(), NAME_LEN);
            header.set_control(control.cast(), CONTROL_SPACE);
            header.clear_flags();
        }
        self.touched = 0;
    }

    /// Sets what slot `i` holds beside its payload, as if it had been received.
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

    /// Payload bytes of a slot.
    #[inline]
    pub(crate) fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// What the last receive left beside the payload of the slots.
    #[inline]
    pub(crate) fn storage(&self) -> &RecvStorage {
        &self.storage
    }

    /// The payload memory of slot `i`.
    #[inline]
    pub(crate) fn payload(&self, i: usize) -> &[u8] {
        &self.payload[self.offset + i * self.stride..][..self.slot_len]
    }

    /// The same, to be written to.
    pub(crate) fn payload_mut(&mut self, i: usize) -> &mut [u8] {
        let start = self.offset + i * self.stride;
        self.payload.range(start..start + self.slot_len)
    }

    /// The slots in order, to be written to, each with the bytes up to the next one; and what the last receive left
    /// beside them.
    pub(crate) fn iter_mut(&mut self) -> (ChunksExactMut<'_, u8>, &RecvStorage) {
        let end = self.offset + self.len() * self.stride;
        let slots = self.payload.range(self.offset..end).chunks_exact_mut(self.stride);
        (slots, &self.storage)
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("slots", &self.len())
            .field("slot_len", &self.slot_len)
            .finish_non_exhaustive()
    }
}

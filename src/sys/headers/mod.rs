//! Headers wired for one system call, and the invariants that make the call sound.
//!
//! Only this folder makes them: [`send`] fills those of a send from bytes, [`single`] one on the stack, and
//! [`split`] those of the datagrams of a GSO batch; [`recv`] wires a receive's for one call, and [`slots`]
//! once and for all.

#![allow(unsafe_code)]

use std::io;
use std::slice;

mod buffers;
mod copies;
mod recv;
mod send;
mod single;
mod slots;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use buffers::Others;
pub(crate) use recv::{RecvHeaders, RecvStorage, Row};
pub(crate) use send::{Extension, OpenHeader, SendHeaders, SendStorage};
pub(crate) use single::SingleHeader;
pub(crate) use slots::{SlotIter, SlotIterMut, Slots};

pub(super) use recv::WiredRecvs;

use super::MAX_BATCH;
use super::native::header::{Buffer, Header};

/// Storage for the headers of a batch, which grows with the batches that it serves.
pub(crate) trait Storage {
    /// Capacity in headers.
    fn capacity(&self) -> usize;

    /// Replaces the memory by that for `n` headers.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`; the capacity is unchanged.
    fn resize(&mut self, n: usize) -> io::Result<()>;

    /// Grows to `n` headers, at most [`MAX_BATCH`].
    ///
    /// # Errors
    ///
    /// Those of [`resize`](Self::resize).
    #[inline]
    fn reserve(&mut self, n: usize) -> io::Result<()> {
        if n <= self.capacity() {
            return Ok(());
        }
        self.resize(n.next_power_of_two().min(MAX_BATCH))
    }

    /// Shrinks to `n` headers, if there is memory for the smaller storage.
    fn shrink_to(&mut self, n: usize) {
        if n < self.capacity() {
            let _ = self.resize(n);
        }
    }
}

/// Complete headers, for the system calls.
///
/// Invariant 1 (ARCHITECTURE.md), which makes the system call on them sound: each header's name, buffers and control
/// data are memory that is readable for `'h`, with the lengths that stand beside the pointers.
pub(super) struct WiredSends<'h> {
    headers: &'h mut [Header],
}

impl WiredSends<'_> {
    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// Whether message `i` has a destination of its own.
    pub(super) fn has_dest(&self, i: usize) -> bool {
        self.headers[i].name_len() > 0
    }

    /// Header `i`.
    pub(super) fn get(&self, i: usize) -> WiredSend<'_> {
        WiredSend { header: &self.headers[i] }
    }

    /// The headers for the system call, which writes the reported length alone.
    #[cfg(mmsg_calls)]
    pub(super) fn as_mut(&mut self) -> &mut [Header] {
        self.headers
    }
}

/// One complete header.
///
/// Invariant: that of [`WiredSends`].
#[derive(Clone, Copy)]
pub(super) struct WiredSend<'h> {
    header: &'h Header,
}

impl<'h> WiredSend<'h> {
    pub(super) fn header(self) -> &'h Header {
        self.header
    }

    /// The address; empty if the socket's peer is the destination.
    pub(super) fn name(self) -> &'h [u8] {
        // SAFETY: the invariant.
        unsafe { bytes(self.header.name()) }
    }

    /// The control data.
    #[inline]
    pub(super) fn control(self) -> &'h [u8] {
        // SAFETY: the invariant.
        unsafe { bytes(self.header.control()) }
    }

    /// The payload, buffer by buffer.
    pub(super) fn payload(self) -> impl Iterator<Item = &'h [u8]> + Clone {
        let (first, count) = self.header.buffers();
        // SAFETY: the invariant: every header has a row of buffers, an empty one included.
        let buffers = unsafe { slice::from_raw_parts(first, count) };
        WiredBuffers { buffers }.iter()
    }
}

/// Buffers to be sent.
///
/// Invariant: each is readable for `'h`.
struct WiredBuffers<'h> {
    buffers: &'h [Buffer],
}

impl<'h> WiredBuffers<'h> {
    #[inline]
    fn iter(&self) -> impl Iterator<Item = &'h [u8]> + Clone + use<'h> {
        // SAFETY: the invariant.
        self.buffers.iter().map(|buffer| unsafe { bytes((buffer.start(), buffer.len())) })
    }
}

/// `len` bytes at `start`, which may be null if there are none.
///
/// # Safety
///
/// They are readable for `'h`.
#[inline]
unsafe fn bytes<'h>((start, len): (*const u8, usize)) -> &'h [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts(start, len) }
}

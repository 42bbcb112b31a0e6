//! Headers for one system call, and the invariants that make the call sound.
//!
//! Only this folder points headers at memory: [`send`] for a send, [`recv`] for a receive into the caller's memory, and
//! [`slots`] once for all receives of a batch.

mod recv;
mod send;
mod slots;
#[cfg(any(test, fuzzing))]
mod tests;

use std::io;

pub(crate) use recv::{RecvEntry, RecvHeaders, RecvStorage};
pub(crate) use send::{SendHeaders, SendStorage};
pub(crate) use slots::Slots;

use super::addr::NAME_LEN;
use super::native::header::Header;
use super::{CONTROL_SPACE, MAX_BATCH};

/// Headers to send.
///
/// Invariant 1 (ARCHITECTURE.md), which makes the system call sound: each header's name, buffers and control data are
/// readable for `'h`, with the lengths in the header.
pub(super) struct WiredSends<'h> {
    headers: &'h mut [Header],
}

#[allow(unsafe_code)]
impl<'h> WiredSends<'h> {
    /// # Safety
    ///
    /// The headers meet the invariant.
    #[inline]
    unsafe fn new(headers: &'h mut [Header]) -> Self {
        debug_assert!(headers.iter().all(|header| {
            let (first, count) = header.buffers();
            header.name_len() <= NAME_LEN && (count == 0 || !first.is_null())
        }));
        Self { headers }
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// For the system call, which writes only the reported lengths.
    pub(super) fn as_mut(&mut self) -> &mut [Header] {
        self.headers
    }

    /// The buffers of message `i`.
    #[cfg(any(has_descriptors, test))]
    pub(super) fn buffers(&self, i: usize) -> &[super::native::header::Buffer] {
        let (first, count) = self.headers[i].buffers();
        if count == 0 {
            return &[];
        }
        // SAFETY: by the invariant `first` points at `count` buffers that are readable for `'h`.
        unsafe { std::slice::from_raw_parts(first, count) }
    }
}

/// Headers to receive into.
///
/// Invariant 1 (ARCHITECTURE.md), which makes the system call sound: each header's name, buffers and control data are
/// writable for `'h` and used by nobody else, with the lengths in the header.
pub(super) struct WiredRecvs<'h> {
    headers: &'h mut [Header],
}

#[allow(unsafe_code)]
impl<'h> WiredRecvs<'h> {
    /// The fields that the last call overwrote must be reset (R2).
    ///
    /// # Safety
    ///
    /// The headers meet the invariant.
    #[inline]
    unsafe fn new(headers: &'h mut [Header]) -> Self {
        debug_assert!(headers.iter().all(|header| {
            let ((first, count), (control, len)) = (header.buffers(), header.control());
            header.name_len() == NAME_LEN
                && len == CONTROL_SPACE
                && !control.is_null()
                && (count == 0 || !first.is_null())
        }));
        Self { headers }
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// For the system call.
    pub(super) fn as_mut(&mut self) -> &mut [Header] {
        self.headers
    }
}

/// Moves messages with one call each until a call fails. Returns how many it moved.
///
/// # Errors
///
/// The error of the first message.
pub(super) fn one_by_one(
    messages: usize,
    mut call: impl FnMut(usize) -> io::Result<()>,
) -> io::Result<usize> {
    for i in 0..messages {
        match call(i) {
            Err(error) if i == 0 => return Err(error),
            Err(_) => return Ok(i),
            Ok(()) => {}
        }
    }
    Ok(messages)
}

/// Resizes to the next power of two if `needed` exceeds `capacity`, so that a batch that grows step by step allocates seldom.
///
/// # Errors
///
/// The error of `resize`.
fn grow(
    capacity: usize,
    needed: usize,
    resize: impl FnOnce(usize) -> io::Result<()>,
) -> io::Result<()> {
    if needed <= capacity { Ok(()) } else { resize(needed.next_power_of_two().min(MAX_BATCH)) }
}

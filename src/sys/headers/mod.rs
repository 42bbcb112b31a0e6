//! Headers for one system call, and the invariants that make the call sound.
//!
//! Only this folder fills them: [`send`] those of a send, [`recv`] those of a receive into memory that the
//! caller lends, and [`slots`] those of a batch, once and for all.

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
/// Invariant 1 (ARCHITECTURE.md), which makes the system call sound: each header's name, buffers and control
/// data are memory that is readable for `'h`, of the lengths beside the pointers.
pub(super) struct WiredSends<'h> {
    headers: &'h mut [Header],
}

#[allow(unsafe_code)]
impl<'h> WiredSends<'h> {
    /// Headers that are ready to be sent.
    ///
    /// # Safety
    ///
    /// The invariant.
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

    /// For the system call, which writes nothing but the reported lengths.
    pub(super) fn as_mut(&mut self) -> &mut [Header] {
        self.headers
    }

    /// Whether message `i` has a destination of its own.
    pub(super) fn has_dest(&self, i: usize) -> bool {
        self.headers[i].name_len() > 0
    }

    /// The buffers of message `i`.
    #[cfg(any(has_descriptors, test))]
    pub(super) fn buffers(&self, i: usize) -> &[super::native::header::Buffer] {
        let (first, count) = self.headers[i].buffers();
        if count == 0 {
            return &[];
        }
        // SAFETY: the invariant.
        unsafe { std::slice::from_raw_parts(first, count) }
    }
}

/// Headers to receive into.
///
/// Invariant 1 (ARCHITECTURE.md), which makes the system call sound: each header's name, buffers and control
/// data are memory that nobody else uses for `'h`, of the lengths beside the pointers.
pub(super) struct WiredRecvs<'h> {
    headers: &'h mut [Header],
}

#[allow(unsafe_code)]
impl<'h> WiredRecvs<'h> {
    /// Headers in which is set anew what the last call has changed (R2).
    ///
    /// # Safety
    ///
    /// The invariant.
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

/// Moves messages by a call for each, until one is not moved. Returns how many were.
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

/// How many headers to make room for, so that a batch that grows step by step allocates seldom.
///
/// # Errors
///
/// The errors of `resize`.
fn grow(
    capacity: usize,
    needed: usize,
    resize: impl FnOnce(usize) -> io::Result<()>,
) -> io::Result<()> {
    if needed <= capacity { Ok(()) } else { resize(needed.next_power_of_two().min(MAX_BATCH)) }
}

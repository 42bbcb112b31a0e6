//! Headers wired for one system call, and the invariants that make the call sound.
//!
//! Only this folder makes them: [`send`] fills those of a send from bytes, and [`split`] those of
//! the datagrams of a GSO batch; [`recv_storage`] wires a receive's for one call, and [`slots`]
//! once and for all.

// The lengths in C's structs are wider here and narrower there.
#![allow(clippy::unnecessary_cast)]

mod buffers;
mod recv;
mod recv_storage;
mod send;
mod slots;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use recv::RecvHeaders;
pub(crate) use recv_storage::{RecvStorage, Row};
pub(crate) use send::{OpenHeader, SENDS_CONTROL, SendHeaders, SendStorage};
pub(crate) use slots::{SlotIter, SlotIterMut, Slots};

use super::header::Header;

/// Complete headers, for the system calls.
///
/// Invariant, which makes the system call on them sound: each header's name, buffers and control
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
        self.headers[i].msg_hdr.msg_namelen > 0
    }

    /// Header `i`.
    pub(super) fn get(&self, i: usize) -> WiredSend<'_> {
        WiredSend { hdr: &self.headers[i].msg_hdr }
    }

    /// For the system call; only its `msg_len` may be written to.
    #[cfg(mmsg_calls)]
    pub(super) fn as_mut(&mut self) -> &mut [Header] {
        self.headers
    }
}

/// One complete header.
///
/// Invariant: that of [`WiredSends`].
pub(super) struct WiredSend<'h> {
    hdr: &'h libc::msghdr,
}

impl<'h> WiredSend<'h> {
    pub(super) fn header(self) -> &'h libc::msghdr {
        self.hdr
    }
}

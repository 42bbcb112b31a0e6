//! Headers wired for one system call, and the invariants that make the call sound.
//!
//! Only this folder makes them: [`send`] fills those of a send from bytes, and [`split`] those of
//! the datagrams of a GSO batch; [`recv_storage`] wires a receive's for one call, and [`slots`]
//! once and for all.

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
pub(crate) use send::{OpenHeader, SendHeaders, SendStorage};
pub(crate) use slots::{SlotIter, SlotIterMut, Slots};

use super::native::header::Header;

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
        self.headers[i].name_len() > 0
    }

    /// Header `i`.
    pub(super) fn get(&self, i: usize) -> WiredSend<'_> {
        WiredSend { header: &self.headers[i] }
    }

    /// For the system call; only the length that it reports may be written to.
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
}

//! Headers wired for one system call, and the invariants that make the call sound.
//!
//! Only this folder makes them: [`send_storage`] and [`recv_storage`] for the messages of one call,
//! [`slots`] once and for all, [`gso`] for GSO batches and [`split`] for the datagrams of one.

// The lengths in C's structs are wider here and narrower there.
#![allow(clippy::unnecessary_cast)]

mod gso;
mod recv;
mod recv_storage;
mod send;
mod send_storage;
mod slots;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use gso::WiredBatches;
pub(crate) use recv::RecvHeaders;
pub(crate) use recv_storage::{RecvStorage, Row};
pub(crate) use send_storage::SendStorage;
pub(crate) use slots::{SlotIter, SlotIterMut, Slots};

use std::marker::PhantomData;

use super::header::Header;
use crate::ancillary::Unencodable;

/// Headers wired for a send.
///
/// Invariant, which makes the system call on them sound: each header's name, buffers and control
/// data are memory that is readable for `'a`, with the lengths that stand beside the pointers.
pub(super) struct SendHeaders<'a> {
    headers: &'a mut [Header],
    /// Why the message after these is not among them, if there is one that cannot be sent.
    unsendable: Option<Unencodable>,
    buffers: PhantomData<&'a [u8]>,
}

impl SendHeaders<'_> {
    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// Whether message `i` has a destination of its own.
    pub(super) fn has_dest(&self, i: usize) -> bool {
        self.headers[i].msg_hdr.msg_namelen > 0
    }

    /// Header `i`.
    pub(super) fn header(&self, i: usize) -> &libc::msghdr {
        &self.headers[i].msg_hdr
    }

    /// For the system call; only its `msg_len` may be written to.
    pub(super) fn as_mut(&mut self) -> &mut [Header] {
        self.headers
    }
}

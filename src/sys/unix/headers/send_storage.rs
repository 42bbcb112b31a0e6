//! The headers of a batch to be sent: contiguous storage, and its wiring to the buffers of one call.
//!
//! ```text
//! headers  [ mmsghdr 0 ][ mmsghdr 1 ] ...   name, iovec, control: pointers
//! rows     [ row 0     ][ row 1     ] ...   the address, and the message's one buffer
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
//! ```
//!
//! Several buffers of one message stay where the message has them.
//!
//! All pointers are set anew by each wiring, after any growth, from the borrows that the wired
//! headers hold. Between calls the rows are numbers that nobody follows.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use super::SendHeaders;
use super::gso::{Gso, WiredBatches};
use super::send::{ControlWriter, wire_plain};
use crate::ancillary::Unencodable;
use crate::offload::coalesce::{Limits, Source};
use crate::send::msg::SendMsg;
use crate::send::outgoing::Outgoing;
use crate::sys::unix::call;
use crate::sys::unix::header::{Control, Header, Row};
use crate::sys::unix::zeroed::Zeroed;
use crate::sys::{Backend, CallResult, MAX_BATCH};

/// Storage for the headers of a batch to be sent.
pub(crate) struct SendStorage {
    headers: Zeroed<Header>,
    rows: Zeroed<Row>,
    controls: Zeroed<Control>,
    gso: Gso,
}

impl SendStorage {
    pub(crate) const fn new() -> Self {
        Self {
            headers: Zeroed::empty(),
            rows: Zeroed::empty(),
            controls: Zeroed::empty(),
            gso: Gso::new(),
        }
    }

    /// Capacity in messages.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Grows to `n` messages, at most [`MAX_BATCH`].
    ///
    /// # Errors
    ///
    /// `OutOfMemory`; the capacity is unchanged.
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize) -> io::Result<()> {
        if n <= self.capacity() {
            return Ok(());
        }
        self.resize(n.next_power_of_two().min(MAX_BATCH))
    }

    /// Shrinks to `n` messages, if there is memory for the smaller storage.
    pub(crate) fn shrink_to(&mut self, n: usize) {
        if n < self.capacity() {
            let _ = self.resize(n);
        }
    }

    /// Copies nothing: every wiring writes all that it uses.
    #[cold]
    fn resize(&mut self, n: usize) -> io::Result<()> {
        let (headers, rows) = (Zeroed::try_new(n)?, Zeroed::try_new(n)?);
        self.controls = Zeroed::try_new(n)?;
        (self.headers, self.rows) = (headers, rows);
        self.gso.resize(n);
        Ok(())
    }

    /// Sends messages in order, up to the capacity; see the contract in [`crate::sys`]. Also returns
    /// how many messages it took from the iterator.
    #[inline]
    pub(crate) fn send<'m, M: Outgoing<'m>>(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: impl Iterator<Item = M>,
    ) -> (usize, CallResult) {
        let mut wired = self.wire_send(socket, msgs);
        send_wired(backend, socket, &mut wired)
    }

    /// Like [`send`](Self::send), for a `dyn` iterator.
    pub(crate) fn send_from<'m>(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> (usize, CallResult) {
        let mut wired = self.wire_send_from(socket, msgs);
        send_wired(backend, socket, &mut wired)
    }

    /// Wires messages in order, up to the capacity, and joins them into GSO batches.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`; no message has been taken then.
    #[inline]
    pub(crate) fn wire_batches<'a, 'm: 'a, M: Outgoing<'m>>(
        &'a mut self,
        socket: BorrowedFd<'_>,
        msgs: &mut Source<impl Iterator<Item = M>>,
        limits: Limits,
    ) -> io::Result<WiredBatches<'a>> {
        let Self { headers, rows, controls, gso } = self;
        gso.wire_batches(headers, rows, controls, socket, msgs, limits)
    }

    /// Points the first headers at the messages' buffers and at copies of their addresses.
    #[inline]
    fn wire_send<'a, 'm: 'a, M: Outgoing<'m>>(
        &'a mut self,
        socket: BorrowedFd<'_>,
        msgs: impl Iterator<Item = M>,
    ) -> SendHeaders<'a> {
        let first = self.headers.as_ptr();
        let slots = self.headers.iter_mut().zip(&mut *self.rows);
        let mut writer = ControlWriter::new(socket, &mut self.controls, first);
        let mut count = 0;
        // The slots come first in the zip, so that no message is taken without a slot.
        slots.zip(msgs).for_each(|((header, row), msg)| {
            if !wire_plain(header, row, &msg) {
                writer.wire(header, row, msg);
            }
            count += 1;
        });
        let unsendable = writer.unsendable;
        self.wired(count, unsendable)
    }

    /// The same for a `dyn` iterator. It wires each message in place: moving one would cost as much as
    /// wiring it.
    fn wire_send_from<'a, 'm: 'a>(
        &'a mut self,
        socket: BorrowedFd<'_>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> SendHeaders<'a> {
        let first = self.headers.as_ptr();
        let mut writer = ControlWriter::new(socket, &mut self.controls, first);
        let mut count = 0;
        for (header, row) in self.headers.iter_mut().zip(&mut *self.rows) {
            let next = msgs.next();
            let Some(msg) = &next else { break };
            if !wire_plain(header, row, msg) {
                writer.wire(header, row, msg);
            }
            count += 1;
        }
        let unsendable = writer.unsendable;
        self.wired(count, unsendable)
    }

    /// The first `count` headers as wired for a send, or those before the one that cannot be sent.
    #[inline]
    fn wired(&mut self, count: usize, unsendable: Option<(usize, Unencodable)>) -> SendHeaders<'_> {
        let count = unsendable.map_or(count, |(i, _)| i);
        let unsendable = unsendable.map(|(_, error)| error);
        SendHeaders { headers: &mut self.headers[..count], unsendable, buffers: PhantomData }
    }
}

/// Sends the wired headers. Returns how many messages were offered, including one that cannot be sent,
/// which returns its error once it is first.
#[inline]
fn send_wired(
    backend: Backend,
    socket: BorrowedFd<'_>,
    wired: &mut SendHeaders<'_>,
) -> (usize, CallResult) {
    let mut result = call::send(backend, socket, wired);
    let Some(error) = wired.unsendable else { return (wired.len(), result) };
    if result.count == wired.len() && result.error.is_none() {
        result.error = Some(error.after(result.count));
    }
    (wired.len() + 1, result)
}

impl fmt::Debug for SendStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStorage").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

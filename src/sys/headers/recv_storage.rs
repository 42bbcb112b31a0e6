//! The headers of a batch to be received: contiguous storage, and what a call left in it.
//!
//! ```text
//! headers  [ mmsghdr 0 ][ mmsghdr 1 ] ...   name, iovec, control: pointers
//! names    [ name 0    ][ name 1    ] ...   a source address each
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
//! ```
//!
//! Buffers are the caller's, and so may be the memory for source and control data.
//!
//! All pointers are set anew by each wiring, after any growth, from the borrows that the wired
//! headers hold. Between calls they are numbers that nobody follows.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;

use super::recv::RecvHeaders;
use crate::sys::addr::{RawAddrRef, UnixName};
use crate::sys::layout::Control;
use crate::sys::native::call;
use crate::sys::native::fds::ReceivedFds;
use crate::sys::native::header::Header;
use crate::sys::native::is_inet;
use crate::sys::zeroed::Zeroed;
use crate::sys::{
    Backend, BorrowedSocket, CallResult, MAX_BATCH, OwnedSocket, RecvFlags, RecvResult,
};

/// Storage for the headers of a batch to be received.
pub(crate) struct RecvStorage {
    pub(super) headers: Zeroed<Header>,
    pub(super) names: Zeroed<UnixName>,
    pub(super) controls: Zeroed<Control>,
    /// Descriptors that came with the messages of a receive, until the messages have them.
    pub(super) fds: ReceivedFds,
}

impl RecvStorage {
    pub(crate) const fn new() -> Self {
        Self {
            headers: Zeroed::empty(),
            names: Zeroed::empty(),
            controls: Zeroed::empty(),
            fds: ReceivedFds::new(),
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
    pub(super) fn resize(&mut self, n: usize) -> io::Result<()> {
        let (headers, names) = (Zeroed::try_new(n)?, Zeroed::try_new(n)?);
        self.controls = Zeroed::try_new(n)?;
        (self.headers, self.names) = (headers, names);
        Ok(())
    }

    /// Begins the wiring of a call's headers. Descriptors of the call before are closed.
    #[inline]
    pub(crate) fn wire(&mut self) -> RecvHeaders<'_> {
        self.fds.clear();
        RecvHeaders {
            headers: &mut self.headers,
            count: 0,
            names: self.names.iter_mut(),
            controls: self.controls.iter_mut(),
            fds: self.fds.begin(0),
            accept_fds: false,
            buffers: PhantomData,
        }
    }

    /// The headers of `range`, which are wired already.
    #[inline]
    pub(super) fn wired(&mut self, range: Range<usize>, accept_fds: bool) -> RecvHeaders<'_> {
        RecvHeaders {
            count: range.len(),
            fds: self.fds.begin(range.start),
            headers: &mut self.headers[range],
            names: [].iter_mut(),
            controls: [].iter_mut(),
            accept_fds,
            buffers: PhantomData,
        }
    }

    /// What the last call reported about the messages of `range`.
    #[inline]
    pub(super) fn results(&self, range: Range<usize>) -> impl Iterator<Item = RecvResult> {
        self.headers[range].iter().map(Header::result)
    }

    /// What the last call reported about message `i`, and the storage's own memory for it.
    #[inline]
    pub(crate) fn row(&self, i: usize) -> Row<'_> {
        Row { header: &self.headers[i], name: &self.names[i], control: &self.controls[i] }
    }

    /// Takes the descriptors that came, each with the number of its message.
    pub(crate) fn drain_fds(&mut self) -> impl Iterator<Item = (usize, OwnedSocket)> {
        self.fds.drain()
    }
}

impl RecvHeaders<'_> {
    /// Receives; see the contract in [`crate::sys`].
    #[inline]
    pub(crate) fn recv(
        mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        flags: RecvFlags,
    ) -> CallResult {
        let mut result = call::recv(backend, socket, &mut self, flags);
        // Messages in the error queue may have neither payload nor source.
        if flags.contains(RecvFlags::ERROR_QUEUE) {
            return result;
        }
        if let Some(end) = end(socket, &self.headers[..result.count]) {
            result = result.ended_at(end);
        }
        result
    }
}

/// The number of messages that came before the end, if the socket was shut down.
#[inline]
fn end(socket: BorrowedSocket<'_>, headers: &[Header]) -> Option<usize> {
    // Linux reports the end only to a call that waits, as the first message; the BSDs to every call,
    // so also as the last one.
    let ended = headers.first().is_some_and(is_end) || headers.last().is_some_and(is_end);
    if ended { inet_end(socket, headers) } else { None }
}

#[cold]
fn inet_end(socket: BorrowedSocket<'_>, headers: &[Header]) -> Option<usize> {
    if is_inet(socket) { headers.iter().position(is_end) } else { None }
}

/// Whether a header has neither payload nor source. An Internet socket reports that only when it is shut
/// down: even its empty datagrams have a source.
#[inline]
fn is_end(header: &Header) -> bool {
    header.len() == 0 && header.name_len() == 0
}

/// What a receive left in one header and in the storage's memory for it.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    header: &'a Header,
    name: &'a UnixName,
    control: &'a Control,
}

impl<'a> Row<'a> {
    #[inline(always)]
    pub(super) fn new(header: &'a Header, name: &'a UnixName, control: &'a Control) -> Self {
        Self { header, name, control }
    }

    #[inline(always)]
    pub(crate) fn result(self) -> RecvResult {
        self.header.result()
    }

    /// The source address, if it was received into the storage.
    #[inline(always)]
    pub(crate) fn source(self) -> RawAddrRef<'a> {
        RawAddrRef::new(self.name, self.header.name_len())
    }

    /// The control data, if it was received into the storage.
    #[inline(always)]
    pub(crate) fn control(self) -> &'a [u8] {
        &self.control.0[..self.result().control_len]
    }
}

impl fmt::Debug for RecvStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStorage").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

//! The headers of a batch to be received: storage, their wiring to messages, and what a call left in them.
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
use std::io::{self, IoSliceMut};
use std::iter::Zip;
use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

use super::Storage;
use crate::sys::addr::{AddrSpace, RawAddrRef, UNIX_NAME_LEN, UnixName};
use crate::sys::layout::Control;
use crate::sys::native::call;
use crate::sys::native::fds::ReceivedFds;
use crate::sys::native::header::Header;
use crate::sys::native::is_inet;
use crate::sys::zeroed::Zeroed;
use crate::sys::{
    Backend, BorrowedSocket, CONTROL_SPACE, CallResult, OwnedSocket, RecvFlags, RecvResult,
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

    /// Begins the wiring of a call's headers. Descriptors of the call before are closed.
    #[inline]
    pub(crate) fn wire(&mut self) -> RecvHeaders<'_> {
        self.fds.clear();
        RecvHeaders {
            headers: &mut self.headers,
            count: 0,
            names: self.names.iter_mut(),
            controls: self.controls.iter_mut(),
            fds: &mut self.fds,
            accept_fds: false,
            buffers: PhantomData,
        }
    }

    /// The headers of `range`, which are wired already.
    #[inline]
    pub(super) fn wired(&mut self, range: Range<usize>, accept_fds: bool) -> WiredRecvs<'_> {
        let fds = accept_fds.then(|| self.fds.begin(range.start));
        WiredRecvs { headers: &mut self.headers[range], fds }
    }

    /// Receives a message into each buffer; see the contract in [`crate::sys`]. Sources and control data go into
    /// the storage's own memory, and descriptors are closed. The caller has reserved capacity.
    #[inline(always)]
    pub(crate) fn recv_buffers(
        &mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        buffers: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> CallResult {
        let headers = &mut self.headers[..buffers.len()];
        let memory = self.names.iter_mut().zip(self.controls.iter_mut());
        for ((header, buffer), (name, control)) in headers.iter_mut().zip(buffers).zip(memory) {
            wire(header, slice::from_mut(buffer), name, &mut control.0);
        }
        WiredRecvs { headers, fds: None }.recv(backend, socket, flags)
    }

    /// What the last call reported about message `i`, and the storage's own memory for it.
    #[inline]
    pub(crate) fn row(&self, i: usize) -> Row<'_> {
        Row::new(&self.headers[i], &self.names[i], &self.controls[i])
    }

    /// What the last call reported about the first `n` messages, and the storage's own memory for them.
    #[inline]
    pub(crate) fn rows(&self, n: usize) -> impl Iterator<Item = Row<'_>> {
        self.iter(n).map(|(header, (name, control))| Row::new(header, name, control))
    }

    /// What the last call left of the first `n` messages.
    #[inline]
    pub(super) fn iter(&self, n: usize) -> Rows<'_> {
        self.headers[..n].iter().zip(self.names.iter().zip(self.controls.iter()))
    }

    /// Takes the descriptors that came, each with the number of its message.
    pub(crate) fn drain_fds(&mut self) -> impl Iterator<Item = (usize, OwnedSocket)> {
        self.fds.drain()
    }
}

impl Storage for RecvStorage {
    fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Copies nothing: every wiring writes all that it uses.
    #[cold]
    fn resize(&mut self, n: usize) -> io::Result<()> {
        let (headers, names) = (Zeroed::try_new(n)?, Zeroed::try_new(n)?);
        self.controls = Zeroed::try_new(n)?;
        (self.headers, self.names) = (headers, names);
        Ok(())
    }
}

/// Headers to be wired for a receive, and memory for their addresses and control data.
///
/// Invariant: of each of the first `count` headers, name, buffers and control data are memory that is writable by nobody
/// else for `'a`, with the lengths that stand beside the pointers.
pub(crate) struct RecvHeaders<'a> {
    headers: &'a mut [Header],
    count: usize,
    /// Memory for the addresses of messages that bring none of their own.
    names: slice::IterMut<'a, UnixName>,
    controls: slice::IterMut<'a, Control>,
    fds: &'a mut ReceivedFds,
    accept_fds: bool,
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> RecvHeaders<'a> {
    /// Points the next header at a message's buffers and at memory for its source. Its control data
    /// goes into `control`, or into the storage's own memory.
    #[inline]
    pub(crate) fn push(
        &mut self,
        buffers: &'a mut [IoSliceMut<'_>],
        source: AddrSpace<'a>,
        control: Option<&'a mut [u8; CONTROL_SPACE]>,
    ) {
        let Some((header, _, own)) = self.next() else { return };
        wire(header, buffers, source.into_name(), control.unwrap_or(&mut own.0));
    }

    /// Accepts descriptors, for all messages.
    pub(crate) fn accept_fds(&mut self) {
        self.accept_fds = true;
    }

    /// Receives; see the contract in [`crate::sys`].
    #[inline]
    pub(crate) fn recv(
        self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        flags: RecvFlags,
    ) -> CallResult {
        self.wired().recv(backend, socket, flags)
    }

    /// The wired headers.
    #[inline]
    pub(super) fn wired(self) -> WiredRecvs<'a> {
        let fds = self.accept_fds.then(|| self.fds.begin(0));
        WiredRecvs { headers: &mut self.headers[..self.count], fds }
    }

    /// The next header and its memory. The caller has reserved capacity.
    #[inline]
    fn next(&mut self) -> Option<(&mut Header, &'a mut UnixName, &'a mut Control)> {
        let header = self.headers.get_mut(self.count);
        debug_assert!(header.is_some(), "more messages than were reserved");
        let next = (header?, self.names.next()?, self.controls.next()?);
        self.count += 1;
        Some(next)
    }
}

/// Wired headers, for the system calls.
///
/// Invariant 1 (ARCHITECTURE.md), which makes the system call on them sound: each header's name, buffers and control
/// data are memory that is writable by nobody else for `'h`, with the lengths that stand beside the pointers.
pub(in crate::sys) struct WiredRecvs<'h> {
    headers: &'h mut [Header],
    /// Takes accepted descriptors; without it all are closed.
    fds: Option<&'h mut ReceivedFds>,
}

impl WiredRecvs<'_> {
    #[inline]
    pub(in crate::sys) fn len(&self) -> usize {
        self.headers.len()
    }

    /// For the system call, after which the descriptors that came are to be owned.
    #[inline]
    pub(in crate::sys) fn as_mut(&mut self) -> (&mut [Header], Option<&mut ReceivedFds>) {
        (self.headers, self.fds.as_deref_mut())
    }

    /// Receives; see the contract in [`crate::sys`].
    #[inline(always)]
    pub(super) fn recv(
        mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        flags: RecvFlags,
    ) -> CallResult {
        let result = call::recv(backend, socket, &mut self, flags);
        // Messages in the error queue may have neither payload nor source.
        if flags.contains(RecvFlags::ERROR_QUEUE) {
            return result;
        }
        match end(socket, &self.headers[..result.count]) {
            Some(end) => result.ended_at(end),
            None => result,
        }
    }
}

/// Points a header at all of this memory, and sets every field that the kernel reads or writes.
#[inline]
fn wire(header: &mut Header, buffers: &mut [IoSliceMut<'_>], name: &mut [u8], control: &mut [u8]) {
    header.set_buffers(buffers.as_mut_ptr().cast(), buffers.len());
    header.set_name(name.as_mut_ptr(), name.len());
    header.set_control(control.as_mut_ptr(), control.len());
    header.clear_flags();
}

/// Sets the fields that a receive overwrites, of a header whose name is a [`UnixName`] and whose
/// control data a [`Control`].
#[inline]
pub(super) fn reset(header: &mut Header) {
    let ((name, _), (control, _)) = (header.name(), header.control());
    header.set_name(name, UNIX_NAME_LEN);
    header.set_control(control, CONTROL_SPACE);
    header.clear_flags();
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
    result: RecvResult,
    name: &'a UnixName,
    control: &'a Control,
}

/// Iterates over headers and the storage's memory for them: as a plain zip, which std takes by one index.
pub(super) type Rows<'a> =
    Zip<slice::Iter<'a, Header>, Zip<slice::Iter<'a, UnixName>, slice::Iter<'a, Control>>>;

impl<'a> Row<'a> {
    #[inline(always)]
    pub(super) fn new(header: &'a Header, name: &'a UnixName, control: &'a Control) -> Self {
        Self { result: header.result(), name, control }
    }

    #[inline(always)]
    pub(crate) fn result(self) -> RecvResult {
        self.result
    }

    /// The source address, if it was received into the storage.
    #[inline(always)]
    pub(crate) fn source(self) -> RawAddrRef<'a> {
        RawAddrRef::new(self.name, self.result.source_len)
    }

    /// The control data, if it was received into the storage.
    #[inline(always)]
    pub(crate) fn control(self) -> &'a [u8] {
        &self.control.0[..self.result.control_len]
    }
}

impl fmt::Debug for RecvStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStorage").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

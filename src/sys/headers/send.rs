//! The headers of a batch to be sent: storage, and a builder that fills it from bytes.
//!
//! ```text
//! headers  [ header 0  ][ header 1  ] ...   name, buffers, control: pointers
//! names    [ name 0    ][ name 1    ] ...   copies of the destinations; those of Unix sockets are longer
//!                                           and have a row of their own, once there is one
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
//! iovecs   [ of header 0 ... ][ of header 1 ... ] ...
//! ```
//!
//! Every pointer is written after any growth, from the borrows that the builder holds. Between
//! calls they are numbers that nobody follows.

use std::fmt;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

use super::buffers::{BufferRow, BufferStorage, Others};
use super::single::SingleHeader;
use super::split::Split;
use super::{Storage, WiredBuffers, WiredSend, WiredSends};
use crate::sys::addr::{self, Name, UnixName};
use crate::sys::layout::Control;
use crate::sys::native::call;
use crate::sys::native::header::Header;
use crate::sys::zeroed::Zeroed;
use crate::sys::{
    Backend, BorrowedSocket, CallResult, DestRef, GsoBatch, Layout, MAX_BUFFERS, Memory, SendFlags,
    UnixAddr, numbers,
};

/// Storage for the headers of a batch to be sent.
pub(crate) struct SendStorage {
    headers: Zeroed<Header>,
    names: Zeroed<Name>,
    unix_names: Zeroed<UnixName>,
    controls: Zeroed<Control>,
    buffers: BufferStorage,
    complete: Vec<Complete>,
    split: Split,
}

/// What a complete header carries, and where.
#[derive(Clone, Debug)]
struct Complete {
    batch: GsoBatch,
    /// Its buffers, if they are in the row.
    iovecs: Range<usize>,
    /// Bytes at the start of its control data that ask for the segmentation.
    segment_control: usize,
}

impl SendStorage {
    pub(crate) const fn new() -> Self {
        Self {
            headers: Zeroed::empty(),
            names: Zeroed::empty(),
            unix_names: Zeroed::empty(),
            controls: Zeroed::empty(),
            buffers: BufferStorage::new(),
            complete: Vec::new(),
            split: Split::new(),
        }
    }

    /// Begins to fill headers.
    #[inline]
    pub(crate) fn begin(&mut self) -> SendHeaders<'_> {
        self.complete.clear();
        SendHeaders {
            headers: &mut self.headers,
            names: &mut self.names,
            unix_names: &mut self.unix_names,
            controls: &mut self.controls,
            buffers: self.buffers.row(),
            complete: &mut self.complete,
            split: &mut self.split,
            data: PhantomData,
        }
    }

    /// Makes memory to copy small buffers together, if there is none.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    #[inline]
    pub(crate) fn reserve_copies(&mut self) -> io::Result<()> {
        self.buffers.reserve_copies(self.capacity())
    }
}

impl Storage for SendStorage {
    fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Copies nothing: every header is written before it is used.
    #[cold]
    fn resize(&mut self, n: usize) -> io::Result<()> {
        let (headers, names) = (Zeroed::try_new(n)?, Zeroed::try_new(n)?);
        let controls = Zeroed::try_new(n)?;
        self.buffers.resize(n)?;
        let mut complete = Vec::new();
        complete.try_reserve_exact(n).map_err(|_| io::ErrorKind::OutOfMemory)?;
        (self.headers, self.names, self.controls) = (headers, names, controls);
        (self.complete, self.unix_names) = (complete, Zeroed::empty());
        Ok(())
    }
}

/// Headers that are being filled, and then sent.
///
/// Invariant 1 (ARCHITECTURE.md), which makes the system calls on them sound: the name, the buffers and the control data of
/// each header in `headers[..complete.len()]` are readable for `'a`, with the lengths that stand
/// beside the pointers. They are borrowed for `'a`, or in the storage, which is borrowed for as long
/// and whose rows of complete headers are not written to again.
pub(crate) struct SendHeaders<'a> {
    headers: &'a mut [Header],
    names: &'a mut [Name],
    unix_names: &'a mut Zeroed<UnixName>,
    controls: &'a mut [Control],
    buffers: BufferRow<'a>,
    complete: &'a mut Vec<Complete>,
    split: &'a mut Split,
    data: PhantomData<&'a [u8]>,
}

impl<'a> SendHeaders<'a> {
    /// Complete headers.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.complete.len()
    }

    /// Whether one more header with this number of buffers can be begun.
    #[inline]
    pub(crate) fn has_capacity(&self, buffers: usize) -> bool {
        // More buffers than the kernel takes are not copied into the row.
        let needed = if buffers <= MAX_BUFFERS { buffers } else { 0 };
        self.len() < self.headers.len() && needed <= self.buffers.left()
    }

    /// Begins a header for one buffer, if there is capacity.
    #[inline]
    pub(crate) fn push(&mut self, dest: DestRef<'_, '_>, data: &'a [u8]) -> OpenHeader<'_, 'a> {
        let start = self.buffers.used();
        self.buffers.add(data);
        self.open(dest, start)
    }

    /// Begins a header for several buffers, if there is capacity.
    pub(crate) fn push_gathered(
        &mut self,
        dest: DestRef<'_, '_>,
        data: &'a [IoSlice<'a>],
    ) -> OpenHeader<'_, 'a> {
        let start = self.buffers.used();
        if data.len() <= MAX_BUFFERS {
            data.iter().for_each(|part| self.buffers.add(part));
            return self.open(dest, start);
        }
        // The kernel rejects such a message with its own error.
        let opened = self.open(dest, start);
        // IoSlice is a Buffer by its documentation.
        opened.headers.headers[opened.i].set_buffers(data.as_ptr().cast(), data.len());
        opened
    }

    /// Adds a buffer of the first message for a header on the stack. No other header is begun before that one is sent or
    /// [adopted](Self::adopt).
    #[inline(always)]
    pub(crate) fn push_single(&mut self, data: &'a [u8]) {
        debug_assert!(self.complete.is_empty());
        self.buffers.add(data);
    }

    /// How many further buffers a header on the stack can have.
    #[inline(always)]
    pub(crate) fn single_capacity_left(&self) -> usize {
        self.buffers.left().min(MAX_BUFFERS - self.buffers.used())
    }

    /// Adds the buffers that `fill` passes on to those of a header on the stack, at most
    /// [`single_capacity_left`](Self::single_capacity_left).
    #[inline(always)]
    pub(crate) fn extend_single<R>(&mut self, fill: impl FnOnce(&mut Extension<'_, 'a>) -> R) -> R {
        let result = fill(&mut Extension { row: &mut self.buffers, start: 0 });
        self.buffers.copy_together(0);
        result
    }

    /// Sends the buffers of a header on the stack by it.
    #[inline(always)]
    pub(crate) fn send_single(
        &self,
        single: &SingleHeader,
        socket: BorrowedSocket<'_>,
        flags: SendFlags,
    ) -> CallResult {
        let data = WiredBuffers { buffers: self.buffers.get(0..self.buffers.used()) };
        single.send_buffers(socket, data, flags)
    }

    /// Makes the first complete header of one on the stack and its buffers.
    #[inline(never)]
    pub(crate) fn adopt(&mut self, single: &SingleHeader) {
        let mut opened = self.open(DestRef::Addr(None), 0);
        let (name, control) = (single.name(), single.control());
        let SendHeaders { names, controls, .. } = &mut *opened.headers;
        let (own_name, own_control) = (&mut names[0], &mut controls[0].0);
        own_name[..name.len()].copy_from_slice(name);
        own_control[..control.len()].copy_from_slice(control);
        let (name_start, control_start) = (own_name.as_ptr(), own_control.as_ptr());
        opened.header().set_name(name_start, name.len());
        opened.header().set_control(control_start, control.len());
        let batch = single.batch();
        opened.complete(*batch, batch.is_segmented());
    }

    /// Begins a header of the iovecs from `start` on.
    #[inline]
    fn open(&mut self, dest: DestRef<'_, '_>, start: usize) -> OpenHeader<'_, 'a> {
        let i = self.len();
        let header = &mut self.headers[i];
        let name = &mut self.names[i];
        let name_len = addr::encode_dest(dest, name);
        header.set_name(name.as_ptr(), name_len);
        header.set_buffers(self.buffers.pointer(start), self.buffers.used() - start);
        header.set_control(ptr::null(), 0);
        header.clear_flags();
        OpenHeader { headers: self, i, start }
    }

    /// What header `i` carries.
    #[inline]
    pub(crate) fn batch(&self, i: usize) -> &GsoBatch {
        &self.complete[i].batch
    }

    /// Sends headers as they are. The result counts headers.
    #[inline]
    pub(crate) fn send(
        &mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        range: Range<usize>,
        flags: SendFlags,
    ) -> CallResult {
        self.check(range.clone());
        let end = range.end.min(self.len());
        let mut wired = WiredSends { headers: &mut self.headers[..end][range.start..] };
        call::send(backend, socket, &mut wired, flags)
    }

    /// Allocates what [`send_segments`](Self::send_segments) needs; without it, that sends nothing.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(crate) fn reserve_segments(&mut self) -> io::Result<()> {
        self.split.reserve()
    }

    /// Sends the datagrams of header `i` one by one, from number `first` on, as many as the capacity
    /// allows. Returns how many were offered; the result counts datagrams.
    pub(crate) fn send_segments(
        &mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        i: usize,
        first: usize,
        flags: SendFlags,
    ) -> (usize, CallResult) {
        let Complete { batch, iovecs, segment_control } = &self.complete[i];
        let header = &self.headers[i];
        let buffers = self.buffers.get(iovecs.clone());
        let mut wired = self.split.wire(header, *segment_control, buffers, batch, first);
        (wired.len(), call::send(backend, socket, &mut wired, flags))
    }

    /// The address, control data without the segment size, and payload of header `i`.
    pub(crate) fn memory(&self, i: usize) -> Memory<'_, impl Iterator<Item = &[u8]> + Clone> {
        let wired = WiredSend { header: &self.headers[i] };
        let control = &wired.control()[self.complete[i].segment_control..];
        Memory { name: wired.name(), control, payload: wired.payload() }
    }

    /// Checks what of the invariant can be seen.
    #[inline]
    fn check(&self, range: Range<usize>) {
        if cfg!(debug_assertions) {
            for (header, complete) in self.headers[range.clone()].iter().zip(&self.complete[range])
            {
                let ((name, name_len), (control, control_len)) = (header.name(), header.control());
                debug_assert_eq!(name.is_null(), name_len == 0);
                debug_assert_eq!(control.is_null(), control_len == 0);
                debug_assert!(complete.segment_control <= control_len);
                let iovecs = complete.iovecs.len();
                debug_assert!(iovecs == 0 || iovecs == header.buffers().1);
                debug_assert!(complete.iovecs.end <= self.buffers.used());
            }
        }
    }
}

/// A header that is not complete, and so is not sent.
///
/// Invariant: all of its fields are set, and hold the invariant of [`SendHeaders`].
pub(crate) struct OpenHeader<'h, 'a> {
    headers: &'h mut SendHeaders<'a>,
    i: usize,
    /// Where its buffers begin in the row.
    start: usize,
}

impl<'a> OpenHeader<'_, 'a> {
    fn header(&mut self) -> &mut Header {
        &mut self.headers.headers[self.i]
    }

    /// The header's number.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.i
    }

    /// Its buffers in the row.
    #[inline]
    pub(crate) fn buffers(&self) -> usize {
        self.headers.buffers.used() - self.start
    }

    /// How many further buffers fit. 0 if it has none in the row that they could follow.
    #[inline]
    pub(crate) fn capacity_left(&self) -> usize {
        match self.buffers() {
            0 => 0,
            used => self.headers.buffers.left().min(MAX_BUFFERS - used),
        }
    }

    /// Adds the buffers that `fill` passes on, at most [`capacity_left`](Self::capacity_left).
    #[inline(always)]
    pub(crate) fn extend<R>(&mut self, fill: impl FnOnce(&mut Extension<'_, 'a>) -> R) -> R {
        let SendHeaders { headers, buffers, .. } = &mut *self.headers;
        let start = self.start;
        let result = fill(&mut Extension { row: &mut *buffers, start });
        buffers.copy_together(start);
        headers[self.i].set_buffers(buffers.pointer(start), buffers.used() - start);
        result
    }

    /// Sets the address of a Unix socket as the destination. Returns whether there is such an address.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    #[cold]
    pub(crate) fn set_unix_dest(&mut self, dest: UnixAddr<'_>) -> io::Result<bool> {
        let (i, capacity) = (self.i, self.headers.headers.len());
        // Allocated once for all headers, so that no complete one points into it before.
        if self.headers.unix_names.len() < capacity {
            *self.headers.unix_names = Zeroed::try_new(capacity)?;
        }
        let name = &mut self.headers.unix_names[i];
        let Some(len) = addr::encode_unix(dest, name) else { return Ok(false) };
        let start = name.as_ptr();
        self.header().set_name(start, len);
        Ok(true)
    }

    /// Points the header at encoded control messages.
    pub(crate) fn set_control(&mut self, control: &'a [u8]) {
        self.header().set_control(control.as_ptr(), control.len());
    }

    /// Encodes control messages into the header's own space: `encode` returns how many bytes it wrote.
    ///
    /// # Errors
    ///
    /// That of `encode`.
    #[inline]
    pub(crate) fn encode_control<E>(
        &mut self,
        encode: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let space = &mut self.headers.controls[self.i].0;
        let len = encode(space)?.min(space.len());
        let start = space.as_ptr();
        self.header().set_control(start, len);
        Ok(())
    }

    /// Points the header at the control data of complete header `other`: the kernel only reads it.
    #[inline]
    pub(crate) fn share_control(&mut self, other: usize) {
        let (control, len) = self.headers.headers[..self.i][other].control();
        self.header().set_control(control, len);
    }

    /// Completes the header: `batch` is what it carries, and `asks` whether its control data begins with
    /// the segment size.
    #[inline]
    pub(crate) fn complete(mut self, batch: GsoBatch, asks: bool) {
        let iovecs = self.start..self.headers.buffers.used();
        let segment = if asks { Layout::NATIVE.space(numbers::SEGMENT_LEN) } else { 0 };
        let segment_control = segment.min(self.header().control().1);
        self.headers.complete.push(Complete { batch, iovecs, segment_control });
    }
}

/// Adds buffers to an open header.
pub(crate) struct Extension<'e, 'a> {
    row: &'e mut BufferRow<'a>,
    start: usize,
}

impl<'a> Extension<'_, 'a> {
    /// Adds a buffer.
    #[inline(always)]
    pub(crate) fn join(&mut self, data: &'a [u8]) {
        self.row.join(data);
    }

    /// Adds one of several buffers of a message.
    #[inline(always)]
    pub(crate) fn add_part(&mut self, data: &'a [u8]) {
        self.row.add_part(data);
    }

    /// Adds a buffer, and returns how to add the next ones: up to `count` of the same length.
    #[inline(always)]
    pub(crate) fn join_alike(&mut self, data: &'a [u8], count: usize) -> Others<'_, 'a> {
        self.row.join_alike(self.start, data, count)
    }

    /// Adds what was copied into the first `len` bytes of the space for [`Others::Copied`].
    #[inline(always)]
    pub(crate) fn join_copied(&mut self, len: usize) {
        self.row.join_copied(len);
    }
}

impl fmt::Debug for SendStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStorage").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

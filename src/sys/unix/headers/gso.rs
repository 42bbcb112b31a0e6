//! Wiring for GSO: many datagrams in one message, which the kernel segments.
//!
//! A run's messages share a header. Their buffers become a row of iovecs: adjacent buffers become one
//! iovec, and other small ones are copied together, since an iovec costs the kernel more than the copy.
//!
//! A header describes its batch completely, so the datagrams of a rejected batch are wired from the
//! header, not from the messages.

use std::borrow::Borrow;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr;

use libc::iovec;

use super::SendHeaders;
use super::send::{wire_buffers, wire_control, wire_dest};
use super::split::Split;
use crate::ancillary::Unencodable;
use crate::offload::coalesce::{Limits, Run, Source, segment_size};
use crate::send::msg::{Content, SendBuffers};
use crate::send::outgoing::Outgoing;
use crate::sys::unix::header::{Control, Header, Row};
use crate::sys::unix::socket::peer_is_v4;
use crate::sys::unix::zeroed::Zeroed;
use crate::sys::unix::{call, msg};
use crate::sys::{Backend, CallResult, GsoBatch, Layout, MAX_BUFFERS, Memory};

/// Buffers of up to this length are copied together: ARCHITECTURE.md has what was measured.
const COPY_MAX: usize = 512;
/// Iovecs for each message of the capacity.
const IOVECS: usize = 4;

/// What GSO needs beside the headers; no memory until it is used.
pub(super) struct Gso {
    /// What each header carries.
    wired: Vec<Wired>,
    /// The buffers of all headers, one after the other.
    iovecs: Zeroed<iovec>,
    /// Copies of small buffers.
    copies: Zeroed<u8>,
    split: Split,
}

/// What a header carries, and where.
#[derive(Clone, Debug)]
struct Wired {
    batch: GsoBatch,
    /// Its buffers, if it is segmented.
    iovecs: Range<usize>,
    /// Bytes of control data that ask for the segmentation; the rest comes after them.
    segment_control: usize,
}

impl Gso {
    pub(super) const fn new() -> Self {
        Self {
            wired: Vec::new(),
            iovecs: Zeroed::empty(),
            copies: Zeroed::empty(),
            split: Split::new(),
        }
    }

    /// Grows with the headers, if in use, so that no later call has to.
    pub(super) fn resize(&mut self, capacity: usize) {
        if !self.copies.is_empty() {
            *self = Self::new();
            // Without memory there is none, and the next call that needs it meets the error.
            let _ = self.reserve(capacity);
        }
    }

    fn reserve(&mut self, capacity: usize) -> io::Result<()> {
        if self.copies.len() < capacity * COPY_MAX {
            // Any message that the kernel can take fits.
            self.iovecs = Zeroed::try_new((capacity * IOVECS).max(MAX_BUFFERS))?;
            self.copies = Zeroed::try_new(capacity * COPY_MAX)?;
        }
        self.wired.clear();
        self.wired.try_reserve(capacity).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }
}

impl Gso {
    /// See [`SendStorage::wire_batches`](super::SendStorage::wire_batches).
    #[inline]
    pub(super) fn wire_batches<'a, 'm: 'a, M: Outgoing<'m>>(
        &'a mut self,
        headers: &'a mut [Header],
        rows: &'a mut [Row],
        controls: &'a mut [Control],
        socket: BorrowedFd<'_>,
        msgs: &mut Source<impl Iterator<Item = M>>,
        limits: Limits,
    ) -> io::Result<WiredBatches<'a>> {
        let capacity = headers.len();
        self.reserve(capacity)?;
        let mut wiring = Wiring {
            socket,
            rows,
            controls,
            buffers: Buffers {
                first: self.iovecs.as_mut_ptr(),
                row: &mut self.iovecs,
                used: 0,
                copies_start: self.copies.as_mut_ptr(),
                copies: &mut self.copies,
                copied: 0,
            },
            headers: &mut *headers,
            wired: &mut self.wired,
            limits,
        };
        let mut unsendable = None;
        while wiring.wired.len() < capacity && !msgs.is_empty() {
            let Some(msg) = msgs.take() else {
                msgs.put_back(None);
                break;
            };
            if !wiring.has_capacity_for(&msg) {
                msgs.put_back(Some(msg));
                break;
            }
            match wiring.wire(&msg, msgs.rest()) {
                Ok(next) => msgs.put_back(next),
                Err(kind) => {
                    unsendable = Some(kind);
                    break;
                }
            }
        }
        let count = self.wired.len();
        let headers = &mut headers[..count];
        Ok(WiredBatches {
            headers: SendHeaders { headers, unsendable: None, buffers: PhantomData },
            wired: &self.wired,
            iovecs: &self.iovecs,
            split: &mut self.split,
            unsendable,
        })
    }
}

/// The rows that are being wired.
struct Wiring<'a, 's> {
    socket: BorrowedFd<'s>,
    headers: &'a mut [Header],
    rows: &'a mut [Row],
    controls: &'a mut [Control],
    buffers: Buffers<'a>,
    wired: &'a mut Vec<Wired>,
    limits: Limits,
}

impl Wiring<'_, '_> {
    /// Whether the row of iovecs has space for a message's buffers.
    #[inline]
    fn has_capacity_for<'m>(&self, msg: &impl Outgoing<'m>) -> bool {
        let needed = match *msg.content().borrow() {
            Content::Full { buffers: SendBuffers::Many(many), .. } if many.len() <= MAX_BUFFERS => {
                many.len()
            }
            _ => 1,
        };
        needed <= self.buffers.left()
    }

    /// Wires a message and those of `msgs` that join it. Returns the message after them.
    #[inline(always)]
    fn wire<'m, M: Outgoing<'m>>(
        &mut self,
        msg: &M,
        msgs: &mut impl Iterator<Item = M>,
    ) -> Result<Option<M>, Unencodable> {
        let (i, start) = (self.wired.len(), self.buffers.used);
        let callers = self.begin(msg)?;
        let used = self.buffers.used - start;
        // Nothing can be joined to a message whose buffers are not in the row.
        let limits = if used == 0 { Limits::NO_GSO } else { self.limits };
        let most = self.buffers.left().min(MAX_BUFFERS - used);
        let mut run = Run::start(msg, limits, most);
        let next = if used == 0 {
            msgs.next()
        } else {
            let mut tail = self.buffers.tail();
            let buffers = &mut self.buffers;
            let next = run.join(msgs, |data| buffers.push(&mut tail, data));
            buffers.close(tail);
            next
        };
        let iovecs = start..self.buffers.used;
        let segment = callers.unwrap_or(run.segment());
        let batch = GsoBatch { messages: run.count(), bytes: run.bytes(), segment };
        let mut offered = callers.is_some_and(|size| !self.limits.reject(size));
        if run.count() > 1 {
            self.headers[i].msg_hdr.msg_iovlen = iovecs.len() as _;
            self.ask_for_segments(&run)?;
            offered = true;
        }
        let segment_control = if offered { Layout::NATIVE.space(size_of::<u16>()) } else { 0 };
        self.wired.push(Wired { batch, iovecs, segment_control });
        Ok(next)
    }

    /// Wires the first message of a run as if it were the only one. Returns its own segment size.
    #[inline]
    fn begin<'m>(&mut self, msg: &impl Outgoing<'m>) -> Result<Option<usize>, Unencodable> {
        let i = self.wired.len();
        let hdr = &mut self.headers[i].msg_hdr;
        wire_dest(hdr, &mut self.rows[i].name, msg.dest());
        hdr.msg_flags = 0;
        hdr.msg_iov = self.buffers.first.wrapping_add(self.buffers.used);
        let content = msg.content();
        match *content.borrow() {
            Content::Plain(data) => {
                self.buffers.begin(data);
                hdr.msg_iovlen = 1;
                hdr.msg_control = ptr::null_mut();
                hdr.msg_controllen = 0;
                Ok(None)
            }
            Content::Full { buffers, control, mut meta } => {
                let mut callers = segment_size(content.borrow());
                match buffers {
                    SendBuffers::One(data) => {
                        self.buffers.begin(data);
                        hdr.msg_iovlen = 1;
                    }
                    SendBuffers::Many(many) if many.len() <= MAX_BUFFERS => {
                        many.iter().for_each(|data| self.buffers.begin(data));
                        hdr.msg_iovlen = many.len() as _;
                    }
                    // More than the kernel takes: by the caller's own row, for the error to be its own.
                    SendBuffers::Many(_) => {
                        wire_buffers(hdr, &mut self.rows[i].iovec, buffers);
                        callers = None;
                    }
                }
                if callers.is_none_or(|size| self.limits.reject(size)) {
                    meta.segment_size = None;
                }
                wire_control(hdr, &mut self.controls[i], msg.dest(), control, meta, self.socket)?;
                Ok(callers)
            }
        }
    }

    /// Writes the control data of a run of several messages.
    fn ask_for_segments(&mut self, run: &Run<'_>) -> Result<(), Unencodable> {
        let i = self.wired.len();
        let (hdr, space) = (&mut self.headers[i].msg_hdr, &mut self.controls[i].0);
        let (meta, control) = run.options();
        let v4 = || match run.dest() {
            Some(dest) => dest.ip().to_canonical().is_ipv4(),
            None => peer_is_v4(self.socket),
        };
        // Only what depends on the family asks for it.
        let v4 = run.is_plain() || v4();
        let len = meta.encode(v4, control, space)?;
        hdr.msg_control = space.as_mut_ptr().cast();
        hdr.msg_controllen = len as _;
        Ok(())
    }
}

/// The buffers of all headers in a row.
struct Buffers<'a> {
    /// The address of the row, and not of a borrow of it: headers keep it while the row is
    /// written to.
    first: *mut iovec,
    row: &'a mut [iovec],
    used: usize,
    /// The same of the copies.
    copies_start: *mut u8,
    copies: &'a mut [u8],
    copied: usize,
}

impl Buffers<'_> {
    /// Free iovecs.
    #[inline(always)]
    fn left(&self) -> usize {
        self.row.len() - self.used
    }

    /// Adds a buffer of a run's first message.
    #[inline(always)]
    fn begin(&mut self, data: &[u8]) {
        let iovec = &mut self.row[self.used];
        iovec.iov_base = data.as_ptr().cast_mut().cast();
        iovec.iov_len = data.len();
        self.used += 1;
    }

    /// The last buffer of a run's first message, for the next ones to go on from.
    #[inline(always)]
    fn tail(&self) -> Tail {
        let last = &self.row[self.used - 1];
        let (start, len) = (last.iov_base.cast(), last.iov_len);
        Tail { used: self.used, start, len, copied: self.copied }
    }

    /// Adds a buffer of a run's next message.
    #[inline(always)]
    fn push(&mut self, tail: &mut Tail, data: &[u8]) {
        let mut start = data.as_ptr().cast_mut();
        let end = tail.start.wrapping_add(tail.len);
        if start != end && data.len() <= COPY_MAX {
            // A gathered message may have more small buffers than there is memory for copies.
            if let Some(copy) = self.copies.get_mut(tail.copied..tail.copied + data.len()) {
                copy.copy_from_slice(data);
                start = self.copies_start.wrapping_add(tail.copied);
                tail.copied += data.len();
            }
        }
        if start == end {
            tail.len += data.len();
        } else {
            self.close(*tail);
            *tail = Tail { used: tail.used + 1, start, len: data.len(), ..*tail };
        }
    }

    /// Writes the last buffer into the row.
    #[inline(always)]
    fn close(&mut self, tail: Tail) {
        let last = &mut self.row[tail.used - 1];
        last.iov_base = tail.start.cast();
        last.iov_len = tail.len;
        (self.used, self.copied) = (tail.used, tail.copied);
    }
}

/// The last buffer of a row that grows: apart from it, so that a loop has it in registers.
#[derive(Clone, Copy)]
struct Tail {
    /// Buffers in the row, this one included.
    used: usize,
    start: *mut u8,
    len: usize,
    copied: usize,
}

/// Headers wired for a send, each a message or a GSO batch, and the means to send a batch's datagrams
/// one by one.
pub(crate) struct WiredBatches<'a> {
    headers: SendHeaders<'a>,
    wired: &'a [Wired],
    iovecs: &'a [iovec],
    split: &'a mut Split,
    unsendable: Option<Unencodable>,
}

impl WiredBatches<'_> {
    pub(crate) fn len(&self) -> usize {
        self.wired.len()
    }

    /// What header `i` carries.
    #[inline]
    pub(crate) fn batch(&self, i: usize) -> &GsoBatch {
        &self.wired[i].batch
    }

    /// Why the message after these is not among them, if there is one that cannot be sent.
    pub(crate) fn unsendable(&self) -> Option<Unencodable> {
        self.unsendable
    }

    /// Sends headers as they are. The result counts headers.
    pub(crate) fn send(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        range: Range<usize>,
    ) -> CallResult {
        let headers = &mut self.headers.headers[range];
        let mut headers = SendHeaders { headers, unsendable: None, buffers: PhantomData };
        call::send(backend, socket, &mut headers)
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
        socket: BorrowedFd<'_>,
        i: usize,
        first: usize,
    ) -> (usize, CallResult) {
        let Wired { batch, iovecs, segment_control } = &self.wired[i];
        let hdr = &self.headers.headers[i].msg_hdr;
        let buffers = &self.iovecs[iovecs.clone()];
        let mut headers = self.split.wire(hdr, *segment_control, buffers, batch, first);
        (headers.len(), call::send(backend, socket, &mut headers))
    }

    /// The address, control data without the segment size, and payload of header `i`.
    pub(crate) fn memory(&self, i: usize) -> Memory<'_, impl Iterator<Item = &[u8]> + Clone> {
        let (name, control, payload) = msg::memory(&self.headers, i);
        Memory { name, control: &control[self.wired[i].segment_control..], payload }
    }
}

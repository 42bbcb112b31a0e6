//! The headers of a batch: contiguous storage, and its wiring to the buffers of one call.
//!
//! ```text
//! headers  [ mmsghdr 0 ][ mmsghdr 1 ] ...   name, iovec, control: pointers
//! rows     [ row 0     ][ row 1     ] ...   for sends: the address, and the message's one buffer
//! controls [ control 0 ][ control 1 ] ...   for receives: CONTROL_SPACE bytes each, touched only
//!                                           if written to
//! ```
//!
//! What is not here is in the messages: several buffers of a send, the buffers of a receive, and
//! the room for its address.
//!
//! All pointers are set anew by each wiring, after any growth, from the borrows that the wired
//! headers hold. Between calls the rows are numbers that nobody follows.

// The lengths in C's structs are wider here and narrower there.
#![allow(clippy::unnecessary_cast)]

mod slots;

pub(crate) use slots::{Plain, Slots};

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr;

use libc::iovec;

use super::addr::{self, NAME_LEN, Name};
use super::zeroed::Zeroed;
use super::{Backend, MAX_BATCH, Step, unix};
use crate::ancillary::CONTROL_SPACE;
use crate::message::{Arrival, Cut};
use crate::send_msg::{Content, DestRef, Outgoing, SendBuffers};
use crate::{RecvFlags, RecvMeta, RecvMsg, SendMsg};

#[cfg(mmsg_calls)]
pub(super) use super::mmsg::Header;

/// What the libc crate calls `mmsghdr` where the calls exist.
#[cfg(not(mmsg_calls))]
#[repr(C)]
pub(super) struct Header {
    pub(super) msg_hdr: libc::msghdr,
    pub(super) msg_len: libc::c_uint,
}

/// What the header of a message to be sent points to: its address and its one buffer.
#[repr(C)]
pub(super) struct Row {
    name: Name,
    iovec: iovec,
}

/// Control data of one message.
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_SPACE]);

/// Storage for the headers of a batch.
pub(crate) struct Headers {
    headers: Zeroed<Header>,
    rows: Zeroed<Row>,
    controls: Zeroed<Control>,
}

impl Headers {
    pub(crate) const fn new() -> Self {
        Self { headers: Zeroed::empty(), rows: Zeroed::empty(), controls: Zeroed::empty() }
    }

    /// Messages there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Makes room for `n` messages, at most [`MAX_BATCH`].
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize) {
        if n > self.capacity() {
            self.resize(n.next_power_of_two().min(MAX_BATCH));
        }
    }

    /// Gives back the room beyond `n` messages.
    pub(crate) fn shrink_to(&mut self, n: usize) {
        if n < self.capacity() {
            self.resize(n);
        }
    }

    /// There is nothing to carry over: every wiring writes all that it will use.
    #[cold]
    fn resize(&mut self, n: usize) {
        self.headers = Zeroed::new(n);
        self.rows = Zeroed::new(n);
        self.controls = Zeroed::new(n);
    }

    /// Sends messages in order, as many as there is room for; see the contract in [`super`].
    /// Also says how many were taken from the iterator.
    #[inline]
    pub(crate) fn send<'m, M: Outgoing<'m>>(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: impl Iterator<Item = M>,
    ) -> (usize, Step) {
        let mut wired = self.wire_send(msgs);
        (wired.len(), unix::send(backend, socket, &mut wired))
    }

    /// Sends as [`send`](Self::send) does, what an iterator of any kind gives.
    pub(crate) fn send_from<'m>(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> (usize, Step) {
        let mut wired = self.wire_send_from(msgs);
        (wired.len(), unix::send(backend, socket, &mut wired))
    }

    /// Receives into `msgs`, at most as many as there is room for; see the contract in [`super`].
    #[inline]
    pub(crate) fn recv(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: &mut [RecvMsg<'_>],
        flags: RecvFlags,
    ) -> Step {
        let (mut wired, plain_room) = self.wire_recv(msgs);
        let mut step = unix::recv(backend, socket, &mut wired, flags);
        let (plain, end) = look_over(socket, &self.headers[..step.count]);
        if let Some(count) = end {
            step = Step { count, error: None, ended: true };
        }
        let arrived = self.headers[..step.count].iter().zip(&*self.controls).zip(msgs);
        if plain && plain_room {
            arrived.for_each(|((header, _), msg)| {
                msg.source_mut().set_len(source_len(header));
                msg.set_arrival(Arrival::plain(header.msg_len as usize));
            });
        } else {
            arrived.for_each(|((header, control), msg)| {
                let meta = msg.read_control(control_of(header, control));
                msg.source_mut().set_len(source_len(header));
                msg.set_arrival(arrival(header, meta));
            });
        }
        step
    }

    /// Points the first headers at the messages' buffers and at copies of their addresses.
    #[inline]
    fn wire_send<'a, 'm: 'a, M: Outgoing<'m>>(
        &'a mut self,
        msgs: impl Iterator<Item = M>,
    ) -> SendHeaders<'a> {
        let slots = self.headers.iter_mut().zip(&mut *self.rows);
        let mut count = 0;
        // The slots come first: when they are used up, no message is taken that nobody sends.
        slots.zip(msgs).for_each(|((header, row), msg)| {
            wire_one(header, row, &msg);
            count += 1;
        });
        SendHeaders { headers: &mut self.headers[..count], buffers: PhantomData }
    }

    /// The same for an iterator of any kind, whose messages are looked at where it puts them:
    /// moving one would cost as much as wiring it.
    fn wire_send_from<'a, 'm: 'a>(
        &'a mut self,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> SendHeaders<'a> {
        let mut count = 0;
        for (header, row) in self.headers.iter_mut().zip(&mut *self.rows) {
            let next = msgs.next();
            let Some(msg) = &next else { break };
            wire_one(header, row, msg);
            count += 1;
        }
        SendHeaders { headers: &mut self.headers[..count], buffers: PhantomData }
    }

    /// Points the first headers at the messages' buffers, and at room for addresses and control
    /// data; sets every field that the kernel reads or writes. Also says whether all messages are
    /// plain: one buffer each, and none for control data.
    #[inline]
    fn wire_recv<'a>(&'a mut self, msgs: &'a mut [RecvMsg<'_>]) -> (RecvHeaders<'a>, bool) {
        let count = msgs.len().min(self.capacity());
        let mut plain = true;
        for ((header, control), msg) in self.headers.iter_mut().zip(&mut *self.controls).zip(msgs) {
            let hdr = &mut header.msg_hdr;
            match msg.plain_room() {
                Some((buffer, source)) => {
                    // IoSliceMut is an iovec by its documentation.
                    hdr.msg_iov = ptr::from_mut(buffer).cast();
                    hdr.msg_iovlen = 1;
                    hdr.msg_control = control.0.as_mut_ptr().cast();
                    hdr.msg_name = source.room().as_mut_ptr().cast();
                }
                None => {
                    wire_full_room(hdr, msg, control);
                    plain = false;
                }
            }
            arm(header);
        }
        (RecvHeaders { headers: &mut self.headers[..count], buffers: PhantomData }, plain)
    }
}

/// Points a header at a message's buffers and control data and at a copy of its address.
#[inline]
fn wire_one<'m>(header: &mut Header, row: &mut Row, msg: &impl Outgoing<'m>) {
    let hdr = &mut header.msg_hdr;
    let name = match msg.dest() {
        DestRef::Addr(addr) => addr.map(|addr| {
            let len = addr::encode(addr, &mut row.name);
            (&row.name, len)
        }),
        DestRef::Ready(dest) => dest.parts(),
    };
    (hdr.msg_name, hdr.msg_namelen) = match name {
        Some((name, len)) => (ptr::from_ref(name).cast_mut().cast(), len as _),
        None => (ptr::null_mut(), 0),
    };
    let iovec = &mut row.iovec;
    match *msg.content().borrow() {
        Content::Plain(data) => {
            iovec.iov_base = data.as_ptr().cast_mut().cast();
            iovec.iov_len = data.len();
            hdr.msg_iov = iovec;
            hdr.msg_iovlen = 1;
            hdr.msg_control = ptr::null_mut();
            hdr.msg_controllen = 0;
        }
        Content::Full { buffers, control } => wire_full(hdr, iovec, buffers, control),
    }
}

/// Points a header at buffers and control data of any kind. Called cold, so that plain messages
/// have the processor's registers to themselves.
#[cold]
#[inline(never)]
fn wire_full<'a>(
    hdr: &mut libc::msghdr,
    iovec: &mut iovec,
    buffers: SendBuffers<'a>,
    control: &'a [u8],
) {
    match buffers {
        SendBuffers::One(data) => {
            iovec.iov_base = data.as_ptr().cast_mut().cast();
            iovec.iov_len = data.len();
            hdr.msg_iov = iovec;
            hdr.msg_iovlen = 1;
        }
        SendBuffers::Many(data) => {
            // IoSlice is an iovec by its documentation.
            hdr.msg_iov = data.as_ptr().cast_mut().cast();
            hdr.msg_iovlen = data.len() as _;
        }
    }
    hdr.msg_control = match control {
        // A slice of no bytes points anywhere, and some systems look at the pointer alone.
        [] => ptr::null_mut(),
        _ => control.as_ptr().cast_mut().cast(),
    };
    hdr.msg_controllen = control.len() as _;
}

/// Points a header at buffers and room for control data of any kind.
#[cold]
fn wire_full_room(hdr: &mut libc::msghdr, msg: &mut RecvMsg<'_>, own: &mut Control) {
    let (buffers, control, source) = msg.full_room();
    hdr.msg_iov = buffers.as_mut_ptr().cast();
    hdr.msg_iovlen = buffers.len() as _;
    hdr.msg_control = control.unwrap_or(&mut own.0).as_mut_ptr().cast();
    hdr.msg_name = source.room().as_mut_ptr().cast();
}

/// Sees what was received: whether all of it is whole and without control data, and whether the
/// socket was shut down, as the number of messages that came before the end then.
#[inline]
fn look_over(socket: BorrowedFd<'_>, headers: &[Header]) -> (bool, Option<usize>) {
    // All of them at once, without a branch for each: mostly there is nothing to be found.
    let (control, flags) = headers.iter().fold((0, 0), |(control, flags), header| {
        (control | header.msg_hdr.msg_controllen, flags | header.msg_hdr.msg_flags)
    });
    let plain = control == 0 && flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
    // Linux gives the end only to a call that waits, so as the first message; the BSDs give it to
    // every call, so as the last one, too.
    let ended = headers.first().is_some_and(is_end) || headers.last().is_some_and(is_end);
    let ended = ended && unix::is_inet(socket);
    (plain, if ended { headers.iter().position(is_end) } else { None })
}

/// Bytes of the address that the kernel wrote.
#[inline]
fn source_len(header: &Header) -> usize {
    header.msg_hdr.msg_namelen as usize
}

/// The control data that the kernel wrote.
#[inline]
fn control_of<'a>(header: &Header, control: &'a Control) -> &'a [u8] {
    &control.0[..(header.msg_hdr.msg_controllen as usize).min(CONTROL_SPACE)]
}

/// Sets the fields of a header that a receive overwrites. Its name points at [`NAME_LEN`] bytes
/// and its control data at [`CONTROL_SPACE`].
#[inline]
fn arm(header: &mut Header) {
    let hdr = &mut header.msg_hdr;
    hdr.msg_namelen = NAME_LEN as _;
    hdr.msg_controllen = CONTROL_SPACE as _;
    hdr.msg_flags = 0;
}

/// What the kernel wrote into a header, with what its control data meant.
#[inline]
fn arrival(header: &Header, meta: RecvMeta) -> Arrival {
    let hdr = &header.msg_hdr;
    Arrival {
        reported: header.msg_len as usize,
        meta,
        // Two bits looked at: whatever else a system leaves in the flags does not matter.
        cut: Cut {
            data: hdr.msg_flags & libc::MSG_TRUNC != 0,
            control: hdr.msg_flags & libc::MSG_CTRUNC != 0,
        },
    }
}

/// Whether a header holds nothing and came from nowhere. An Internet socket gives that only when
/// it is shut down: its datagrams have a source, empty or not.
#[inline]
fn is_end(header: &Header) -> bool {
    header.msg_len == 0 && header.msg_hdr.msg_namelen == 0
}

/// Headers wired for a send.
///
/// Invariant, which makes the system call on them sound: each header's name, buffers and control
/// data are memory that is readable for `'a`, with the lengths that stand beside the pointers.
pub(super) struct SendHeaders<'a> {
    headers: &'a mut [Header],
    buffers: PhantomData<&'a [u8]>,
}

impl SendHeaders<'_> {
    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// For the system call; only its `msg_len` may be written to.
    pub(super) fn as_mut(&mut self) -> &mut [Header] {
        self.headers
    }
}

/// Headers wired for a receive.
///
/// Invariant, which makes the system call on them sound: each header's name, buffers and control
/// data are memory that is writable by nobody else for `'a`, with the lengths that stand beside
/// the pointers.
pub(super) struct RecvHeaders<'a> {
    headers: &'a mut [Header],
    buffers: PhantomData<&'a mut [u8]>,
}

impl RecvHeaders<'_> {
    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    /// For the system call.
    pub(super) fn as_mut(&mut self) -> &mut [Header] {
        self.headers
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

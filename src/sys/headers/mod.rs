//! The headers of a batch: contiguous storage, and its wiring to the buffers of one call.
//!
//! ```text
//! headers  [ mmsghdr 0 ][ mmsghdr 1 ] ...   name, iovec, control: pointers
//! rows     [ row 0     ][ row 1     ] ...   for sends: the address, and the message's one buffer
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
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
#[cfg(test)]
mod tests;
mod trains;

pub(crate) use slots::{Singles, Slots};
use trains::Trains;

use std::borrow::Borrow;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::slice;

use libc::{c_int, iovec};

use super::addr::{self, NAME_LEN, Name};
use super::zeroed::Zeroed;
use super::{Backend, MAX_BATCH, Step, unix};
use crate::ancillary::{CONTROL_SPACE, Refused};
use crate::message::{Arrival, Cut};
use crate::send_msg::{Content, DestRef, Outgoing, SendBuffers};
use crate::{RecvFlags, RecvMsg, SendMeta, SendMsg};

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
    trains: Trains,
}

impl Headers {
    pub(crate) const fn new() -> Self {
        Self {
            headers: Zeroed::empty(),
            rows: Zeroed::empty(),
            controls: Zeroed::empty(),
            trains: Trains::new(),
        }
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
        self.trains.resize(n);
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
        let mut wired = self.wire_send(socket, msgs);
        send_wired(backend, socket, &mut wired)
    }

    /// Sends as [`send`](Self::send) does, what an iterator of any kind gives.
    pub(crate) fn send_from<'m>(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> (usize, Step) {
        let mut wired = self.wire_send_from(socket, msgs);
        send_wired(backend, socket, &mut wired)
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
        let seen = look_over(socket, &self.headers[..step.count]);
        // In the error queue it is ordinary to have neither bytes nor a source.
        if let Some(count) = seen.end.filter(|_| !flags.contains(RecvFlags::ERROR_QUEUE)) {
            step = Step { count, error: None, ended: true, ..step };
        }
        let arrived = self.headers[..step.count].iter().zip(&*self.controls).zip(msgs);
        if !plain_room || seen.cut {
            arrived.for_each(|((header, control), msg)| arrive(header, control, msg));
        } else if seen.control {
            arrived.for_each(|((header, control), msg)| arrive_told(header, control, msg));
        } else {
            arrived.for_each(|((header, _), msg)| arrive_plain(header, msg));
        }
        step
    }

    /// Receives one message; false if the socket was shut down. There is room for it.
    #[inline]
    pub(crate) fn recv_one(
        &mut self,
        socket: BorrowedFd<'_>,
        msg: &mut RecvMsg<'_>,
        flags: RecvFlags,
    ) -> io::Result<bool> {
        let (header, control) = (&mut self.headers[0], &mut self.controls[0]);
        let plain_room = wire_room(header, msg, control);
        let buffers = PhantomData;
        let mut wired = RecvHeaders { headers: slice::from_mut(header), buffers };
        unix::recv_one(socket, &mut wired, flags)?;
        let ended = is_end(header) && !flags.contains(RecvFlags::ERROR_QUEUE);
        if ended && unix::is_inet(socket) {
            return Ok(false);
        }
        let hdr = &header.msg_hdr;
        if plain_room && hdr.msg_controllen == 0 && !is_cut(hdr.msg_flags) {
            arrive_plain(header, msg);
        } else {
            arrive(header, control, msg);
        }
        Ok(true)
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
        let mut fuller = Fuller::new(socket, &mut self.controls, first);
        let mut count = 0;
        // The slots come first: when they are used up, no message is taken that nobody sends.
        slots.zip(msgs).for_each(|((header, row), msg)| {
            if !wire_plain(header, row, &msg) {
                fuller.wire(header, row, msg);
            }
            count += 1;
        });
        let refused = fuller.refused;
        self.wired(count, refused)
    }

    /// The same for an iterator of any kind, whose messages are looked at where it puts them:
    /// moving one would cost as much as wiring it.
    fn wire_send_from<'a, 'm: 'a>(
        &'a mut self,
        socket: BorrowedFd<'_>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> SendHeaders<'a> {
        let first = self.headers.as_ptr();
        let mut fuller = Fuller::new(socket, &mut self.controls, first);
        let mut count = 0;
        for (header, row) in self.headers.iter_mut().zip(&mut *self.rows) {
            let next = msgs.next();
            let Some(msg) = &next else { break };
            if !wire_plain(header, row, msg) {
                fuller.wire(header, row, msg);
            }
            count += 1;
        }
        let refused = fuller.refused;
        self.wired(count, refused)
    }

    /// The first `count` headers as wired for a send, or those before the one that was refused.
    #[inline]
    fn wired(&mut self, count: usize, refused: Option<(usize, io::ErrorKind)>) -> SendHeaders<'_> {
        let count = refused.map_or(count, |(i, _)| i);
        let refused = refused.map(|(_, kind)| kind);
        SendHeaders { headers: &mut self.headers[..count], refused, buffers: PhantomData }
    }

    /// Points the first headers at the messages' buffers, and at room for addresses and control
    /// data; sets every field that the kernel reads or writes. Also says whether all messages are
    /// plain: one buffer each, and none for control data.
    #[inline]
    fn wire_recv<'a>(&'a mut self, msgs: &'a mut [RecvMsg<'_>]) -> (RecvHeaders<'a>, bool) {
        let count = msgs.len().min(self.capacity());
        let mut plain = true;
        for ((header, control), msg) in self.headers.iter_mut().zip(&mut *self.controls).zip(msgs) {
            if !wire_room(header, msg, control) {
                plain = false;
            }
        }
        (RecvHeaders { headers: &mut self.headers[..count], buffers: PhantomData }, plain)
    }
}

/// Points a header at the message's buffer, and at room for its address and control data; sets
/// every field that the kernel reads or writes. Says whether the message is plain: one buffer, and
/// none for control data.
#[inline]
fn wire_room(header: &mut Header, msg: &mut RecvMsg<'_>, control: &mut Control) -> bool {
    let hdr = &mut header.msg_hdr;
    let plain = match msg.plain_room() {
        Some((buffer, source)) => {
            // IoSliceMut is an iovec by its documentation.
            hdr.msg_iov = ptr::from_mut(buffer).cast();
            hdr.msg_iovlen = 1;
            hdr.msg_control = control.0.as_mut_ptr().cast();
            hdr.msg_name = source.room().as_mut_ptr().cast();
            true
        }
        None => {
            wire_full_room(hdr, msg, control);
            false
        }
    };
    arm(header);
    plain
}

/// Sends what is wired, and says how many messages were to be sent: those, and the one that was
/// refused, which meets its error if it is its turn.
#[inline]
fn send_wired(
    backend: Backend,
    socket: BorrowedFd<'_>,
    wired: &mut SendHeaders<'_>,
) -> (usize, Step) {
    let mut step = unix::send(backend, socket, wired);
    let Some(kind) = wired.refused else { return (wired.len(), step) };
    if step.count == wired.len() && step.error.is_none() {
        step.error = Some(kind.into());
    }
    (wired.len() + 1, step)
}

/// Points a header at a message's destination: a copy of it, or itself where it is ready.
#[inline]
fn wire_dest(hdr: &mut libc::msghdr, copy: &mut Name, dest: DestRef<'_, '_>) {
    let name = match dest {
        DestRef::Addr(addr) => addr.map(|addr| {
            let len = addr::encode(addr, copy);
            (&*copy, len)
        }),
        DestRef::Ready(dest) => dest.parts(),
    };
    (hdr.msg_name, hdr.msg_namelen) = match name {
        Some((name, len)) => (ptr::from_ref(name).cast_mut().cast(), len as _),
        None => (ptr::null_mut(), 0),
    };
}

/// Points a header at a message's address and its one buffer. False if there is more to it than
/// that: then the address alone is done.
#[inline]
fn wire_plain<'m>(header: &mut Header, row: &mut Row, msg: &impl Outgoing<'m>) -> bool {
    let (hdr, iovec) = (&mut header.msg_hdr, &mut row.iovec);
    wire_dest(hdr, &mut row.name, msg.dest());
    let Some(data) = msg.plain() else { return false };
    iovec.iov_base = data.as_ptr().cast_mut().cast();
    iovec.iov_len = data.len();
    hdr.msg_iov = iovec;
    hdr.msg_iovlen = 1;
    hdr.msg_control = ptr::null_mut();
    hdr.msg_controllen = 0;
    true
}

/// Wires what is more than plain.
struct Fuller<'a, 's> {
    socket: BorrowedFd<'s>,
    controls: &'a mut [Control],
    /// The address of the first header.
    first: *const Header,
    /// The first message that cannot be sent, and why. Those after it are wired for nothing: what
    /// plain messages cost matters more.
    refused: Option<(usize, io::ErrorKind)>,
    /// Wishes that are written out already: one message after the other has the same, mostly.
    written: Option<Written>,
}

/// Wishes as control messages in the room of an earlier header, which later ones may point at, too:
/// the kernel only reads them.
struct Written {
    meta: SendMeta,
    family: Option<bool>,
    control: *mut libc::c_void,
    len: usize,
}

impl<'a, 's> Fuller<'a, 's> {
    fn new(socket: BorrowedFd<'s>, controls: &'a mut [Control], first: *const Header) -> Self {
        Self { socket, controls, first, refused: None, written: None }
    }

    /// Points a header at the message's buffers and control data. Takes the message as it comes: one
    /// that is lent lives in memory, not in registers, also where it turns out to be plain.
    #[inline(never)]
    fn wire<'m>(&mut self, header: &mut Header, row: &mut Row, msg: impl Outgoing<'m>) {
        let content = msg.content();
        let Content::Full { buffers, control, meta } = content.borrow() else { return };
        let hdr = &mut header.msg_hdr;
        match buffers {
            SendBuffers::One(data) => {
                row.iovec.iov_base = data.as_ptr().cast_mut().cast();
                row.iovec.iov_len = data.len();
                hdr.msg_iov = &mut row.iovec;
                hdr.msg_iovlen = 1;
            }
            SendBuffers::Many(_) => wire_buffers(hdr, &mut row.iovec, *buffers),
        }
        let family = family(msg.dest());
        match &self.written {
            Some(written) if written.is(meta, family) && control.is_empty() => {
                hdr.msg_control = written.control;
                hdr.msg_controllen = written.len as _;
            }
            _ => self.write(header, msg.dest(), control, *meta),
        }
    }

    /// Writes a message's wishes into its header's own room.
    #[inline(never)]
    fn write(&mut self, header: &mut Header, dest: DestRef<'_, '_>, raw: &[u8], meta: SendMeta) {
        // Counting would cost plain messages, too.
        let i = (ptr::from_ref(header).addr() - self.first.addr()) / size_of::<Header>();
        let hdr = &mut header.msg_hdr;
        let wired = wire_control(hdr, &mut self.controls[i], dest, raw, meta, self.socket);
        if let Err(kind) = wired {
            self.refused = self.refused.or(Some((i, kind)));
        } else if raw.is_empty() {
            let (control, len) = (hdr.msg_control, hdr.msg_controllen as usize);
            self.written = Some(Written { meta, family: family(dest), control, len });
        }
    }
}

impl Written {
    #[inline(always)]
    fn is(&self, meta: &SendMeta, family: Option<bool>) -> bool {
        self.family == family && self.meta == *meta
    }
}

/// Whether a destination has its wishes by IPv4's control messages; `None` for the socket's peer,
/// of whom the system knows.
#[inline(always)]
fn family(dest: DestRef<'_, '_>) -> Option<bool> {
    match dest {
        DestRef::Addr(None) => None,
        DestRef::Addr(Some(SocketAddr::V4(_))) => Some(true),
        _ => dest.get().map(|dest| dest.ip().to_canonical().is_ipv4()),
    }
}

/// Points a header at buffers of any kind. Called cold, so that plain messages have the
/// processor's registers to themselves.
#[cold]
#[inline(never)]
fn wire_buffers(hdr: &mut libc::msghdr, iovec: &mut iovec, buffers: SendBuffers<'_>) {
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
}

/// Points a header at a message's control messages: the ones that the caller has made, or those
/// and the message's wishes together, written into the header's own room.
#[cold]
#[inline(never)]
fn wire_control(
    hdr: &mut libc::msghdr,
    own: &mut Control,
    dest: DestRef<'_, '_>,
    control: &[u8],
    meta: SendMeta,
    socket: BorrowedFd<'_>,
) -> Result<(), io::ErrorKind> {
    let (start, len) = if meta == SendMeta::new() {
        (control.as_ptr().cast_mut(), control.len())
    } else {
        let written = meta.encode(is_v4(dest, socket), control, &mut own.0);
        (own.0.as_mut_ptr(), written.map_err(Refused::kind)?)
    };
    // Some systems look at the pointer alone, and a slice of no bytes points anywhere.
    hdr.msg_control = if len == 0 { ptr::null_mut() } else { start.cast() };
    hdr.msg_controllen = len as _;
    Ok(())
}

/// Whether a message goes to an IPv4 address, or to one mapped to IPv6.
fn is_v4(dest: DestRef<'_, '_>, socket: BorrowedFd<'_>) -> bool {
    family(dest).unwrap_or_else(|| unix::peer_is_v4(socket))
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

/// What is to be seen in the headers of received messages, all together.
struct Seen {
    /// Whether any came with control data.
    control: bool,
    /// Whether anything was cut off any.
    cut: bool,
    /// The number of messages that came before the end, if the socket was shut down.
    end: Option<usize>,
}

#[inline]
fn look_over(socket: BorrowedFd<'_>, headers: &[Header]) -> Seen {
    // All of them at once, without a branch for each: mostly there is nothing to be found.
    let (control, flags) = headers.iter().fold((0, 0), |(control, flags), header| {
        (control | header.msg_hdr.msg_controllen, flags | header.msg_hdr.msg_flags)
    });
    // Linux gives the end only to a call that waits, so as the first message; the BSDs give it to
    // every call, so as the last one, too.
    let ended = headers.first().is_some_and(is_end) || headers.last().is_some_and(is_end);
    let ended = ended && unix::is_inet(socket);
    let end = if ended { headers.iter().position(is_end) } else { None };
    Seen { control: control > 0, cut: is_cut(flags), end }
}

/// Whether the flags of received messages say that something was cut off.
#[inline]
fn is_cut(flags: c_int) -> bool {
    flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0
}

/// Tells `msg` what the kernel wrote into its header, if both are plain.
#[inline]
fn arrive_plain(header: &Header, msg: &mut RecvMsg<'_>) {
    msg.source_mut().set_len(source_len(header));
    msg.set_arrival(Arrival::plain(header.msg_len as usize));
}

/// Tells `msg`, whose room is plain, what the kernel wrote into its header, with control data, and
/// did not cut.
#[inline]
fn arrive_told(header: &Header, control: &Control, msg: &mut RecvMsg<'_>) {
    if !msg.told_mut().read_usual(&control.0, header.msg_hdr.msg_controllen as usize) {
        return arrive(header, control, msg);
    }
    msg.source_mut().set_len(source_len(header));
    msg.set_arrival(Arrival { told: true, ..Arrival::plain(header.msg_len as usize) });
}

/// Tells `msg` what the kernel wrote into its header and control data.
#[inline(never)]
fn arrive(header: &Header, control: &Control, msg: &mut RecvMsg<'_>) {
    let segment_size = msg.read_control(control_of(header, control));
    msg.source_mut().set_len(source_len(header));
    msg.set_arrival(arrival(header, segment_size));
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

/// What the kernel wrote into a header, with what its control data said of trains.
#[inline]
fn arrival(header: &Header, segment_size: Option<u16>) -> Arrival {
    let hdr = &header.msg_hdr;
    Arrival {
        reported: header.msg_len as usize,
        segment_size,
        told: hdr.msg_controllen > 0,
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
    /// Why the message after these is not among them, if there is one that cannot be sent.
    refused: Option<io::ErrorKind>,
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

//! The headers of a batch: contiguous storage, and its wiring to the buffers of one call.
//!
//! ```text
//! headers  [ mmsghdr 0 ][ mmsghdr 1 ] ...   name, iovec, control: pointers into the rows below
//! names    [ 32 bytes  ][ 32 bytes  ] ...   an address each
//! iovecs   [ iovec 0   ][ iovec 1   ] ...   a message's one buffer (several: the caller's own row)
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
//! ```
//!
//! All pointers are set anew by each wiring, after any growth, from the borrows that the wired
//! headers hold. Between calls the rows are numbers that nobody follows.

// The lengths in C's structs are wider here and narrower there.
#![allow(clippy::unnecessary_cast)]

mod slots;
mod trains;

pub(crate) use slots::Slots;
use trains::Trains;

use std::borrow::Borrow;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr;

use libc::iovec;

use super::addr::{self, Name};
use super::zeroed::Zeroed;
use super::{Backend, MAX_BATCH, Step, unix};
use crate::ancillary::{CONTROL_SPACE, Refused};
use crate::message::{Arrival, Cut};
use crate::recv_msg::RecvBuffers;
use crate::send_msg::{Content, SendBuffers};
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

/// Control data of one message.
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_SPACE]);

/// Storage for the headers of a batch.
pub(crate) struct Headers {
    headers: Zeroed<Header>,
    names: Zeroed<Name>,
    iovecs: Zeroed<iovec>,
    controls: Zeroed<Control>,
    trains: Trains,
}

impl Headers {
    pub(crate) const fn new() -> Self {
        Self {
            headers: Zeroed::empty(),
            names: Zeroed::empty(),
            iovecs: Zeroed::empty(),
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
        self.names = Zeroed::new(n);
        self.iovecs = Zeroed::new(n);
        self.controls = Zeroed::new(n);
        self.trains.shrink_to(n);
    }

    /// Sends messages in order, as many as there is room for; see the contract in [`super`].
    /// Also says how many were taken from the iterator.
    #[inline]
    pub(crate) fn send<'m, M: Borrow<SendMsg<'m>>>(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: impl Iterator<Item = M>,
    ) -> (usize, Step) {
        let mut wired = self.wire_send(socket, msgs);
        let (len, refused) = (wired.len(), wired.refused);
        let mut step = unix::send(backend, socket, &mut wired);
        let Some(kind) = refused else { return (len, step) };
        if step.count == len && step.error.is_none() {
            step.error = Some(kind.into());
        }
        (len + 1, step)
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
        let mut wired = self.wire_recv(msgs);
        let mut step = unix::recv(backend, socket, &mut wired, flags);
        for (i, msg) in msgs[..step.count].iter_mut().enumerate() {
            // In the error queue it is ordinary to have neither bytes nor a source.
            let ended = self.arrive(i, msg) && !flags.contains(RecvFlags::ERROR_QUEUE);
            if ended && unix::is_inet(socket) {
                step = Step { count: i, error: None, ended: true, ..step };
                break;
            }
        }
        step
    }

    /// Points the first headers at the messages' buffers and at copies of their addresses.
    #[inline]
    fn wire_send<'a, 'm: 'a, M: Borrow<SendMsg<'m>>>(
        &'a mut self,
        socket: BorrowedFd<'_>,
        msgs: impl Iterator<Item = M>,
    ) -> SendHeaders<'a> {
        let rows = self.iovecs.iter_mut().zip(&mut *self.controls);
        let slots = self.headers.iter_mut().zip(&mut *self.names).zip(rows);
        let (mut count, mut refused) = (0, None);
        // The slots come first: when they are used up, no message is taken that nobody sends.
        for (((header, name), (iovec, own)), msg) in slots.zip(msgs) {
            let msg: &SendMsg<'m> = msg.borrow();
            let hdr = &mut header.msg_hdr;
            wire_dest(hdr, name, msg.dest_ref());
            match *msg.content() {
                Content::Plain(data) => {
                    iovec.iov_base = data.as_ptr().cast_mut().cast();
                    iovec.iov_len = data.len();
                    hdr.msg_iov = iovec;
                    hdr.msg_iovlen = 1;
                    hdr.msg_control = ptr::null_mut();
                    hdr.msg_controllen = 0;
                }
                Content::Full { buffers, .. } => {
                    wire_buffers(hdr, iovec, buffers);
                    if let Err(kind) = wire_control(hdr, own, msg, socket) {
                        refused = Some(kind);
                        break;
                    }
                }
            }
            hdr.msg_flags = 0;
            count += 1;
        }
        SendHeaders { headers: &mut self.headers[..count], refused, buffers: PhantomData }
    }

    /// Points the first headers at the messages' buffers, and at room for addresses and control
    /// data; sets every field that the kernel reads or writes.
    #[inline]
    fn wire_recv<'a>(&'a mut self, msgs: &'a mut [RecvMsg<'_>]) -> RecvHeaders<'a> {
        let count = msgs.len().min(self.capacity());
        let rows = self.names.iter_mut().zip(&mut *self.iovecs).zip(&mut *self.controls);
        for ((header, ((name, iovec), own)), msg) in self.headers.iter_mut().zip(rows).zip(msgs) {
            let (buffers, control) = msg.buffers_mut();
            let hdr = &mut header.msg_hdr;
            match buffers {
                RecvBuffers::One(buffer) => {
                    iovec.iov_base = buffer.as_mut_ptr().cast();
                    iovec.iov_len = buffer.len();
                    hdr.msg_iov = iovec;
                    hdr.msg_iovlen = 1;
                }
                RecvBuffers::Many(buffers) => {
                    // IoSliceMut is an iovec by its documentation.
                    hdr.msg_iov = buffers.as_mut_ptr().cast();
                    hdr.msg_iovlen = buffers.len() as _;
                }
            }
            let control = match control {
                None => own.0.as_mut_ptr(),
                Some(theirs) => theirs.as_mut_ptr(),
            };
            arm(header, name, control);
        }
        RecvHeaders { headers: &mut self.headers[..count], buffers: PhantomData }
    }

    /// Tells `msg` what the kernel wrote into header `i`; true if it is what a socket that was
    /// shut down gives (see [`is_end`]).
    #[inline]
    fn arrive(&self, i: usize, msg: &mut RecvMsg<'_>) -> bool {
        let header = &self.headers[i];
        let control_len = (header.msg_hdr.msg_controllen as usize).min(CONTROL_SPACE);
        let segment_size = msg.read_control(&self.controls[i].0[..control_len]);
        let arrival = arrival(header, &self.names[i], segment_size, msg.room());
        msg.set_arrival(arrival);
        is_end(header)
    }
}

/// Points a header at a copy of the destination, if there is one.
#[inline]
fn wire_dest(hdr: &mut libc::msghdr, name: &mut Name, dest: Option<&SocketAddr>) {
    match dest {
        Some(dest) => {
            hdr.msg_namelen = addr::encode(dest, name) as _;
            hdr.msg_name = ptr::from_mut(name).cast();
        }
        None => {
            hdr.msg_namelen = 0;
            hdr.msg_name = ptr::null_mut();
        }
    }
}

/// Points a header at buffers of any kind. Not inlined, so that plain messages do not share their
/// few instructions with it.
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
#[inline(never)]
fn wire_control(
    hdr: &mut libc::msghdr,
    own: &mut Control,
    msg: &SendMsg<'_>,
    socket: BorrowedFd<'_>,
) -> Result<(), io::ErrorKind> {
    let (meta, control) = (msg.meta(), msg.control());
    let (start, len) = if meta == SendMeta::new() {
        (control.as_ptr().cast_mut(), control.len())
    } else {
        let v4 = match msg.dest_ref() {
            Some(dest) => dest.ip().to_canonical().is_ipv4(),
            None => unix::peer_is_v4(socket),
        };
        let written = meta.encode(v4, control, &mut own.0);
        (own.0.as_mut_ptr(), written.map_err(Refused::kind)?)
    };
    // Some systems look at the pointer alone, and a slice of no bytes points anywhere.
    hdr.msg_control = if len == 0 { ptr::null_mut() } else { start.cast() };
    hdr.msg_controllen = len as _;
    Ok(())
}

/// Prepares one header for a receive: the fields that a call reads and overwrites. `control` has
/// room for [`CONTROL_SPACE`] bytes.
#[inline]
fn arm(header: &mut Header, name: *mut Name, control: *mut u8) {
    let hdr = &mut header.msg_hdr;
    hdr.msg_name = name.cast();
    hdr.msg_namelen = Name::LEN as _;
    hdr.msg_control = control.cast();
    hdr.msg_controllen = CONTROL_SPACE as _;
    hdr.msg_flags = 0;
}

/// What the kernel wrote into a header and its address, with what its control data said of trains.
#[inline]
fn arrival(header: &Header, name: &Name, segment_size: Option<u16>, room: usize) -> Arrival {
    let hdr = &header.msg_hdr;
    let reported = header.msg_len as usize;
    Arrival {
        len: reported.min(room),
        reported,
        addr: addr::decode(name, hdr.msg_namelen as usize),
        segment_size,
        cut: cut(header),
    }
}

/// What was cut off the message for want of room. Two bits are looked at: whatever else a system
/// leaves in the flags does not matter.
#[inline]
fn cut(header: &Header) -> Cut {
    let flags = header.msg_hdr.msg_flags;
    Cut { data: flags & libc::MSG_TRUNC != 0, control: flags & libc::MSG_CTRUNC != 0 }
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

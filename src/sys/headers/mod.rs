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

pub(crate) use slots::Slots;

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr;

use libc::iovec;

use super::addr::{self, Name};
use super::zeroed::Zeroed;
use super::{Backend, MAX_BATCH, Step, unix};
use crate::ancillary::CONTROL_SPACE;
use crate::message::{Arrival, Cut};
use crate::recv_msg::RecvBuffers;
use crate::send_msg::{Content, SendBuffers};
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

/// Control data of one message.
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_SPACE]);

/// Storage for the headers of a batch.
pub(crate) struct Headers {
    headers: Zeroed<Header>,
    names: Zeroed<Name>,
    iovecs: Zeroed<iovec>,
    controls: Zeroed<Control>,
}

impl Headers {
    pub(crate) const fn new() -> Self {
        Self {
            headers: Zeroed::empty(),
            names: Zeroed::empty(),
            iovecs: Zeroed::empty(),
            controls: Zeroed::empty(),
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
        let mut wired = self.wire_send(msgs);
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
        let mut wired = self.wire_recv(msgs);
        let mut step = unix::recv(backend, socket, &mut wired, flags);
        for (i, msg) in msgs[..step.count].iter_mut().enumerate() {
            if self.arrive(i, msg) && unix::is_inet(socket) {
                step = Step { count: i, error: None, ended: true };
                break;
            }
        }
        step
    }

    /// Points the first headers at the messages' buffers and at copies of their addresses.
    #[inline]
    fn wire_send<'a, 'm: 'a, M: Borrow<SendMsg<'m>>>(
        &'a mut self,
        msgs: impl Iterator<Item = M>,
    ) -> SendHeaders<'a> {
        let slots = self.headers.iter_mut().zip(&mut *self.names).zip(&mut *self.iovecs);
        let mut count = 0;
        // The slots come first: when they are used up, no message is taken that nobody sends.
        for (((header, name), iovec), msg) in slots.zip(msgs) {
            let msg: &SendMsg<'m> = msg.borrow();
            let hdr = &mut header.msg_hdr;
            match msg.dest_ref() {
                Some(dest) => {
                    hdr.msg_namelen = addr::encode(dest, name) as _;
                    hdr.msg_name = ptr::from_mut(name).cast();
                }
                None => {
                    hdr.msg_namelen = 0;
                    hdr.msg_name = ptr::null_mut();
                }
            }
            match *msg.content() {
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
            hdr.msg_flags = 0;
            count += 1;
        }
        SendHeaders { headers: &mut self.headers[..count], buffers: PhantomData }
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
        let meta = msg.read_control(&self.controls[i].0[..control_len]);
        let arrival = arrival(header, &self.names[i], meta, msg.room());
        msg.set_arrival(arrival);
        is_end(header)
    }
}

/// Points a header at buffers and control data of any kind. Not inlined, so that plain messages do
/// not share their few instructions with it.
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

/// What the kernel wrote into a header and its address, with what its control data meant.
#[inline]
fn arrival(header: &Header, name: &Name, meta: RecvMeta, room: usize) -> Arrival {
    let hdr = &header.msg_hdr;
    let reported = header.msg_len as usize;
    Arrival {
        len: reported.min(room),
        reported,
        addr: addr::decode(name, hdr.msg_namelen as usize),
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

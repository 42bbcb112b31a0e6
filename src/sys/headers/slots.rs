//! Payload memory with headers that stay wired to it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use libc::iovec;

use super::{Control, Header, RecvHeaders, arm, arrival, cut, is_end};
use crate::ancillary::CONTROL_SPACE;
use crate::message::{Arrival, Message, Meta};
use crate::parts::Parts;
use crate::sys::addr::Name;
use crate::sys::zeroed::Zeroed;
use crate::sys::{Backend, Step, unix};
use crate::{RecvFlags, RecvMeta};

/// Memory for messages of one length each, and a header for each, wired once.
///
/// Invariant: the header and the iovec of slot `i` point at row `i` of `names`, `controls` and
/// `payload` and at nothing else. The rows are [`Zeroed`], so they stay where they are when this
/// moves.
pub(crate) struct Slots {
    headers: Zeroed<Header>,
    names: Zeroed<Name>,
    /// Read by the kernel alone.
    iovecs: Zeroed<iovec>,
    controls: Zeroed<Control>,
    /// What the control data of a slot means; set where there is any.
    metas: Vec<RecvMeta>,
    payload: Zeroed<u8>,
    slot_len: usize,
    /// Slots from the start that the kernel may have written to since they were armed.
    touched: usize,
}

impl Slots {
    /// `slots * slot_len` fits an `isize`: the caller has checked.
    pub(crate) fn new(slots: usize, slot_len: usize) -> Self {
        let mut new = Self {
            headers: Zeroed::new(slots),
            names: Zeroed::new(slots),
            iovecs: Zeroed::new(slots),
            controls: Zeroed::new(slots),
            metas: vec![RecvMeta::NONE; slots],
            payload: Zeroed::new(slots * slot_len),
            slot_len,
            touched: slots,
        };
        let payload = new.payload.as_mut_ptr();
        let iovecs = new.iovecs.as_mut_ptr();
        for (i, (header, iovec)) in new.headers.iter_mut().zip(&mut *new.iovecs).enumerate() {
            // Within the rows: `i < slots`, and the payload has `slot_len` bytes for each.
            header.msg_hdr.msg_iov = iovecs.wrapping_add(i);
            header.msg_hdr.msg_iovlen = 1;
            iovec.iov_base = payload.wrapping_add(i * slot_len).cast();
            iovec.iov_len = slot_len;
        }
        new.rearm();
        new
    }

    /// Receives into the slots of `range`; see the contract in [`crate::sys`]. A range that
    /// begins at 0 begins a new batch.
    #[inline]
    pub(crate) fn recv(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        range: Range<usize>,
        flags: RecvFlags,
    ) -> Step {
        if range.start == 0 {
            self.rearm();
        }
        let Range { start, end } = range;
        let mut wired =
            RecvHeaders { headers: &mut self.headers[start..end], buffers: PhantomData };
        let mut step = unix::recv(backend, socket, &mut wired, flags);
        // One more than was counted: a call that failed may have touched the slot it failed at.
        self.touched = end.min(start + step.count + 1);
        for i in start..start + step.count {
            let control_len = self.control_len(i);
            if control_len > 0 {
                self.metas[i] = RecvMeta::from_control(&self.controls[i].0[..control_len]);
            }
            if is_end(&self.headers[i]) && unix::is_inet(socket) {
                step = Step { count: i - start, error: None, ended: true, ..step };
                break;
            }
        }
        step
    }

    /// Bytes of control data that the kernel wrote for slot `i`.
    #[inline]
    fn control_len(&self, i: usize) -> usize {
        (self.headers[i].msg_hdr.msg_controllen as usize).min(CONTROL_SPACE)
    }

    /// Sets anew what the kernel overwrote: work for what arrived, not for what is offered.
    #[inline]
    fn rearm(&mut self) {
        // Addresses of the rows, not of borrows of their elements: they outlive this call.
        let (names, controls) = (self.names.as_mut_ptr(), self.controls.as_mut_ptr());
        for (i, header) in self.headers[..self.touched].iter_mut().enumerate() {
            arm(header, names.wrapping_add(i), controls.wrapping_add(i).cast());
        }
        self.touched = 0;
    }

    /// The message in slot `i`.
    #[inline]
    pub(crate) fn message(&self, i: usize) -> Message<'_> {
        let control_len = self.control_len(i);
        let read = (control_len > 0).then(|| &self.metas[i]);
        let segment_size = read.and_then(|meta| meta.segment_size);
        let arrival = arrival(&self.headers[i], &self.names[i], segment_size, self.slot_len);
        let data = &self.payload[i * self.slot_len..][..arrival.len];
        let meta = Meta { read, raw: &self.controls[i].0[..control_len] };
        Message::new(Parts::one(data), arrival, meta)
    }

    /// What arrived in slot `i`, its source left aside.
    #[inline]
    pub(crate) fn sizes(&self, i: usize) -> Arrival {
        let read = (self.control_len(i) > 0).then(|| &self.metas[i]);
        let segment_size = read.and_then(|meta| meta.segment_size);
        let reported = self.headers[i].msg_len as usize;
        let (len, cut) = (reported.min(self.slot_len), cut(&self.headers[i]));
        Arrival { len, reported, addr: None, segment_size, cut }
    }

    /// The message in slot `i`, where it was not the kernel that put it there.
    pub(crate) fn message_as<'a>(
        &'a self,
        i: usize,
        arrival: Arrival,
        meta: &'a RecvMeta,
    ) -> Message<'a> {
        let data = &self.payload[i * self.slot_len..][..arrival.len];
        Message::new(Parts::one(data), arrival, Meta { read: Some(meta), raw: &[] })
    }

    /// The slots' memory, for those who fill it themselves.
    pub(crate) fn buffers(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.payload.chunks_exact_mut(self.slot_len)
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("slots", &self.headers.len())
            .field("slot_len", &self.slot_len)
            .finish_non_exhaustive()
    }
}

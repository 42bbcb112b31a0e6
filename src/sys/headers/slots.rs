//! Payload memory with headers that stay wired to it.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::slice;

use libc::iovec;

use super::incoming::{arm, arrival, control_of, look_over, source_len};
use super::{Control, Header, RecvHeaders};
use crate::ancillary::Told;
use crate::message::{Arrival, Message, Meta};
use crate::parts::Parts;
use crate::sys::addr::{NAME_LEN, Name, RawAddrRef};
use crate::sys::fds::ReceivedFds;
use crate::sys::zeroed::{Beside, Zeroed};
use crate::sys::{Backend, Step, unix};
use crate::{Datagram, RecvFlags};

/// Memory for messages of one length each, and a header for each, wired once.
///
/// ```text
/// headers  [ mmsghdr 0 ] ...            name, iovec, control: pointers to what follows
/// iovecs   [ iovec 0   ] ...
/// slots    [ name 0 | payload 0 ] ...   32 bytes for the address, then the caller's slot length
/// controls [ control 0 ] ...
/// ```
///
/// Invariant: header `i` and iovec `i` point at slot `i`, iovec `i` and control `i` and at nothing
/// else. All of them are [`Zeroed`], so they stay where they are when this moves.
pub(crate) struct Slots {
    headers: Zeroed<Header>,
    /// Read by the kernel alone.
    iovecs: Zeroed<iovec>,
    slots: Zeroed<u8>,
    controls: Zeroed<Control>,
    /// What the control data of a slot means; set where there is any.
    told: Vec<Told>,
    /// Descriptors that came, if they were asked for.
    fds: Option<ReceivedFds>,
    /// Bytes of a slot: [`NAME_LEN`] and the payload.
    stride: usize,
    /// Slots from the start that the kernel may have written to since they were armed.
    touched: usize,
    /// Whether all messages received since then are whole, and a datagram each.
    single: bool,
}

impl Slots {
    /// All of it together fits an `isize`: the caller has checked.
    pub(crate) fn new(slots: usize, slot_len: usize) -> Self {
        let stride = NAME_LEN + slot_len;
        let mut new = Self {
            headers: Zeroed::new(slots),
            iovecs: Zeroed::new(slots),
            slots: Zeroed::new(slots * stride),
            controls: Zeroed::new(slots),
            told: vec![Told::NOTHING; slots],
            fds: None,
            stride,
            touched: slots,
            single: true,
        };
        // Addresses of the arrays, not of borrows of their elements: they outlive this call.
        let (names, controls) = (new.slots.as_mut_ptr(), new.controls.as_mut_ptr());
        let iovecs = new.iovecs.as_mut_ptr();
        for (i, (header, iovec)) in new.headers.iter_mut().zip(&mut *new.iovecs).enumerate() {
            // Within the arrays, since `i < slots`.
            let name = names.wrapping_add(i * stride);
            iovec.iov_base = name.wrapping_add(NAME_LEN).cast();
            iovec.iov_len = slot_len;
            let hdr = &mut header.msg_hdr;
            hdr.msg_name = name.cast();
            hdr.msg_iov = iovecs.wrapping_add(i);
            hdr.msg_iovlen = 1;
            hdr.msg_control = controls.wrapping_add(i).cast();
        }
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
        let headers = &mut self.headers[start..end];
        let fds = self.fds.as_mut().map(|fds| fds.begin(start));
        let mut wired = RecvHeaders { headers, fds, buffers: PhantomData };
        let mut step = unix::recv(backend, socket, &mut wired, flags);
        // One more than was counted: a call that failed may have touched the slot it failed at.
        self.touched = end.min(start + step.count + 1);
        let seen = look_over(socket, &self.headers[start..start + step.count]);
        if let Some(count) = seen.end {
            step = Step { count, error: None, ended: true, ..step };
        }
        self.single &= !seen.cut;
        if seen.control {
            self.read_control(start..start + step.count);
        }
        step
    }

    /// Receives into the first slot, as a batch of its own; false if the socket was shut down.
    #[inline]
    pub(crate) fn recv_one(
        &mut self,
        socket: BorrowedFd<'_>,
        flags: RecvFlags,
    ) -> io::Result<bool> {
        self.rearm();
        self.touched = 1;
        let headers = &mut self.headers[..1];
        let fds = self.fds.as_mut().map(|fds| fds.begin(0));
        unix::recv_one(socket, &mut RecvHeaders { headers, fds, buffers: PhantomData }, flags)?;
        let seen = look_over(socket, &self.headers[..1]);
        self.single = !seen.cut;
        if seen.control {
            self.read_control(0..1);
        }
        Ok(seen.end.is_none())
    }

    /// Reads the control data of the messages in the slots of `range`.
    #[inline(never)]
    fn read_control(&mut self, range: Range<usize>) {
        let controls = self.controls[range.clone()].iter();
        let slots = self.headers[range.clone()].iter().zip(controls).zip(&mut self.told[range]);
        for ((header, control), told) in slots {
            let len = header.msg_hdr.msg_controllen as usize;
            if len > 0 && !told.read_usual(&control.0, len) {
                let segment_size = told.read(control_of(header, control));
                self.single &= segment_size.is_none();
            }
        }
    }

    /// Sets anew what the kernel overwrote: work for what arrived, not for what is offered.
    #[inline]
    fn rearm(&mut self) {
        self.headers[..self.touched].iter_mut().for_each(arm);
        self.touched = 0;
        self.single = true;
    }

    /// Goes through the `n` messages that were received, if each of them is one whole datagram,
    /// and through none otherwise.
    #[inline]
    pub(crate) fn singles(&self, n: usize) -> Option<Singles<'_>> {
        let slots = self.slots.chunks_exact(self.stride);
        self.single.then(|| Singles(Beside::new(&self.headers[..n], slots, self.told.iter())))
    }

    /// The message in slot `i`.
    #[inline]
    pub(crate) fn message(&self, i: usize) -> Message<'_> {
        let header = &self.headers[i];
        let raw = control_of(header, &self.controls[i]);
        let told = (!raw.is_empty()).then(|| &self.told[i]);
        let (name, payload) = parts(&self.slots[i * self.stride..][..self.stride]);
        let (arrival, len) = self.arrived(i);
        let source = RawAddrRef::new(name, source_len(header));
        Message::new(Parts::one(&payload[..len]), source, arrival, Meta::new(told, raw))
    }

    /// What arrived in slot `i`, and how many bytes of it are there.
    #[inline]
    pub(crate) fn arrived(&self, i: usize) -> (Arrival, usize) {
        let header = &self.headers[i];
        let told = header.msg_hdr.msg_controllen > 0;
        let segment_size = if told { self.told[i].meta().segment_size } else { None };
        let arrival = arrival(header, segment_size);
        (arrival, arrival.reported.min(self.stride - NAME_LEN))
    }

    /// The message in slot `i`, where it was not the kernel that put it there.
    pub(crate) fn message_as<'a>(
        &'a self,
        i: usize,
        arrival: Arrival,
        source: RawAddrRef<'a>,
        told: &'a Told,
    ) -> Message<'a> {
        let (_, payload) = parts(&self.slots[i * self.stride..][..self.stride]);
        let data = &payload[..payload.len().min(arrival.reported)];
        Message::new(Parts::one(data), source, arrival, Meta::new(Some(told), &[]))
    }

    /// Whether descriptors that come with messages are kept, rather than closed. Closes those that
    /// are there.
    pub(crate) fn accept_fds(&mut self, on: bool) {
        self.fds = on.then(ReceivedFds::new);
    }

    pub(crate) fn accepts_fds(&self) -> bool {
        self.fds.is_some()
    }

    /// Takes the descriptors that came with message `i`.
    pub(crate) fn take_fds(&mut self, i: usize) -> impl Iterator<Item = OwnedFd> {
        self.fds.as_mut().into_iter().flat_map(move |fds| fds.take(i))
    }

    /// Adds descriptors that came with message `i`, if they were asked for.
    pub(crate) fn add_fds(&mut self, i: usize, add: impl Iterator<Item = OwnedFd>) {
        if let Some(fds) = &mut self.fds {
            fds.extend(i, add);
        }
    }

    /// Closes the descriptors that are there.
    #[inline]
    pub(crate) fn close_fds(&mut self) {
        if let Some(fds) = &mut self.fds {
            fds.clear();
        }
    }

    /// The payload memory of each slot, for those who fill it themselves.
    pub(crate) fn buffers(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.slots.chunks_exact_mut(self.stride).map(|slot| &mut slot[NAME_LEN..])
    }
}

/// The address and the payload memory of a slot.
#[inline]
fn parts(slot: &[u8]) -> (&Name, &[u8]) {
    slot.split_first_chunk().expect("a slot is longer than an address")
}

/// Goes through messages that are one whole datagram each.
#[derive(Clone)]
pub(crate) struct Singles<'a>(
    Beside<'a, Header, slice::ChunksExact<'a, u8>, slice::Iter<'a, Told>>,
);

impl<'a> Iterator for Singles<'a> {
    type Item = Datagram<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Datagram<'a>> {
        let ((header, slot), told) = self.0.next()?;
        let (name, payload) = parts(slot);
        let data = &payload[..payload.len().min(header.msg_len as usize)];
        let source = RawAddrRef::new(name, source_len(header));
        // Where nobody asks for it, none of this is done.
        let meta = Meta::new((header.msg_hdr.msg_controllen > 0).then_some(told), &[]);
        Some(Datagram::whole(data, source, meta))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("slots", &self.headers.len())
            .field("slot_len", &(self.stride - NAME_LEN))
            .finish_non_exhaustive()
    }
}

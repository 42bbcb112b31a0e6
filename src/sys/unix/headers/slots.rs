//! Payload memory with headers that stay wired to it.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::slice;

use libc::iovec;

use super::RecvHeaders;
use super::recv::{control_of, received, reset, source_len, summarize};
use crate::ancillary::RecvMeta;
use crate::recv::datagram::{Datagram, Message, Meta, Received};
use crate::recv::scattered::Parts;
use crate::sys::RecvFlags;
use crate::sys::unix::addr::{NAME_LEN, Name, RawAddrRef};
use crate::sys::unix::call;
use crate::sys::unix::fds::ReceivedFds;
use crate::sys::unix::header::{Control, Header};
use crate::sys::unix::zeroed::{Zeroed, ZipSlots};
use crate::sys::{Backend, CallResult};

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
    metas: Vec<RecvMeta>,
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
    /// The caller has checked that the total fits an `isize`.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(crate) fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        let stride = NAME_LEN + slot_len;
        let mut metas = Vec::new();
        metas.try_reserve_exact(slots).map_err(|_| io::ErrorKind::OutOfMemory)?;
        metas.resize(slots, RecvMeta::NONE);
        let mut new = Self {
            headers: Zeroed::try_new(slots)?,
            iovecs: Zeroed::try_new(slots)?,
            slots: Zeroed::try_new(slots * stride)?,
            controls: Zeroed::try_new(slots)?,
            metas,
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
        Ok(new)
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
    ) -> CallResult {
        if range.start == 0 {
            self.reset_used();
        }
        let Range { start, end } = range;
        let headers = &mut self.headers[start..end];
        let fds = self.fds.as_mut().map(|fds| fds.begin(start));
        let mut wired = RecvHeaders { headers, fds, buffers: PhantomData };
        let result = call::recv(backend, socket, &mut wired, flags);
        // One more than was counted: a call that failed may have touched the slot it failed at.
        self.touched = end.min(start + result.count + 1);
        let summary = summarize(socket, &self.headers[start..start + result.count]);
        let result = result.ended_at(summary.end);
        self.single &= !summary.truncated;
        if summary.control {
            self.read_control(start..start + result.count);
        }
        result
    }

    /// Reads the control data of the messages in the slots of `range`.
    fn read_control(&mut self, range: Range<usize>) {
        let controls = self.controls[range.clone()].iter();
        let slots = self.headers[range.clone()].iter().zip(controls).zip(&mut self.metas[range]);
        for ((header, control), meta) in slots {
            let control = control_of(header, control);
            if !control.is_empty() {
                *meta = RecvMeta::decode(control);
                self.single &= meta.segment_size.is_none();
            }
        }
    }

    /// Resets the headers that the kernel wrote to, and no others.
    #[inline]
    fn reset_used(&mut self) {
        self.headers[..self.touched].iter_mut().for_each(reset);
        self.touched = 0;
        self.single = true;
    }

    /// Iterates over the `n` received messages, if each of them is a single whole datagram.
    #[inline]
    pub(crate) fn singles(&self, n: usize) -> Option<Singles<'_>> {
        let slots = self.slots.chunks_exact(self.stride);
        self.single.then(|| Singles(ZipSlots::new(&self.headers[..n], slots, self.metas.iter())))
    }

    /// The message in slot `i`.
    #[inline]
    pub(crate) fn message(&self, i: usize) -> Message<'_> {
        let header = &self.headers[i];
        let raw = control_of(header, &self.controls[i]);
        let meta = (!raw.is_empty()).then(|| &self.metas[i]);
        let (received, len) = self.received_in(i);
        let data = Parts::one(self.payload(i, len));
        Message::new(data, self.source(i), received, Meta::new(meta, raw))
    }

    /// What was received in slot `i`, and how many bytes of it are there.
    #[inline]
    pub(crate) fn received_in(&self, i: usize) -> (Received, usize) {
        let header = &self.headers[i];
        let has_meta = header.msg_hdr.msg_controllen > 0;
        let segment_size = if has_meta { self.metas[i].segment_size } else { None };
        let received = received(header, segment_size, || self.source(i).get().is_some());
        (received, received.reported.min(self.slot_len()))
    }

    /// Where the message in slot `i` came from.
    #[inline]
    fn source(&self, i: usize) -> RawAddrRef<'_> {
        let (name, _) = parts(&self.slots[i * self.stride..][..self.stride]);
        RawAddrRef::new(name, source_len(&self.headers[i]))
    }

    /// Payload bytes of a slot.
    #[inline]
    pub(crate) fn slot_len(&self) -> usize {
        self.stride - NAME_LEN
    }

    /// The first `len` bytes of slot `i`, or all if it has fewer.
    pub(crate) fn payload(&self, i: usize, len: usize) -> &[u8] {
        let (_, payload) = parts(&self.slots[i * self.stride..][..self.stride]);
        &payload[..payload.len().min(len)]
    }

    /// Sets whether received descriptors are stored or closed. Closes the stored ones.
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

/// Iterates over messages that are single whole datagrams.
#[derive(Clone)]
pub(crate) struct Singles<'a>(
    ZipSlots<'a, Header, slice::ChunksExact<'a, u8>, slice::Iter<'a, RecvMeta>>,
);

impl<'a> Iterator for Singles<'a> {
    type Item = Datagram<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Datagram<'a>> {
        let ((header, slot), meta) = self.0.next()?;
        let (name, payload) = parts(slot);
        let data = &payload[..payload.len().min(header.msg_len as usize)];
        let source = RawAddrRef::new(name, source_len(header));
        // Sockets without metadata pay for one comparison.
        let meta = Meta::new((header.msg_hdr.msg_controllen > 0).then_some(meta), &[]);
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
            .field("slot_len", &self.slot_len())
            .finish_non_exhaustive()
    }
}

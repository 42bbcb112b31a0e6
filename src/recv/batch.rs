//! Owned memory for received messages, with its headers already in place.

use std::array;
use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::ptr;

use crate::ancillary::RecvMeta;
use crate::engine::progress::Progress;
use crate::recv::datagram::{Datagram, Message, Meta, Received, Segments};
use crate::recv::flags::RecvFlags;
use crate::recv::msg::RecvMsg;
use crate::recv::scattered::Parts;
use crate::sys::{
    Backend, BorrowedSocket, Direction, MAX_BATCH, OwnedSocket, RawAddr, Singles, Slots,
};

/// Payload memory for a batch and the headers to receive it, allocated once.
///
/// The fast path of a server: [`recv_into`](crate::BatchSocket::recv_into) prepares only the slots
/// that the last call used. Iteration yields datagrams; a coalesced message yields its segments.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(64, 1500);
/// socket.recv_into(&mut batch)?;
/// for datagram in &batch {
///     println!("{} bytes from {:?}", datagram.len(), datagram.addr());
/// }
/// # assert_eq!(batch.iter().next().unwrap().data(), b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A batch takes `slots * (slot_len + 824)` bytes of address space. Pages that no datagram has reached
/// take no memory.
///
/// Datagrams borrow the batch, so they end before the next receive:
///
/// ```compile_fail,E0502
/// # use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
/// let mut batch = RecvBatch::new(64, 1500);
/// let first = batch.iter().next();
/// socket.recv_into(&mut batch).unwrap();
/// println!("{first:?}");
/// ```
#[derive(Debug)]
pub struct RecvBatch {
    slots: Slots,
    count: usize,
    len: usize,
    /// Messages from an implementation of `BatchSocket` other than the kernel's; empty otherwise.
    filled: Vec<Filled>,
    /// System calls that the last receive made.
    calls: usize,
}

/// A message from a stand-in for a socket.
#[derive(Debug)]
struct Filled {
    /// The slot that holds its bytes; `None` if the implementation put them into other memory.
    slot: Option<usize>,
    received: Received,
    source: RawAddr,
    meta: RecvMeta,
}

/// 64 slots for coalesced messages: [`RecvBatch::for_gro`].
impl Default for RecvBatch {
    fn default() -> Self {
        Self::for_gro(64)
    }
}

impl RecvBatch {
    /// Memory for `slots` messages of up to `slot_len` bytes each.
    ///
    /// A longer datagram is truncated and marked so. 65,535 bytes hold any datagram and any coalesced
    /// message. More than 1,024 slots take several system calls.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Self::try_new) returns an error.
    #[must_use]
    pub fn new(slots: usize, slot_len: usize) -> Self {
        match Self::try_new(slots, slot_len) {
            Ok(batch) => batch,
            Err(error) => panic!("RecvBatch::new({slots}, {slot_len}): {error}"),
        }
    }

    /// Memory for `slots` messages of 65,535 bytes each: enough for any datagram, and for any message
    /// that the kernel coalesces with GRO on.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn for_gro(slots: usize) -> Self {
        Self::new(slots, 65_535)
    }

    /// Memory for `slots` messages of up to `slot_len` bytes each, or an error.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if either is 0, or if the total exceeds `isize::MAX` bytes. `OutOfMemory` if
    /// the allocation fails.
    pub fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        // The headers of a slot take less than 4 KiB on every platform.
        let bytes = slot_len.checked_add(4096).and_then(|len| len.checked_mul(slots));
        let fits = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
        if slots == 0 || slot_len == 0 || !fits {
            let reason = format!(
                "slots is {slots} and slot_len {slot_len}: both are at least 1, and together less than the address space"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        Ok(Self {
            slots: Slots::try_new(slots, slot_len)?,
            count: slots,
            len: 0,
            filled: Vec::new(),
            calls: 0,
        })
    }

    /// The most messages that one receive can return.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.count
    }

    /// Messages of the last receive; a coalesced message counts once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the last receive returned no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The messages of the last receive, in the order in which they were received.
    #[must_use]
    pub fn messages(&self) -> Messages<'_> {
        Messages { batch: self, next: 0 }
    }

    /// The datagrams of the last receive, in the order in which they were received.
    ///
    /// Every loss shows: a [`truncated`](Datagram::truncated) datagram, possibly empty, stands where
    /// bytes are missing (see [`Datagrams`](crate::Datagrams)).
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        let singles = if self.filled.is_empty() { self.slots.singles(self.len) } else { None };
        Iter { batch: self, singles, next: 0, segments: None }
    }

    /// Sets whether the batch holds received descriptors (`SCM_RIGHTS`, on Unix sockets) for
    /// [`take_fds`](Self::take_fds). By default a receive closes them.
    ///
    /// The descriptors of all messages of a batch are open at once, so a peer can exhaust the
    /// process's limit of descriptors for a moment. The kernel drops descriptors beyond the limit, and
    /// the message is [`control_truncated`](Message::control_truncated). Descriptors of `SCM_PIDFD`
    /// are always closed.
    pub fn accept_fds(&mut self, on: bool) {
        self.slots.accept_fds(on);
    }

    /// Takes the descriptors received with message `index` of [`messages`](Self::messages), in
    /// order. A second call for the same message yields none. Needs
    /// [`accept_fds`](Self::accept_fds). The next receive closes descriptors that were not taken.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::{BatchSocket, ControlBuf, RecvBatch, SendMsg};
    /// use std::os::{fd::AsFd, unix::net::UnixDatagram};
    ///
    /// let (near, far) = UnixDatagram::pair()?;
    /// let file = std::fs::File::open("/dev/null")?;
    /// let mut control = ControlBuf::new();
    /// control.push_fds(&[file.as_fd()])?;
    /// near.send_batch(&[SendMsg::new(b"a file").with_control(&control)])?;
    ///
    /// let mut batch = RecvBatch::new(8, 1500);
    /// batch.accept_fds(true);
    /// far.recv_into(&mut batch)?;
    /// for i in 0..batch.len() {
    ///     let files: Vec<_> = batch.take_fds(i).map(std::fs::File::from).collect();
    ///     # assert_eq!(files.len(), 1);
    /// }
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn take_fds(&mut self, index: usize) -> impl Iterator<Item = OwnedSocket> {
        self.slots.take_fds(index)
    }

    /// Forgets the messages, and closes their descriptors that were not taken.
    pub fn clear(&mut self) {
        self.len = 0;
        self.filled.clear();
        self.slots.close_fds();
    }

    /// The message in slot `i`, if it has one.
    #[inline]
    fn message(&self, i: usize) -> Option<Message<'_>> {
        (i < self.len).then(|| match self.filled.get(i) {
            None => self.slots.message(i),
            Some(Filled { slot, received, source, meta }) => {
                let data = slot.map_or(&[][..], |slot| self.slots.payload(slot, received.reported));
                Message::new(Parts::one(data), source.lend(), *received, Meta::new(Some(meta), &[]))
            }
        })
    }

    /// The first datagram in the slots from `next` on, the slot after it, and the remaining segments
    /// of its message.
    ///
    /// Passes the position by value, so that the caller's iterator stays in registers.
    #[inline(never)]
    fn any_datagram(&self, mut next: usize) -> Option<(Datagram<'_>, usize, Segments<'_>)> {
        loop {
            let mut datagrams = self.message(next)?.datagrams();
            next += 1;
            if let Some(datagram) = datagrams.next() {
                return Some((datagram, next, Segments::rest_of(&datagrams)));
            }
        }
    }

    /// Capacity of a slot in bytes.
    pub(crate) fn slot_len(&self) -> usize {
        self.slots.slot_len()
    }

    /// System calls that the last receive made.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// What the last receive reported about each message, and the bytes of it in its slot.
    pub(crate) fn received(&self) -> impl Iterator<Item = (Received, usize)> {
        (0..self.len).map(|i| self.slots.received_in(i))
    }

    #[inline]
    pub(crate) fn recv_on(
        &mut self,
        socket: BorrowedSocket<'_>,
        flags: RecvFlags,
    ) -> io::Result<usize> {
        self.clear();
        self.calls = 0;
        let most = flags.most(self.count);
        let mut progress = Progress::begin(socket, Direction::Receive, most)?;
        while progress.goes_on() {
            let range = progress.count..most.min(progress.count + MAX_BATCH);
            let (offered, flags) = (range.len(), progress.flags(flags));
            let step = self.slots.recv(Backend::current(), socket, range, flags);
            let added = progress.add(offered, step);
            self.calls = progress.calls;
            added?;
        }
        self.len = progress.count;
        Ok(self.len)
    }

    /// Fills the first slots by a receive into borrowed messages.
    pub(crate) fn recv_by(
        &mut self,
        recv: impl FnOnce(&mut [RecvMsg<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        const MOST: usize = 32;
        self.clear();
        let most = self.count.min(MOST);
        let accepts_fds = self.slots.accepts_fds();
        let mut fds: [Vec<OwnedSocket>; MOST] = array::from_fn(|_| Vec::new());
        let mut starts = [ptr::null(); MOST];
        let (mut buffers, mut each) = (self.slots.buffers(), fds.iter_mut());
        let mut msgs: [_; MOST] = array::from_fn(|i| {
            let buffer = buffers.next().unwrap_or_default();
            starts[i] = buffer.as_ptr();
            let msg = RecvMsg::new(buffer);
            match each.next().filter(|_| accepts_fds) {
                Some(fds) => msg.with_fds(fds),
                None => msg,
            }
        });
        let count = recv(&mut msgs[..most])?.min(most);
        let mut slots = [None; MOST];
        for (msg, slot) in msgs[..count].iter().zip(&mut slots) {
            // The implementation may have reordered the messages.
            *slot = starts[..most].iter().position(|start| *start == msg.start());
            let (mut received, source, meta) = msg.known();
            received.truncation.data |= slot.is_none();
            self.filled.push(Filled { slot: *slot, received, source, meta });
        }
        drop((buffers, msgs));
        for (i, slot) in slots[..count].iter().enumerate() {
            let fds = slot.map(|slot| &mut fds[slot]);
            self.slots.add_fds(i, fds.into_iter().flat_map(|fds| fds.drain(..)));
        }
        self.len = count;
        Ok(count)
    }
}

impl<'a> IntoIterator for &'a RecvBatch {
    type Item = Datagram<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterates over the messages in a [`RecvBatch`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    batch: &'a RecvBatch,
    next: usize,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let message = self.batch.message(self.next);
        self.next += usize::from(message.is_some());
        message
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.batch.len - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Messages<'_> {}
impl FusedIterator for Messages<'_> {}

/// Iterates over the datagrams in a [`RecvBatch`], one segment of a coalesced message at a time.
#[derive(Clone)]
pub struct Iter<'a> {
    batch: &'a RecvBatch,
    /// Set if every message is a single whole datagram; the other fields are unused then.
    singles: Option<Singles<'a>>,
    next: usize,
    /// Remaining segments of the message in the slot before `next`.
    segments: Option<Segments<'a>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Datagram<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Datagram<'a>> {
        // Loop-invariant: the compiler unswitches the loop.
        if let Some(singles) = &mut self.singles {
            return singles.next();
        }
        if let Some(datagram) = self.segments.as_mut().and_then(Segments::next) {
            return Some(datagram);
        }
        let (datagram, next, segments) = self.batch.any_datagram(self.next)?;
        (self.next, self.segments) = (next, Some(segments));
        Some(datagram)
    }
}

impl FusedIterator for Iter<'_> {}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, next, segments, .. } = self;
        f.debug_struct("Iter")
            .field("batch", batch)
            .field("next", next)
            .field("segments", &segments.as_ref().map_or(0, Segments::len))
            .finish_non_exhaustive()
    }
}

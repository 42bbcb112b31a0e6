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

/// Payload memory for a batch and the headers to receive it by, allocated once.
///
/// The fast path of a server: [`recv_into`](crate::BatchSocket::recv_into) prepares again only
/// the slots that the last call used, however many are offered. Iterating gives the datagrams,
/// trains split into theirs.
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
/// It takes `slots * (slot_len + 824)` bytes of address space, of which pages that no datagram
/// ever reached take no memory.
///
/// What it lends is lent until the next receive:
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
    /// What an implementation of the trait received; empty where the kernel filled the slots.
    filled: Vec<Filled>,
    /// System calls that the last receive made.
    calls: usize,
}

/// A message that was not received by the kernel.
#[derive(Debug)]
struct Filled {
    /// Where its bytes are; `None` if the implementation put them into other memory.
    slot: Option<usize>,
    received: Received,
    source: RawAddr,
    meta: RecvMeta,
}

/// 64 slots for trains, as [`RecvBatch::for_gro`] makes them.
impl Default for RecvBatch {
    fn default() -> Self {
        Self::for_gro(64)
    }
}

impl RecvBatch {
    /// Memory for `slots` messages of up to `slot_len` bytes each.
    ///
    /// A longer datagram is cut and marked so. 65,535 bytes hold any datagram and any train.
    /// More than 1,024 slots are filled by several system calls.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) gives an error.
    #[must_use]
    pub fn new(slots: usize, slot_len: usize) -> Self {
        match Self::try_new(slots, slot_len) {
            Ok(batch) => batch,
            Err(error) => panic!("RecvBatch::new({slots}, {slot_len}): {error}"),
        }
    }

    /// Memory for `slots` messages of 65,535 bytes each: any datagram, and any train that the
    /// kernel may hand over where GRO is on.
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
    /// `InvalidInput` if either is 0, or if all of it would be more than `isize::MAX` bytes.
    /// `OutOfMemory` if the system does not have as much.
    pub fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        // Generous: what the headers of a slot take is less than 4 KiB on every platform.
        let bytes = slot_len.checked_add(4096).and_then(|len| len.checked_mul(slots));
        let fits = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
        if slots == 0 || slot_len == 0 || !fits {
            let reason = "a batch needs at least one slot of at least one byte, and no more than fit the address space";
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

    /// Messages that one receive can bring.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.count
    }

    /// Messages that the last receive brought; a train is one message.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the last receive brought no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The messages of the last receive, in the order of their received.
    #[must_use]
    pub fn messages(&self) -> Messages<'_> {
        Messages { batch: self, next: 0 }
    }

    /// The datagrams of the last receive, in the order of their received.
    ///
    /// Every loss shows: where bytes are missing there is a datagram that is
    /// [`truncated`](Datagram::truncated), which may be empty (see [`Datagrams`](crate::Datagrams)).
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        let singles = if self.filled.is_empty() { self.slots.singles(self.len) } else { None };
        Iter { batch: self, singles, next: 0, train: None }
    }

    /// Whether descriptors that come with messages (`SCM_RIGHTS`, on Unix sockets) are kept for
    /// [`take_fds`](Self::take_fds). They are closed on received otherwise, as at first.
    ///
    /// Until then, those of all messages of a batch are open at once, so a peer can make a receive
    /// meet the process's limit of descriptors for a moment: those beyond it do not come, and the
    /// message is [`control_truncated`](Message::control_truncated). Descriptors of `SCM_PIDFD`
    /// are always closed.
    pub fn accept_fds(&mut self, on: bool) {
        self.slots.accept_fds(on);
    }

    /// Takes the descriptors that came with message `index` of [`messages`](Self::messages), in
    /// order; the second time there are none left. Needs [`accept_fds`](Self::accept_fds). The next
    /// receive closes those that are not taken.
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

    /// Forgets the messages, and closes descriptors that came with them and were not taken.
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

    /// The first datagram in the slots from `next` on; with the slot that comes after it, and what
    /// is left of the train that it begins.
    ///
    /// Takes and gives the position by value: an iterator that is lent to a function lives in
    /// memory, not in registers.
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

    /// Bytes that a slot holds.
    pub(crate) fn slot_len(&self) -> usize {
        self.slots.slot_len()
    }

    /// System calls that the last receive made.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// What the last receive brought, and how many bytes of each are in its slot.
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

    /// Fills the first slots by a receive of borrowed messages.
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
            // Whoever received may have put the messages in another order.
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

/// Goes through the messages in a [`RecvBatch`].
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

/// Goes through the datagrams in a [`RecvBatch`], those of trains one by one.
#[derive(Clone)]
pub struct Iter<'a> {
    batch: &'a RecvBatch,
    /// All that came, if it is nothing but single datagrams; the other fields are not used then.
    singles: Option<Singles<'a>>,
    next: usize,
    /// What is left of the train in the slot before.
    train: Option<Segments<'a>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Datagram<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Datagram<'a>> {
        // The same answer at every step: of a loop over this, the compiler makes two.
        if let Some(singles) = &mut self.singles {
            return singles.next();
        }
        if let Some(datagram) = self.train.as_mut().and_then(Segments::next) {
            return Some(datagram);
        }
        let (datagram, next, train) = self.batch.any_datagram(self.next)?;
        (self.next, self.train) = (next, Some(train));
        Some(datagram)
    }
}

impl FusedIterator for Iter<'_> {}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, next, train, .. } = self;
        f.debug_struct("Iter")
            .field("batch", batch)
            .field("next", next)
            .field("train", &train.as_ref().map_or(0, Segments::len))
            .finish_non_exhaustive()
    }
}

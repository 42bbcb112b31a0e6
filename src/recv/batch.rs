//! Owned memory for received messages, with its headers already in place.

use std::array;
use std::fmt;
use std::io;
use std::iter::{FusedIterator, Zip};
use std::ops::Range;
use std::ptr;
use std::slice;

use crate::ancillary::RecvMeta;
use crate::engine::progress::Progress;
use crate::recv::datagram::{Datagram, Message, Meta, Received, Segments};
use crate::recv::in_place::{DatagramMut, DatagramsMut, MessageMut};
use crate::recv::msg::RecvMsg;
use crate::recv::scattered::Parts;
use crate::sys::{
    Backend, BorrowedSocket, Direction, MAX_BATCH, OwnedSocket, RecvFlags, RecvResult, Row,
    SlotIter, SlotIterMut, Slots, UnixAddrBuf,
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
/// A batch takes `slots * (slot_len + 904)` bytes of address space. Pages that no datagram has reached
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
#[doc(alias("mmsghdr", "recvmmsg"))]
#[derive(Debug)]
pub struct RecvBatch {
    slots: Slots,
    count: usize,
    /// Messages of the last receive.
    len: usize,
    /// What the control data of each slot means; set where there is any.
    metas: Vec<RecvMeta>,
    /// Whether all messages are whole, and a datagram each.
    singles: bool,
    /// Whether the messages come from an implementation of `BatchSocket` other than the kernel's: there
    /// is no control data, and all of `metas` is set.
    filled: bool,
    /// System calls that the last receive made.
    calls: usize,
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
    #[doc(alias = "UDP_GRO")]
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
        let mut metas = Vec::new();
        metas.try_reserve_exact(slots).map_err(|_| io::ErrorKind::OutOfMemory)?;
        metas.resize(slots, RecvMeta::NONE);
        let (count, slots) = (slots, Slots::try_new(slots, slot_len)?);
        Ok(Self { slots, count, len: 0, metas, singles: true, filled: false, calls: 0 })
    }

    /// The most messages that one receive can return.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.count
    }

    /// Messages of the last receive: what it returned, and as many as [`messages`](Self::messages)
    /// yields. A coalesced message counts once; [`datagram_count`](Self::datagram_count) counts its
    /// segments.
    #[must_use]
    #[doc(alias = "len")]
    pub fn message_count(&self) -> usize {
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

    /// Message `index` of [`messages`](Self::messages).
    #[must_use]
    #[inline]
    pub fn message(&self, index: usize) -> Option<Message<'_>> {
        (index < self.len).then(|| {
            let (payload, row) = self.slots.slot(index);
            let (received, meta) = describe(row, &self.metas[index], self.filled);
            let data = Parts::one(&payload[..payload.len().min(received.reported)]);
            Message::new(data, row.source(), received, meta)
        })
    }

    /// The messages of the last receive, whose bytes may be changed in place.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// socket.recv_into(&mut batch)?;
    /// batch.messages_mut().for_each(|mut message| message.data_mut().make_ascii_uppercase());
    /// assert_eq!(batch.message(0).map(|message| message.data()), Some(&b"HELLO"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn messages_mut(&mut self) -> MessagesMut<'_> {
        let slots = self.slots.iter_mut(self.len).zip(&self.metas);
        MessagesMut { slots, filled: self.filled }
    }

    /// Datagrams of the last receive: as many as [`iter`](Self::iter) yields. Each segment of a coalesced
    /// message counts.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg};
    /// # let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = receiver.local_addr()?;
    /// # let sender = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let receiver = Offload::new(receiver)?;
    /// # sender.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
    /// let mut batch = RecvBatch::for_gro(16);
    /// let messages = receiver.recv_into(&mut batch)?;
    /// assert_eq!(batch.message_count(), messages);
    /// assert_eq!(batch.datagram_count(), batch.iter().count());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn datagram_count(&self) -> usize {
        if self.singles { self.len } else { self.messages().map(|m| m.datagrams().len()).sum() }
    }

    /// Whether any message of the last receive is [`truncated`](Message::truncated), so that bytes were
    /// lost: the slots are too short.
    #[must_use]
    #[doc(alias = "MSG_TRUNC")]
    pub fn truncated(&self) -> bool {
        !self.singles && self.messages().any(|message| message.truncated())
    }

    /// The datagrams of the last receive, in the order in which they were received.
    ///
    /// Every loss shows: a [`truncated`](Datagram::truncated) datagram, possibly empty, stands where
    /// bytes are missing (see [`Datagrams`](crate::iter::Datagrams)).
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        let singles = self.singles && !self.filled;
        let singles = singles.then(|| self.slots.iter(self.len).zip(&self.metas));
        Iter { batch: self, singles, next: 0, segments: None }
    }

    /// The datagrams of the last receive, whose bytes may be changed in place: to decrypt them, or to
    /// rewrite their headers. Otherwise as [`iter`](Self::iter).
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch, SendMsg, SendQueue};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let (out, inside) = (&socket, socket.local_addr()?);
    /// # socket.send_to(b"\x2a\x43\x43", inside)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// let mut queue = SendQueue::new(1 << 20);
    /// socket.recv_into(&mut batch)?;
    /// for mut datagram in batch.iter_mut().filter(|datagram| !datagram.truncated()) {
    ///     datagram.data_mut().iter_mut().for_each(|byte| *byte ^= 0x2a); // Decrypts it.
    ///     if queue.push(&SendMsg::to(inside, datagram.data())).is_err() {
    ///         break; // The queue is full.
    ///     }
    /// }
    /// out.flush(&mut queue)?;
    /// # assert_eq!(socket.recv(&mut [0; 8])?, 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut { messages: self.messages_mut(), datagrams: None }
    }

    /// Sets whether the batch holds received descriptors (`SCM_RIGHTS`, on Unix sockets) for
    /// [`take_fds`](Self::take_fds). By default a receive closes them.
    ///
    /// The descriptors of all messages of a batch are open at once, so a peer can exhaust the
    /// process's limit of descriptors for a moment. The kernel drops descriptors beyond the limit, and
    /// the message is [`control_truncated`](Message::control_truncated). Descriptors of `SCM_PIDFD`
    /// are always closed.
    #[doc(alias = "SCM_RIGHTS")]
    pub fn accept_fds(&mut self, on: bool) {
        self.slots.accept_fds(on);
    }

    /// Takes the descriptors received with message `index` of [`messages`](Self::messages), in
    /// order. A second call for the same message yields none. Needs
    /// [`accept_fds`](Self::accept_fds). The next receive closes descriptors that were not taken.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::control::ControlBuf;
    /// use mmsg::{BatchSocket, RecvBatch, SendMsg};
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
    /// for i in 0..batch.message_count() {
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
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        (self.singles, self.filled) = (true, false);
        self.slots.close_fds();
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
        (0..self.len).map(|i| {
            let (payload, row) = self.slots.slot(i);
            let (received, _) = describe(row, &self.metas[i], self.filled);
            (received, payload.len().min(received.reported))
        })
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
            let step = self.slots.recv(Backend::current(), socket, range.clone(), flags);
            self.read_back(range.start..range.start + step.count);
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
        let mut sources: [UnixAddrBuf; MOST] = array::from_fn(|_| UnixAddrBuf::new());
        let mut starts = [ptr::null(); MOST];
        let mut each = self.slots.buffers().zip(&mut fds).zip(&mut sources).enumerate();
        let mut msgs: [_; MOST] = array::from_fn(|_| {
            let Some((i, ((buffer, fds), source))) = each.next() else {
                return RecvMsg::new(&mut []);
            };
            starts[i] = buffer.as_ptr();
            let msg = RecvMsg::new(buffer).with_unix_addr(source);
            if accepts_fds { msg.with_fds(fds) } else { msg }
        });
        let count = recv(&mut msgs[..most])?.min(most);
        // The implementation may have reordered the messages, or exchanged their memory.
        let slot_of = |msg: &RecvMsg<'_>| starts[..most].iter().position(|at| *at == msg.start());
        let known = array::from_fn(|i| (slot_of(&msgs[i]), msgs[i].known()));
        drop((each, msgs));
        self.fill(count, known, &sources, &mut fds);
        self.len = count;
        Ok(count)
    }

    /// Takes over messages that were received elsewhere: each with the slot that has its payload, if one
    /// has. Sources and descriptors are those of the slots.
    fn fill<const N: usize>(
        &mut self,
        count: usize,
        known: [(Option<usize>, (RecvResult, RecvMeta)); N],
        sources: &[UnixAddrBuf; N],
        fds: &mut [Vec<OwnedSocket>; N],
    ) {
        const NO_SOURCE: UnixAddrBuf = UnixAddrBuf::new();
        // Where the payload is that was received into each slot.
        let mut payload_of: [usize; N] = array::from_fn(|slot| slot);
        for (i, (slot, (mut result, meta))) in known.into_iter().take(count).enumerate() {
            match slot {
                Some(slot) => {
                    let at = payload_of[slot];
                    self.slots.swap_payload(i, at);
                    // What was in slot `i` is now where this message's payload was.
                    if let Some(other) = payload_of.iter().position(|at| *at == i) {
                        payload_of[other] = at;
                    }
                    payload_of[slot] = i;
                }
                None => (result.len, result.truncated) = (0, true),
            }
            self.slots.fill(i, result, slot.map_or(&NO_SOURCE, |slot| &sources[slot]));
            self.metas[i] = meta;
            let fds = slot.map(|slot| &mut fds[slot]);
            self.slots.add_fds(i, fds.into_iter().flat_map(|fds| fds.drain(..)));
        }
        (self.filled, self.singles) = (true, false);
    }

    /// Decodes the control data in the slots of `range`, which a receive has filled.
    #[inline]
    fn read_back(&mut self, range: Range<usize>) {
        let mut singles = self.singles;
        for (i, result) in range.clone().zip(self.slots.results(range)) {
            singles &= !(result.truncated | result.control_truncated);
            if result.control_len > 0 {
                let (_, row) = self.slots.slot(i);
                self.metas[i] = RecvMeta::decode(row.control());
                singles &= self.metas[i].segment_size.is_none();
            }
        }
        self.singles = singles;
    }
}

/// What is known of the message in a slot, whose metadata is in `meta` if it has any.
#[inline]
fn describe<'a>(row: Row<'a>, meta: &'a RecvMeta, filled: bool) -> (Received, Meta<'a>) {
    let result = row.result();
    let meta = (filled || result.control_len > 0).then_some(meta);
    let received = Received::new(&result, meta, || row.source().get().is_some());
    (received, Meta::new(meta, row.control()))
}

impl<'a> IntoIterator for &'a RecvBatch {
    type Item = Datagram<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut RecvBatch {
    type Item = DatagramMut<'a>;
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}

/// Iterates over the messages in a [`RecvBatch`].
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// let bytes: usize = batch.messages().map(|message| message.len()).sum();
/// assert_eq!(bytes, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
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
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// let whole = batch.iter().filter(|d| !d.truncated()).count();
/// assert_eq!(whole, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Iter<'a> {
    batch: &'a RecvBatch,
    /// Set if every message is a single whole datagram; the other fields are unused then.
    singles: Option<Zip<SlotIter<'a>, slice::Iter<'a, RecvMeta>>>,
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
            let ((payload, row), meta) = singles.next()?;
            let result = row.result();
            let data = &payload[..payload.len().min(result.len)];
            // Sockets without metadata pay for one comparison.
            let meta = Meta::new((result.control_len > 0).then_some(meta), &[]);
            return Some(Datagram::whole(data, row.source(), meta));
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

/// Iterates over the messages in a [`RecvBatch`], whose bytes may be changed in place.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// batch.messages_mut().for_each(|mut message| message.data_mut().fill(0));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct MessagesMut<'a> {
    slots: Zip<SlotIterMut<'a>, slice::Iter<'a, RecvMeta>>,
    filled: bool,
}

impl<'a> Iterator for MessagesMut<'a> {
    type Item = MessageMut<'a>;

    #[inline]
    fn next(&mut self) -> Option<MessageMut<'a>> {
        let ((payload, row), meta) = self.slots.next()?;
        let (received, meta) = describe(row, meta, self.filled);
        let len = payload.len().min(received.reported);
        Some(MessageMut::new(&mut payload[..len], row.source(), received, meta))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for MessagesMut<'_> {}
impl FusedIterator for MessagesMut<'_> {}

impl fmt::Debug for MessagesMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessagesMut").field("left", &self.slots.size_hint().0).finish()
    }
}

/// Iterates over the datagrams in a [`RecvBatch`], whose bytes may be changed in place.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// batch.iter_mut().for_each(|mut d| d.data_mut().fill(0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct IterMut<'a> {
    messages: MessagesMut<'a>,
    /// Remaining datagrams of the message before.
    datagrams: Option<DatagramsMut<'a>>,
}

impl<'a> Iterator for IterMut<'a> {
    type Item = DatagramMut<'a>;

    #[inline]
    fn next(&mut self) -> Option<DatagramMut<'a>> {
        loop {
            if let Some(datagram) = self.datagrams.as_mut().and_then(Iterator::next) {
                return Some(datagram);
            }
            self.datagrams = Some(self.messages.next()?.into_datagrams_mut());
        }
    }
}

impl FusedIterator for IterMut<'_> {}

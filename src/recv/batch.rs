//! Owned memory for received messages, with its headers already in place.

use std::array;
use std::io;
use std::iter::FusedIterator;
use std::net::SocketAddr;

use crate::ancillary::RecvMeta;
use crate::recv::datagram::{Datagram, DatagramMut, Origin};
use crate::recv::message::{Datagrams, DatagramsMut, Message};
use crate::recv::msg::RecvMsg;
use crate::sys::{
    self, BorrowedSocket, Flags, Name, RawAddr, Received, RecvResult, Slots, numbers::MAX_RECV,
};

/// Payload memory for a batch and the headers to receive it, allocated once.
///
/// For servers: [`recv_into`](crate::BatchSocket::recv_into) offers all slots, up to 1,024, to one system call, and
/// resets only the slots that the last call used. Iterating yields datagrams; a coalesced message yields its segments.
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
/// A batch reserves at most `slots * (slot_len + 1024)` bytes of address space, and a page. Memory that the allocator has just
/// mapped, as for a large batch, is used page by page: about 80 bytes for each slot that a receive offers, and a slot's
/// payload once a datagram fills it. Memory that it uses again is cleared, and so touched, as a whole.
///
/// Datagrams borrow the batch, so none can be used after the next receive:
///
/// ```compile_fail,E0502
/// # use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
/// let mut batch = RecvBatch::new(64, 1500);
/// let first = batch.iter().next();
/// socket.recv_into(&mut batch).unwrap();
/// println!("{first:?}");
/// ```
#[doc(alias("mmsghdr", "recvmmsg", "MultiHeaders"))]
#[derive(Debug)]
pub struct RecvBatch {
    slots: Slots,
    /// Messages of the last receive.
    len: usize,
    /// Whether the last receive found, after its messages, that no more were there.
    drained: bool,
    /// The metadata of each message, if it has any. As many as the largest receive so far; all slots' fit its capacity.
    metas: Vec<Option<RecvMeta>>,
}

impl RecvBatch {
    /// Memory for `slots` messages of up to `slot_len` bytes each.
    ///
    /// A longer datagram is truncated and marked so. 65,535 bytes hold any datagram and any coalesced
    /// message. A receive fills at most 1,024 slots.
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
    /// ```
    /// use mmsg::{BatchSocket, Offload, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let socket = Offload::new(socket)?;
    /// let mut batch = RecvBatch::for_gro(32);
    /// socket.recv_into(&mut batch)?;
    /// assert!(!batch.truncated());
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
    /// ```
    /// use mmsg::RecvBatch;
    /// let error = RecvBatch::try_new(64, usize::MAX).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` if either is 0, or if the total exceeds `isize::MAX` bytes. `OutOfMemory` if
    /// the allocation fails.
    pub fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        // On every platform, a slot takes less than 4 KiB beside its payload, and aligning to a page less than another
        // 4 KiB.
        let bytes = slot_len.checked_add(4096).and_then(|len| len.checked_mul(slots.max(2)));
        let fits = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
        if slots == 0 || slot_len == 0 || !fits {
            let reason = format!(
                "{slots} slots of {slot_len} bytes: both must be at least 1, and all slots must fit the address space"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let mut metas = Vec::new();
        metas.try_reserve_exact(slots).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { slots: Slots::try_new(slots, slot_len)?, len: 0, drained: false, metas })
    }

    /// The number of slots: how many messages fit.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Capacity of a slot in bytes.
    pub(crate) fn slot_len(&self) -> usize {
        self.slots.slot_len()
    }

    /// The number of messages of the last receive, as it returned. A coalesced message counts once;
    /// [`datagram_count`](Self::datagram_count) counts its segments. There is no `len`, which could mean either.
    #[must_use]
    #[doc(alias = "len")]
    pub fn message_count(&self) -> usize {
        self.len
    }

    /// The number of datagrams of the last receive, as [`iter`](Self::iter) yields them. Each segment of a coalesced
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
        // Only a message with metadata can be coalesced.
        let count = |i: usize| self.metas[i].as_ref().map_or(1, |_| self.get(i).datagrams().len());
        (0..self.len).map(count).sum()
    }

    /// Whether the last receive returned no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the last receive took all that was there. An edge-triggered loop can then wait for the next event, and saves the
    /// receive that would fail with `WouldBlock`.
    ///
    /// False where this is unknown: after an error, a shutdown or [`push`](Self::push), if all slots are full, on Windows, and
    /// on FreeBSD and OpenBSD with [`Backend::Mmsg`](crate::Backend::Mmsg).
    ///
    /// On a connected socket, or with [`ERRORS`](crate::Ancillary::ERRORS), an ICMP error that arrives during a call may end it
    /// early. Linux hides that: the batch counts as drained, although datagrams may wait. The kernel keeps the error for the
    /// next call and reports the socket ready again, so an edge-triggered loop misses nothing. A loop that does not wait for
    /// readiness receives until `WouldBlock`.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch};
    /// use std::{io::ErrorKind::WouldBlock, thread, time::Duration};
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_nonblocking(true)?;
    /// # client.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// loop {
    ///     match socket.recv_into(&mut batch) {
    ///         Ok(_) => batch.iter().for_each(|datagram| println!("{} bytes", datagram.len())),
    ///         Err(error) if error.kind() == WouldBlock => break,
    ///         Err(error) => {
    ///             eprintln!("receive: {error}");
    ///             thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
    ///         }
    ///     }
    ///     if batch.drained() {
    ///         break;
    ///     }
    /// }
    /// // Wait for the next event.
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("EPOLLET", "edge-triggered"))]
    #[must_use]
    pub fn drained(&self) -> bool {
        self.drained
    }

    /// Whether any message of the last receive is [`truncated`](Message::truncated), so that bytes were lost. The slots
    /// are then too short.
    #[must_use]
    #[doc(alias = "MSG_TRUNC")]
    pub fn truncated(&self) -> bool {
        self.messages().any(|message| message.truncated())
    }

    /// The messages of the last receive, in the order in which they were received.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(16, 1500);
    /// let count = socket.recv_into(&mut batch)?;
    /// assert_eq!((count, batch.message_count()), (batch.messages().len(), count));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Message<'_>> {
        (0..self.len).map(|i| self.get(i))
    }

    /// Message `index` of [`messages`](Self::messages).
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(16, 1500);
    /// let count = socket.recv_into(&mut batch)?;
    /// assert_eq!(batch.message(0).map(|message| message.data()), Some(&b"hello"[..]));
    /// assert!(batch.message(count).is_none());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn message(&self, index: usize) -> Option<Message<'_>> {
        (index < self.len).then(|| self.get(index))
    }

    /// Message `i`, which must be less than `len`.
    #[inline]
    pub(super) fn get(&self, i: usize) -> Message<'_> {
        let (headers, payload) = (self.slots.headers(), self.slots.payload(i));
        let result = headers.result(i);
        let (source, control) = (headers.source(i, &result), headers.control(i, &result));
        let meta = self.metas[i].as_ref().unwrap_or(&RecvMeta::NONE);
        Message::new(payload, &result, Origin { source, meta }, control)
    }

    /// The datagrams of the last receive, in the order in which they were received.
    ///
    /// Where bytes are missing, a [`truncated`](Datagram::truncated) datagram, possibly empty, shows it (see
    /// [`Datagrams`]).
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter { batch: self, next: 0, datagrams: Datagrams::NONE }
    }

    /// The datagrams of the last receive, mutable: to decrypt them or rewrite their headers in place. Otherwise like
    /// [`iter`](Self::iter). To send them on by an iterator, make each one
    /// [immutable](crate::DatagramMut::into_datagram): rustc rejects `datagram.reply(datagram.data())` with E0515.
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
    pub fn iter_mut(&mut self) -> impl Iterator<Item = DatagramMut<'_>> {
        let (slot_len, len, metas) = (self.slot_len(), self.len, &self.metas);
        let (slots, headers) = self.slots.iter_mut();
        let messages = slots.take(len).zip(metas).enumerate().map(move |(i, (slot, meta))| {
            let (result, meta) = (headers.result(i), meta.as_ref().unwrap_or(&RecvMeta::NONE));
            let origin = Origin { source: headers.source(i, &result), meta };
            DatagramsMut::new(&mut slot[..slot_len], &result, origin)
        });
        messages.flatten()
    }

    /// Forgets the messages.
    #[inline]
    pub fn clear(&mut self) {
        (self.len, self.drained) = (0, false);
    }

    /// Adds a message as if it had been received, for implementations of [`BatchSocket`](crate::BatchSocket) without a
    /// kernel socket. Returns false if the batch is full.
    ///
    /// A message longer than a slot is [`truncated`](Message::truncated). To begin a new batch, call
    /// [`clear`](Self::clear).
    ///
    /// ```
    /// use mmsg::{RecvBatch, RecvMeta};
    /// let mut batch = RecvBatch::new(1, 4);
    /// assert!(batch.push("[::1]:53".parse().ok(), b"hello", RecvMeta::default()));
    /// assert!(!batch.push(None, b"", RecvMeta::default()));
    /// let message = batch.message(0).expect("one was pushed");
    /// assert_eq!((message.data(), message.truncated()), (&b"hell"[..], true));
    /// ```
    #[must_use = "a full batch takes no message"]
    pub fn push(&mut self, source: Option<SocketAddr>, data: &[u8], meta: RecvMeta) -> bool {
        if self.len == self.slots() {
            return false;
        }
        let slot = self.slots.payload_mut(self.len);
        let copied = data.len().min(slot.len());
        slot[..copied].copy_from_slice(&data[..copied]);
        let mut name = RawAddr::NO_NAME;
        let source_len = source.map_or(0, |source| sys::encode_addr(&source, &mut name));
        self.add(RecvResult::of(data.len(), copied, source_len), &name, meta);
        true
    }

    /// Adds a message whose payload is in the next slot.
    fn add(&mut self, result: RecvResult, source: &Name, meta: RecvMeta) {
        self.slots.set_received(self.len, result, source);
        self.metas.truncate(self.len);
        self.metas.push(Some(meta));
        self.len += 1;
        self.drained = false;
    }

    /// Fills the next slots by a receive into messages that borrow them, for sockets other than the kernel's.
    pub(crate) fn recv_by(
        &mut self,
        recv: impl FnOnce(&mut [RecvMsg<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        /// Slots offered at once: few enough for the stack of a small thread.
        const MAX_OFFERED: usize = 16;
        self.drained = false;
        let (slots, slot_len) = ((self.slots() - self.len).min(MAX_OFFERED), self.slot_len());
        if slots == 0 {
            return Ok(0);
        }
        let mut memory = self.slots.iter_mut().0.skip(self.len).map(|slot| &mut slot[..slot_len]);
        let mut msgs: [_; MAX_OFFERED] =
            array::from_fn(|_| RecvMsg::new(memory.next().unwrap_or_default()));
        let count = recv(&mut msgs[..slots])?.min(slots);
        let known = msgs.map(|msg| msg.attributes());
        for (result, source, meta) in &known[..count] {
            self.add(*result, source, *meta);
        }
        Ok(count)
    }

    /// Receives into the free slots and decodes their control data. The count is that of the messages added.
    ///
    /// # Errors
    ///
    /// The error of the first message; the batch is then unchanged.
    #[inline]
    pub(crate) fn recv(&mut self, socket: BorrowedSocket<'_>, flags: Flags) -> io::Result<usize> {
        self.drained = false;
        let offered = (self.slots() - self.len).min(MAX_RECV);
        let prepared = self.slots.prepared(self.len, offered);
        let Received { count, drained } = sys::recv(socket, prepared, flags)?;
        self.metas.resize(self.metas.len().max(self.len + count), None);
        let headers = self.slots.headers();
        for i in self.len..self.len + count {
            RecvMeta::decode(headers.control(i, &headers.result(i)), &mut self.metas[i]);
        }
        self.len += count;
        self.drained = drained;
        Ok(count)
    }
}

impl Default for RecvBatch {
    /// No slots and no memory: a stand-in where no receive is meant, such as a disabled branch of `select!`. A receive into
    /// it returns 0.
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let mut batch = mmsg::RecvBatch::default();
    /// assert_eq!((batch.slots(), mmsg::BatchSocket::recv_into(&socket, &mut batch)?), (0, 0));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn default() -> Self {
        Self { slots: Slots::empty(), len: 0, drained: false, metas: Vec::new() }
    }
}

/// Iterates over the datagrams in a [`RecvBatch`], one segment of a coalesced message at a time.
///
/// ```
/// use mmsg::{RecvBatch, iter::Iter};
/// fn total(datagrams: Iter<'_>) -> usize {
///     datagrams.map(|datagram| datagram.len()).sum()
/// }
/// assert_eq!(total(RecvBatch::new(16, 1500).iter()), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    batch: &'a RecvBatch,
    /// The next message.
    next: usize,
    /// The rest of the current message.
    datagrams: Datagrams<'a>,
}

impl<'a> IntoIterator for &'a RecvBatch {
    type Item = Datagram<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Datagram<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Datagram<'a>> {
        loop {
            if let Some(datagram) = self.datagrams.next() {
                return Some(datagram);
            }
            if self.next == self.batch.message_count() {
                return None;
            }
            self.datagrams = self.batch.get(self.next).datagrams();
            self.next += 1;
        }
    }
}

impl FusedIterator for Iter<'_> {}

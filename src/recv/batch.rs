//! Owned memory for received messages, with its headers already in place.

mod contents;
pub(crate) mod iter;
mod offer;
mod stand_in;

use std::io;
use std::ops::Range;

use crate::ancillary::RecvMeta;
use crate::recv::datagram::Datagram;
use crate::recv::in_place::DatagramMut;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::recv::received::ReceivedTotals;
use crate::sys::{Backend, BorrowedSocket, CallResult, OwnedSocket, RecvFlags, Slots};
use contents::Contents;
use iter::{Iter, IterMut, Messages, MessagesMut};
use offer::Offer;

/// Payload memory for a batch and the headers to receive it, allocated once.
///
/// The fast path of a server: [`recv_into`](crate::BatchSocket::recv_into) prepares only the slots
/// that the last call used. Iteration yields datagrams; a coalesced message yields its segments.
///
/// A receive takes what waits, up to the number of slots. There is one exception, on blocking sockets without a read
/// timeout or with one of a second or more, from which a program receives in a loop: after 24 receives in a row that
/// returned one message each, three of four take one message and do not look for another, until several are found. That
/// saves 4 % of the time of a send and a receive. On a non-blocking socket, and with [`RecvFlags::DONT_WAIT`], a receive
/// takes all.
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
    contents: Contents,
    /// System calls that the last receive made.
    calls: usize,
    /// How many slots the next receive offers.
    offer: Offer,
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
        let slots = Slots::try_new(slots, slot_len)?;
        Ok(Self { contents: Contents::new(slots, metas), calls: 0, offer: Offer::default() })
    }

    /// The most messages that one receive can return.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.contents.metas.len()
    }

    /// Messages of the last receive: what that returned, and as many as [`messages`](Self::messages)
    /// yields. A coalesced message counts once; [`datagram_count`](Self::datagram_count) counts its
    /// segments.
    #[must_use]
    #[doc(alias = "len")]
    pub fn message_count(&self) -> usize {
        self.contents.len
    }

    /// Whether the last receive returned no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contents.len == 0
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
    #[must_use]
    pub fn messages(&self) -> Messages<'_> {
        Messages::new(&self.contents)
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
    #[inline]
    pub fn message(&self, index: usize) -> Option<Message<'_>> {
        self.contents.message(index)
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
        MessagesMut::new(&mut self.contents)
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
        if self.contents.are_singles() {
            self.contents.len
        } else {
            self.messages().map(|message| message.datagrams().len()).sum()
        }
    }

    /// Whether any message of the last receive is [`truncated`](Message::truncated), so that bytes were
    /// lost: the slots are too short.
    #[must_use]
    #[doc(alias = "MSG_TRUNC")]
    pub fn truncated(&self) -> bool {
        !self.contents.are_singles() && self.messages().any(|message| message.truncated())
    }

    /// The datagrams of the last receive, in the order in which they were received.
    ///
    /// Every loss shows: a [`truncated`](Datagram::truncated) datagram, possibly empty, stands where
    /// bytes are missing (see [`Datagrams`](crate::iter::Datagrams)).
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(&self.contents)
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
        IterMut::new(&mut self.contents)
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
        self.contents.slots.accept_fds(on);
    }

    /// Takes the descriptors received with message `index` of [`messages`](Self::messages), in
    /// order. A second call for the same message yields none. Needs
    /// [`accept_fds`](Self::accept_fds). The next receive closes descriptors that were not taken.
    /// They are std's `OwnedFd`s; the signature has the name for all platforms.
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
        self.contents.slots.take_fds(index)
    }

    /// Forgets the messages, and closes their descriptors that were not taken.
    #[inline]
    pub fn clear(&mut self) {
        self.contents.clear();
        self.calls = 0;
    }

    /// Capacity of a slot in bytes.
    pub(crate) fn slot_len(&self) -> usize {
        self.contents.slots.slot_len()
    }

    /// The most messages to ask for in the next receive, which fill the first slots. A peek fills one.
    #[inline]
    pub(crate) fn most(&self, socket: BorrowedSocket<'_>, flags: RecvFlags) -> usize {
        flags.most(self.offer.of(self.slots(), socket, flags))
    }

    /// System calls that the last receive made.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Fills the first slots by a receive into borrowed messages.
    pub(crate) fn recv_by(
        &mut self,
        recv: impl FnOnce(&mut [RecvMsg<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.contents.recv_by(recv)
    }

    /// What the last receive brought.
    pub(crate) fn totals(&self) -> &ReceivedTotals {
        &self.contents.totals
    }

    /// Receives into the slots of `range`, which begins after the messages that are there, by one call of the
    /// backend, and reads back what came.
    #[inline]
    pub(crate) fn recv_step(
        &mut self,
        socket: BorrowedSocket<'_>,
        range: Range<usize>,
        flags: RecvFlags,
    ) -> CallResult {
        let start = range.start;
        let result = self.contents.slots.recv(Backend::current(), socket, range, flags);
        self.contents.read_back(start..start + result.count);
        self.calls += result.calls;
        if !flags.contains(RecvFlags::PEEK) {
            self.offer.note(self.contents.len, socket);
        }
        result
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

impl<'a> IntoIterator for &'a mut RecvBatch {
    type Item = DatagramMut<'a>;
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}

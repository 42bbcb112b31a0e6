//! A queue of outgoing datagrams.

use std::borrow::Borrow;
use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::ops::Range;

use crate::ancillary::{ControlBuf, SendMeta, has_fds};
use crate::send::content::{InlineOptions, LentOptions, MsgOptions, SendBuffers};
use crate::send::msg::SendMsg;
use crate::send::outgoing::Outgoing;
use crate::sys::{self, DestRef, RawAddr, UnixAddr, UnixAddrBuf};

/// A bounded queue of outgoing datagrams that owns its payload.
///
/// It has two stages, as Okasaki's queue has: pushes go to the back stage, a
/// [`flush`](crate::BatchSocket::flush) drains the front stage by a cursor, and the stages swap when
/// the front is empty. Nothing moves in memory when datagrams leave, and nothing is allocated once the
/// stages have grown.
///
/// The bound is in bytes: [`cost`](Self::cost) says what a datagram counts. A push beyond the bound
/// fails, so the caller can apply back-pressure.
/// The stages take up to twice the bound in memory, since the front stage frees its memory when all of
/// it has left.
///
/// ```
/// use mmsg::{BatchSocket, SendMsg, SendQueue};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// let mut queue = SendQueue::new(1 << 20);
/// queue.push(&SendMsg::to(to, b"one"))?;
/// queue.push(&SendMsg::to(to, b"two"))?;
/// assert_eq!(socket.flush(&mut queue)?, 2);
/// assert!(queue.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SendQueue {
    front: Stage,
    back: Stage,
    /// Size of the datagrams in both stages, as counted against the bound.
    bytes: usize,
    capacity: usize,
    grouped: bool,
}

impl SendQueue {
    /// Bytes that each datagram counts in addition to its payload and its options: the memory of its
    /// entry. It bounds empty datagrams, too.
    pub const OVERHEAD: usize = size_of::<Entry>();

    /// An empty queue for up to `capacity` bytes. Memory is allocated as it is needed.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { front: Stage::new(), back: Stage::new(), bytes: 0, capacity, grouped: false }
    }

    /// Makes flushes send together what goes to one destination, so that an [`Offload`](crate::Offload) forms longer
    /// GSO batches where datagrams for many destinations were pushed in turn: a, b, c, a, b, c.
    ///
    /// The datagrams to each destination stay in order. Those to Unix sockets all keep their order.
    /// What a flush puts together is all that was pushed since the flush before it began; it leaves before
    /// what is pushed afterwards. Its first step is to sort that: a million datagrams take up to half a second. Each
    /// datagram takes 16 bytes of memory more, which do not count.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, SendMsg, SendQueue};
    /// # let receivers = ["127.0.0.1:0"; 2].map(|addr| std::net::UdpSocket::bind(addr).unwrap());
    /// # let [a, b] = receivers.each_ref().map(|receiver| receiver.local_addr().unwrap());
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let mut queue = SendQueue::new(1 << 20).grouped_by_dest();
    /// for _ in 0..10 {
    ///     queue.push(&SendMsg::to(a, &[0; 1200]))?;
    ///     queue.push(&SendMsg::to(b, &[0; 1200]))?;
    /// }
    /// // Two GSO batches in place of 20 datagrams, where the kernel has GSO.
    /// assert_eq!(socket.flush(&mut queue)?, 20);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "GSO")]
    #[must_use]
    pub const fn grouped_by_dest(mut self) -> Self {
        self.grouped = true;
        self
    }

    /// An empty queue with a bound that fits `datagrams` datagrams of up to `len` bytes of payload each,
    /// to Internet addresses, with per-message options and without raw control messages.
    ///
    /// ```
    /// use mmsg::{SendMeta, SendMsg, SendQueue};
    ///
    /// // The replies to a batch of 64: each as long as a slot, from the address that was asked.
    /// let mut queue = SendQueue::for_batch(64, 1500);
    /// let meta = SendMeta::new().with_hop_limit(64);
    /// for _ in 0..64 {
    ///     queue.push(&SendMsg::new(&[0; 1500]).with_meta(&meta))?;
    /// }
    /// assert_eq!(queue.remaining(), 0);
    /// # Ok::<(), mmsg::errors::PushError>(())
    /// ```
    #[must_use]
    pub const fn for_batch(datagrams: usize, len: usize) -> Self {
        let each = len.saturating_add(Self::OVERHEAD + size_of::<SendMeta>());
        Self::new(each.saturating_mul(datagrams))
    }

    /// Bytes that a datagram counts against the bound: its payload, the memory of its [`SendMeta`] or
    /// [`ControlBuf`] if it has one, the address of a Unix destination, and [`OVERHEAD`](Self::OVERHEAD).
    ///
    /// ```
    /// use mmsg::{SendMsg, SendQueue};
    /// assert_eq!(SendQueue::cost(&SendMsg::new(b"hello")), 5 + SendQueue::OVERHEAD);
    /// ```
    #[must_use]
    pub fn cost(msg: &SendMsg<'_>) -> usize {
        Size::of(msg).map_or(usize::MAX, |size| size.counted)
    }

    /// Copies a datagram into the queue.
    ///
    /// # Errors
    ///
    /// The queue is unchanged: [`PushError::Full`] if the datagram does not fit now,
    /// [`PushError::TooLong`] if it can never fit, [`PushError::HasDescriptors`] for a message with
    /// descriptors, which the queue would outlive, and [`PushError::NoAddress`] for a destination that no
    /// Unix socket can have. Whether the system accepts the datagram shows when
    /// it is sent.
    #[inline(always)]
    pub fn push(&mut self, msg: &SendMsg<'_>) -> Result<(), PushError> {
        // The common case, one buffer without options: by a way of its own it takes 0.73 of the time, and a queue
        // that is filled and flushed 0.92 to 0.95 with datagrams of 15 and 30 bytes.
        match (msg.plain(), msg.dest_ref()) {
            (Some(data), DestRef::Addr(dest)) => self.push_plain(dest, data),
            _ => self.push_any(msg),
        }
    }

    #[inline(never)]
    fn push_plain(&mut self, dest: Option<&SocketAddr>, data: &[u8]) -> Result<(), PushError> {
        let counted = data.len().saturating_add(Self::OVERHEAD);
        let len = match data.len().try_into() {
            Ok(len) if counted <= self.capacity => len,
            _ => return Err(PushError::TooLong),
        };
        if counted > self.remaining() {
            return Err(PushError::Full);
        }
        self.back.push_plain(dest, data, len);
        self.bytes += counted;
        Ok(())
    }

    #[inline(never)]
    fn push_any(&mut self, msg: &SendMsg<'_>) -> Result<(), PushError> {
        let size = self.size_of(msg)?;
        self.back.push(msg, &size);
        self.bytes += size.counted;
        Ok(())
    }

    /// Copies several datagrams into the queue in order, or none of them: the fragments of one frame, for
    /// example, which are of no use without each other.
    ///
    /// Nothing else is sent between them, in a [grouped](Self::grouped_by_dest) queue between those to one
    /// destination. They are not otherwise one unit: a flush may send some of them and leave the others in
    /// the queue.
    ///
    /// ```
    /// use mmsg::errors::PushError;
    /// use mmsg::{SendMsg, SendQueue};
    ///
    /// let mut queue = SendQueue::for_batch(2, 100);
    /// let fragments = [SendMsg::new(b"one"), SendMsg::new(b"two")];
    /// queue.push_all(&fragments)?;
    /// assert_eq!(queue.push_all([SendMsg::new(&[0; 300]); 2]), Err(PushError::TooLong));
    /// assert_eq!(queue.len(), 2);
    /// # Ok::<(), PushError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`push`](Self::push), about all datagrams together: [`PushError::TooLong`] if they can
    /// never be in the queue at the same time. The queue is unchanged.
    pub fn push_all<'m, M>(&mut self, msgs: impl IntoIterator<Item = M>) -> Result<(), PushError>
    where
        M: Borrow<SendMsg<'m>>,
    {
        let push = AllOrNothing::begin(self);
        // If they do not fit now, the others are still counted: whether they ever fit is for all of them.
        let (mut needed, mut full) = (0usize, false);
        for msg in msgs {
            let msg = msg.borrow();
            match push.queue.push(msg) {
                Ok(()) => {}
                Err(PushError::Full) => full = true,
                Err(error) => return Err(error),
            }
            needed = needed.saturating_add(SendQueue::cost(msg));
            if needed > push.queue.capacity {
                return Err(PushError::TooLong);
            }
        }
        push.end(full)
    }

    /// Copies one message into the queue once for each of several destinations, or for none of them. Its
    /// payload, control data and options are stored once; its own destination is not used. So all leave from
    /// one source address: where the members of a group asked different addresses of this host, call this
    /// once for each address, with the [source](SendMeta::with_source) and the members that asked it.
    ///
    /// The first of these datagrams counts as much as in a [`push`](Self::push), the others
    /// [`OVERHEAD`](Self::OVERHEAD) each. Without destinations nothing is queued.
    ///
    /// ```
    /// use mmsg::{SendMsg, SendQueue};
    /// use std::net::SocketAddr;
    ///
    /// let listeners: [SocketAddr; 3] = [([127, 0, 0, 1], 5004).into(); 3];
    /// let mut queue = SendQueue::new(1 << 16);
    /// queue.push_to_all(&SendMsg::new(&[0; 1200]), listeners)?;
    /// assert_eq!((queue.len(), queue.bytes()), (3, 1200 + 3 * SendQueue::OVERHEAD));
    /// # Ok::<(), mmsg::errors::PushError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`push_all`](Self::push_all). The queue is unchanged.
    pub fn push_to_all(
        &mut self,
        msg: &SendMsg<'_>,
        dests: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<(), PushError> {
        let push = AllOrNothing::begin(self);
        let mut dests = dests.into_iter();
        let Some(first) = dests.next() else { return Ok(()) };
        let msg = msg.with_dest(first);
        let (mut needed, mut full) = (SendQueue::cost(&msg), false);
        match push.queue.push(&msg) {
            Ok(()) => {}
            Err(PushError::Full) => full = true,
            Err(error) => return Err(error),
        }
        for dest in dests {
            needed = needed.saturating_add(SendQueue::OVERHEAD);
            if needed > push.queue.capacity {
                return Err(PushError::TooLong);
            }
            full = full || push.queue.remaining() < SendQueue::OVERHEAD;
            if !full {
                push.queue.back.repeat(dest);
                push.queue.bytes += SendQueue::OVERHEAD;
            }
        }
        push.end(full)
    }

    /// Whether a [`push`](Self::push) of this datagram would succeed now.
    ///
    /// ```
    /// use mmsg::{SendMsg, SendQueue};
    /// let queue = SendQueue::for_batch(1, 100);
    /// assert!(queue.fits(&SendMsg::new(&[0; 100])));
    /// assert!(!queue.fits(&SendMsg::new(&[0; 1000])));
    /// ```
    #[must_use]
    pub fn fits(&self, msg: &SendMsg<'_>) -> bool {
        self.size_of(msg).is_ok()
    }

    /// What a datagram takes, if it fits.
    #[inline]
    fn size_of(&self, msg: &SendMsg<'_>) -> Result<Size, PushError> {
        if let LentOptions::Control(control) = msg.options().lent {
            if has_fds(control.as_bytes()) {
                return Err(PushError::HasDescriptors);
            }
        }
        let size = Size::of(msg)?;
        if size.counted > self.capacity {
            return Err(PushError::TooLong);
        }
        if size.counted > self.remaining() { Err(PushError::Full) } else { Ok(size) }
    }

    /// Datagrams in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the datagrams in the queue, as counted against the bound.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes left until the bound: a datagram fits if it [costs](Self::cost) no more.
    ///
    /// ```
    /// use mmsg::{SendMsg, SendQueue};
    /// let mut queue = SendQueue::new(10_000);
    /// let msg = SendMsg::new(b"hello");
    /// queue.push(&msg)?;
    /// assert_eq!(queue.remaining(), 10_000 - SendQueue::cost(&msg));
    /// # Ok::<(), mmsg::errors::PushError>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.capacity - self.bytes
    }

    /// The bound in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The datagrams in the order of sending. Of a [grouped](Self::grouped_by_dest) queue, those that no flush has
    /// begun to send are in the order of their pushes.
    pub fn iter(&self) -> impl Iterator<Item = SendMsg<'_>> {
        self.front.iter().chain(self.back.iter()).map(|queued| queued.to_msg())
    }

    /// The next datagram to be sent: the one that an error of
    /// [`flush`](crate::BatchSocket::flush) is about.
    #[must_use]
    pub fn front(&self) -> Option<SendMsg<'_>> {
        self.iter().next()
    }

    /// Drops the next datagram to be sent. Returns whether there was one.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMsg, SendQueue};
    /// use std::io::ErrorKind;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let mut queue = SendQueue::new(1 << 20);
    /// queue.push(&SendMsg::to(to, &[0; 70_000]))?;
    /// // An error is about the front, which stays in the queue.
    /// match socket.flush(&mut queue) {
    ///     Err(error) if error.kind() != ErrorKind::WouldBlock => {
    ///         eprintln!("to {:?}: {error}", queue.front().and_then(|msg| msg.dest()));
    ///         queue.discard_front();
    ///     }
    ///     _ => {}
    /// }
    /// assert!(queue.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn discard_front(&mut self) -> bool {
        self.turn();
        let any = self.front.len() > 0;
        if any {
            self.advance(1);
        }
        any
    }

    /// Drops all datagrams but not the memory.
    pub fn clear(&mut self) {
        self.front.clear();
        self.back.clear();
        self.bytes = 0;
    }

    /// Frees unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.turn();
        self.front.shrink_to_fit();
        self.back.shrink_to_fit();
    }

    /// The datagrams of the stage to be sent first.
    #[inline]
    pub(crate) fn stage(&mut self) -> impl Iterator<Item = Queued<'_>> {
        self.turn();
        if self.grouped {
            self.front.group();
        }
        self.front.iter()
    }

    /// Drops the first `n` datagrams of the front stage by moving its cursor.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        self.bytes -= self.front.advance(n);
    }

    /// Swaps the stages if the front is empty.
    #[inline]
    fn turn(&mut self) {
        if self.front.len() == 0 {
            self.front.clear();
            mem::swap(&mut self.front, &mut self.back);
        }
    }
}

/// Shows counts, and no payload.
impl fmt::Debug for SendQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendQueue")
            .field("len", &self.len())
            .field("bytes", &self.bytes)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// Pushes that are all undone if they end early, by an error or by a panic of the caller's iterator.
struct AllOrNothing<'q> {
    queue: &'q mut SendQueue,
    /// The back stage's lengths, and the bytes counted, before the first of them.
    before: (usize, Ends),
    bytes: usize,
    done: bool,
}

impl<'q> AllOrNothing<'q> {
    fn begin(queue: &'q mut SendQueue) -> Self {
        let (before, bytes) = (queue.back.lengths(), queue.bytes);
        Self { queue, before, bytes, done: false }
    }

    fn end(mut self, full: bool) -> Result<(), PushError> {
        self.done = !full;
        if full { Err(PushError::Full) } else { Ok(()) }
    }
}

impl Drop for AllOrNothing<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.queue.back.truncate(self.before);
            self.queue.bytes = self.bytes;
        }
    }
}

/// Why a push into a [`SendQueue`] failed.
///
/// ```
/// use mmsg::errors::PushError;
/// use mmsg::{SendMsg, SendQueue};
/// use std::io;
///
/// let mut queue = SendQueue::for_batch(1, 100);
/// queue.push(&SendMsg::new(&[0; 100]))?;
/// // Full: fits once the queue has been flushed.
/// assert_eq!(queue.push(&SendMsg::new(&[0; 100])), Err(PushError::Full));
/// // Too long: never fits this queue.
/// assert_eq!(queue.push(&SendMsg::new(&[0; 1000])), Err(PushError::TooLong));
/// assert_eq!(io::Error::from(PushError::TooLong).kind(), io::ErrorKind::InvalidInput);
/// # Ok::<(), PushError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// The queue is full. Flush, and push again.
    Full,
    /// The datagram, or several that were to be pushed together, do not fit even an empty queue of this
    /// capacity.
    TooLong,
    /// The message has descriptors.
    HasDescriptors,
    /// The destination is one that no Unix socket can have: it is unnamed, too long, or the platform has no
    /// such addresses.
    NoAddress,
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the send queue is full",
            Self::TooLong => "the datagram is longer than the send queue's capacity",
            Self::HasDescriptors => "a send queue takes no message with descriptors",
            Self::NoAddress => "the destination is no address of a Unix socket on this platform",
        })
    }
}

impl Error for PushError {}

impl From<PushError> for io::Error {
    /// `WouldBlock` if the queue is full, which allocates nothing; `InvalidInput` with the `PushError`
    /// within otherwise.
    fn from(error: PushError) -> Self {
        match error {
            PushError::Full => io::ErrorKind::WouldBlock.into(),
            PushError::TooLong | PushError::HasDescriptors | PushError::NoAddress => {
                Self::new(io::ErrorKind::InvalidInput, error)
            }
        }
    }
}

/// What a datagram takes in a queue.
struct Size {
    /// Bytes of payload.
    len: u32,
    /// Bytes of a Unix destination.
    name_len: u8,
    /// Bytes counted against the bound.
    counted: usize,
}

impl Size {
    /// # Errors
    ///
    /// `TooLong` for lengths that cannot be counted: no system sends so much. `NoAddress`.
    #[inline]
    fn of(msg: &SendMsg<'_>) -> Result<Self, PushError> {
        let name = match msg.dest_ref() {
            DestRef::Unix(dest) => name_len(dest)?,
            _ => 0,
        };
        let options = match msg.options().lent {
            LentOptions::None => 0,
            LentOptions::Meta(_) | LentOptions::Reply(_) => size_of::<SendMeta>(),
            LentOptions::Control(_) => size_of::<ControlBuf<'_>>(),
        };
        let (len, rest) = (msg.len(), options + name + SendQueue::OVERHEAD);
        match (len.try_into(), name.try_into(), len.checked_add(rest)) {
            (Ok(len), Ok(name_len), Some(counted)) => Ok(Self { len, name_len, counted }),
            _ => Err(PushError::TooLong),
        }
    }
}

#[cold]
fn name_len(dest: UnixAddr<'_>) -> Result<usize, PushError> {
    Ok(UnixAddrBuf::encode(dest).ok_or(PushError::NoAddress)?.as_bytes().len())
}

/// A run of datagrams in order, consumed from its start.
///
/// Invariants: `payload` holds, one after another and in order, each datagram's payload and then its Unix
/// destination, if it has one; once for consecutive entries of one message to several destinations, and `metas` and `controls` likewise. The
/// ends of entries never decrease from an entry to the next.
struct Stage {
    entries: Vec<Entry>,
    payload: Vec<u8>,
    metas: Vec<SendMeta>,
    controls: Vec<ControlBuf<'static>>,
    /// The order of sending, if it is not that of the entries: where each is, and its destination's key.
    order: Vec<(u64, u32)>,
    /// The first entry, in the order of sending, that is still here.
    entry: usize,
}

/// A datagram in a stage. The difference of two entries' ends is what lies between them, so the cursor
/// can skip any number of entries at once that are sent in their order.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The Internet destination.
    dest: RawAddr,
    /// Bytes of payload.
    len: u32,
    inline: InlineOptions,
    stored: Stored,
    /// Bytes of the Unix destination.
    name_len: u8,
    ends: Ends,
}

/// The options that a stage has for an entry, beside those in the entry.
#[derive(Clone, Copy, Debug)]
enum Stored {
    None,
    Meta,
    Control,
}

/// Ends of the options and bytes of the entries up to one of them.
#[derive(Clone, Copy, Debug)]
struct Ends {
    // These fit: each takes an entry's memory as well, and memory does not hold 2^32 of those.
    metas: u32,
    controls: u32,
    payload: usize,
}

impl Ends {
    const START: Self = Self { metas: 0, controls: 0, payload: 0 };
}

impl Stage {
    const fn new() -> Self {
        Self {
            entries: Vec::new(),
            payload: Vec::new(),
            metas: Vec::new(),
            controls: Vec::new(),
            order: Vec::new(),
            entry: 0,
        }
    }

    #[inline]
    fn len(&self) -> usize {
        self.entries.len() - self.entry
    }

    /// The ends of all that is stored.
    #[inline]
    fn ends(&self) -> Ends {
        Ends {
            metas: self.metas.len() as u32,
            controls: self.controls.len() as u32,
            payload: self.payload.len(),
        }
    }

    /// Stores a message of one buffer without options.
    #[inline]
    fn push_plain(&mut self, dest: Option<&SocketAddr>, data: &[u8], len: u32) {
        // Grow first: if growing panics, the stage is unchanged.
        self.entries.reserve(1);
        self.payload.extend_from_slice(data);
        let (inline, stored) = (InlineOptions::NONE, Stored::None);
        let entry =
            Entry { dest: RawAddr::NONE, len, inline, stored, name_len: 0, ends: self.ends() };
        self.push_entry(entry, dest);
    }

    #[inline]
    fn push_entry(&mut self, entry: Entry, dest: Option<&SocketAddr>) {
        self.entries.push(entry);
        // Written in place: to copy what was just written in smaller pieces takes 7 ns.
        if let Some(entry) = self.entries.last_mut() {
            entry.dest.space().set(dest);
        }
    }

    /// Stores a message without descriptors.
    fn push(&mut self, msg: &SendMsg<'_>, size: &Size) {
        // Grow first: if growing panics, the stage is unchanged.
        self.payload.reserve(size.len as usize + usize::from(size.name_len));
        self.entries.reserve(1);
        let MsgOptions { lent, inline } = msg.options();
        let stored = match lent {
            LentOptions::None => Stored::None,
            lent => self.store_options(lent),
        };
        match msg.buffers() {
            SendBuffers::One(data) => self.payload.extend_from_slice(data),
            SendBuffers::Many(data) => {
                data.iter().for_each(|part| self.payload.extend_from_slice(part));
            }
        }
        if let DestRef::Unix(dest) = msg.dest_ref() {
            self.store_name(dest);
        }
        let (ends, &Size { len, name_len, .. }) = (self.ends(), size);
        let entry = Entry { dest: RawAddr::NONE, len, inline, stored, name_len, ends };
        self.push_entry(entry, msg.dest().as_ref());
    }

    /// Stores a Unix destination, which is beside the payload.
    #[cold]
    fn store_name(&mut self, dest: UnixAddr<'_>) {
        if let Some(name) = UnixAddrBuf::encode(dest) {
            self.payload.extend_from_slice(name.as_bytes());
        }
    }

    #[inline(never)]
    fn store_options(&mut self, options: LentOptions<'_>) -> Stored {
        match options {
            LentOptions::None => return Stored::None,
            LentOptions::Meta(meta) => self.metas.push(*meta),
            LentOptions::Reply(received) => self.metas.push(received.reply()),
            LentOptions::Control(control) => {
                self.controls.push(control.without_fds());
                return Stored::Control;
            }
        }
        Stored::Meta
    }

    /// Repeats the last entry with another destination.
    fn repeat(&mut self, dest: SocketAddr) {
        let last = *self.entries.last().expect("an entry was pushed");
        self.entries.push(Entry { dest: RawAddr::new(Some(&dest)), ..last });
    }

    /// How much is in it, for `truncate`.
    fn lengths(&self) -> (usize, Ends) {
        (self.entries.len(), self.ends())
    }

    /// Drops what was pushed after `lengths`.
    fn truncate(&mut self, (entries, ends): (usize, Ends)) {
        self.entries.truncate(entries);
        self.payload.truncate(ends.payload);
        self.metas.truncate(ends.metas as usize);
        self.controls.truncate(ends.controls as usize);
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = Queued<'_>> {
        StageIter { stage: self, at: self.entry }
    }

    /// Puts together what goes to one destination, unless it is already. Without memory for it, nothing changes.
    fn group(&mut self) {
        let count = self.entries.len();
        if !self.order.is_empty() || self.order.try_reserve(count).is_err() {
            return;
        }
        let entries = &self.entries;
        let keys = entries.iter().map(|entry| entry.dest.lend().key());
        // The places fit, as the ends do.
        self.order.extend(keys.zip(0u32..));
        // The place decides last: the order within each destination stays.
        self.order[self.entry..].sort_unstable_by(|(one, i), (other, j)| {
            let dest = |i: u32| entries[i as usize].dest.lend();
            one.cmp(other).then_with(|| dest(*i).compare(dest(*j))).then(i.cmp(j))
        });
    }

    #[inline(always)]
    fn queued<'s>(&'s self, entry: &'s Entry) -> Queued<'s> {
        let lent = match entry.stored {
            Stored::None => LentOptions::None,
            _ => self.stored_options(entry),
        };
        let dest = match entry.name_len {
            0 => DestRef::Raw(entry.dest.lend()),
            _ => self.stored_name(entry),
        };
        let end = entry.ends.payload - usize::from(entry.name_len);
        let data = &self.payload[end - entry.len as usize..end];
        Queued { dest, data, options: MsgOptions { lent, inline: entry.inline } }
    }

    #[inline(never)]
    fn stored_options(&self, entry: &Entry) -> LentOptions<'_> {
        let Ends { metas, controls, .. } = entry.ends;
        match entry.stored {
            Stored::None => LentOptions::None,
            Stored::Meta => LentOptions::Meta(&self.metas[metas as usize - 1]),
            Stored::Control => LentOptions::Control(&self.controls[controls as usize - 1]),
        }
    }

    #[cold]
    fn stored_name<'s>(&'s self, entry: &Entry) -> DestRef<'s, 's> {
        let end = entry.ends.payload;
        let name = &self.payload[end - usize::from(entry.name_len)..end];
        sys::unix_addr(name).map_or(DestRef::Addr(None), DestRef::Unix)
    }

    /// Drops the first `n` datagrams and returns their counted size.
    #[inline]
    fn advance(&mut self, n: usize) -> usize {
        let range = self.entry..self.entry + n;
        self.entry = range.end;
        let stored = match self.order.get(range.clone()) {
            Some(places) => {
                places.iter().map(|(_, i)| self.stored(*i as usize..*i as usize + 1)).sum()
            }
            None => self.stored(range),
        };
        stored + n * SendQueue::OVERHEAD
    }

    /// Bytes that entries have stored, in the order of their pushes.
    #[inline]
    fn stored(&self, range: Range<usize>) -> usize {
        let Some(last) = self.entries[range.clone()].last() else { return 0 };
        let before = match range.start.checked_sub(1) {
            Some(before) => self.entries[before].ends,
            None => Ends::START,
        };
        let ends = last.ends;
        ends.payload - before.payload
            + (ends.metas - before.metas) as usize * size_of::<SendMeta>()
            + (ends.controls - before.controls) as usize * size_of::<ControlBuf<'_>>()
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.payload.clear();
        self.metas.clear();
        self.controls.clear();
        self.order.clear();
        self.entry = 0;
    }

    fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.payload.shrink_to_fit();
        self.metas.shrink_to_fit();
        self.controls.shrink_to_fit();
        self.order.shrink_to_fit();
    }
}

/// Iterates over a stage in the order of sending. A type of its own, so that `next` is inlined: what it returns is
/// read at once.
struct StageIter<'a> {
    stage: &'a Stage,
    at: usize,
}

impl<'a> Iterator for StageIter<'a> {
    type Item = Queued<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Queued<'a>> {
        let Stage { entries, order, .. } = self.stage;
        let place = if order.is_empty() { self.at } else { order.get(self.at)?.1 as usize };
        let entry = entries.get(place)?;
        self.at += 1;
        Some(self.stage.queued(entry))
    }
}

/// A datagram in a stage, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Queued<'a> {
    dest: DestRef<'a, 'a>,
    data: &'a [u8],
    options: MsgOptions<'a>,
}

impl<'a> Outgoing<'a> for Queued<'a> {
    #[inline]
    fn dest(&self) -> DestRef<'_, 'a> {
        self.dest
    }

    #[inline]
    fn buffers(&self) -> SendBuffers<'a> {
        SendBuffers::One(self.data)
    }

    #[inline]
    fn options(&self) -> MsgOptions<'a> {
        self.options
    }

    #[inline]
    fn plain(&self) -> Option<&'a [u8]> {
        self.options.is_none().then_some(self.data)
    }

    fn to_msg(&self) -> SendMsg<'a> {
        SendMsg::from_parts(self.dest, self.data, self.options)
    }
}

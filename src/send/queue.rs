//! A queue of outgoing datagrams.

use std::borrow::Borrow;
use std::error::Error;
use std::fmt;
use std::io;
use std::mem;

use crate::ancillary::{SendMeta, has_fds};
use crate::send::msg::{Content, SendBuffers, SendMsg};
use crate::send::outgoing::{DestRef, Outgoing};
use crate::sys::{RawAddr, RawAddrRef};

/// A bounded queue of outgoing datagrams that owns its payload.
///
/// It has two stages, as Okasaki's queue has: pushes go to the back stage, a
/// [`flush`](crate::BatchSocket::flush) drains the front stage by a cursor, and the stages swap when
/// the front is empty. Nothing moves in memory when datagrams leave, and nothing is allocated once the
/// stages have grown.
///
/// The bound is in bytes: each datagram counts its payload, control data, options and
/// [`OVERHEAD`](Self::OVERHEAD). A push beyond the bound fails, so the caller can apply back-pressure.
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
}

impl SendQueue {
    /// Bytes that each datagram counts in addition to its payload and control data: the memory of its
    /// entry. It bounds empty datagrams, too.
    pub const OVERHEAD: usize = size_of::<Entry>();

    /// An empty queue for up to `capacity` bytes. Memory is allocated as it is needed.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { front: Stage::new(), back: Stage::new(), bytes: 0, capacity }
    }

    /// Copies a datagram into the queue.
    ///
    /// # Errors
    ///
    /// The queue is unchanged: [`PushError::Full`] if the datagram does not fit now,
    /// [`PushError::TooLong`] if it can never fit, and [`PushError::HasDescriptors`] for a message with
    /// descriptors, which the queue would outlive. Whether the system accepts the datagram shows when
    /// it is sent.
    #[inline]
    pub fn push(&mut self, msg: &SendMsg<'_>) -> Result<(), PushError> {
        let size = self.size_of(msg)?;
        self.back.push(msg, &size);
        self.bytes += size.counted;
        Ok(())
    }

    /// Whether a [`push`](Self::push) of this datagram would succeed now.
    #[must_use]
    pub fn fits(&self, msg: &SendMsg<'_>) -> bool {
        self.size_of(msg).is_ok()
    }

    /// What a datagram takes, if it fits.
    #[inline]
    fn size_of(&self, msg: &SendMsg<'_>) -> Result<Size, PushError> {
        if has_fds(msg.control()) {
            return Err(PushError::HasDescriptors);
        }
        let size = Size::of(msg).filter(|size| size.counted <= self.capacity);
        let size = size.ok_or(PushError::TooLong)?;
        if size.counted > self.capacity - self.bytes { Err(PushError::Full) } else { Ok(size) }
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

    /// The bound in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The datagrams in the order of sending.
    pub fn iter(&self) -> impl Iterator<Item = SendMsg<'_>> {
        self.front.iter().chain(self.back.iter()).map(|queued| queued.to_msg())
    }

    /// The next datagram to be sent: the one that an error of
    /// [`flush`](crate::BatchSocket::flush) is about.
    #[must_use]
    pub fn front(&self) -> Option<SendMsg<'_>> {
        self.iter().next()
    }

    /// Drops the next datagram to be sent; false if there is none.
    pub fn pop_front(&mut self) -> bool {
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

/// Why [`SendQueue::push`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// The queue is full. Flush, and push again.
    Full,
    /// The datagram does not fit even an empty queue of this capacity.
    TooLong,
    /// The message has descriptors.
    HasDescriptors,
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the send queue is full",
            Self::TooLong => "the datagram is longer than the send queue's capacity",
            Self::HasDescriptors => "a send queue takes no message with descriptors",
        })
    }
}

impl Error for PushError {}

impl From<PushError> for io::Error {
    /// `WouldBlock` if the queue is full, `InvalidInput` otherwise.
    fn from(error: PushError) -> Self {
        let kind = match error {
            PushError::Full => io::ErrorKind::WouldBlock,
            PushError::TooLong | PushError::HasDescriptors => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

/// What a datagram takes in a queue.
struct Size {
    /// Bytes of payload and of control data.
    len: u32,
    control_len: u16,
    has_meta: bool,
    /// Bytes counted against the bound.
    counted: usize,
}

impl Size {
    /// `None` for lengths that cannot be counted: no system sends so much.
    #[inline]
    fn of(msg: &SendMsg<'_>) -> Option<Self> {
        let (control, has_meta) = match *msg.content().borrow() {
            Content::Plain(_) => (&[][..], false),
            Content::Full { control, meta, .. } => (control, meta != SendMeta::new()),
        };
        let extra = control.len() + if has_meta { size_of::<SendMeta>() } else { 0 };
        Some(Self {
            len: msg.len().try_into().ok()?,
            control_len: control.len().try_into().ok()?,
            has_meta,
            counted: msg.len().checked_add(extra)?.checked_add(SendQueue::OVERHEAD)?,
        })
    }
}

/// A run of datagrams in order, consumed from its start.
///
/// Invariant: `payload` holds, one after another and in order, each datagram's payload and then its
/// control data; `byte` is where those of entry `entry` begin.
struct Stage {
    entries: Vec<Entry>,
    payload: Vec<u8>,
    /// The options of the datagrams that have any, in order.
    metas: Vec<SendMeta>,
    /// The first entry that is still here, and the first of `metas`.
    entry: usize,
    meta: usize,
    /// Where the first entry's bytes begin.
    byte: usize,
}

/// A datagram in a stage. Its bytes begin where those of the entry before end, so the cursor can skip
/// any number of entries at once.
#[derive(Clone, Copy, Debug)]
struct Entry {
    dest: RawAddr,
    /// Bytes of payload.
    len: u32,
    /// Bytes of control data.
    control_len: u16,
    /// Whether it has neither control data nor options.
    plain: bool,
    /// Whether it has options.
    has_meta: bool,
    /// End of the options of the entries up to this one, in the stage's `metas`.
    meta_end: u32,
    /// End of its bytes in the stage's payload.
    end: usize,
}

impl Stage {
    const fn new() -> Self {
        Self {
            entries: Vec::new(),
            payload: Vec::new(),
            metas: Vec::new(),
            entry: 0,
            meta: 0,
            byte: 0,
        }
    }

    #[inline]
    fn len(&self) -> usize {
        self.entries.len() - self.entry
    }

    #[inline]
    fn push(&mut self, msg: &SendMsg<'_>, size: &Size) {
        let Size { len, control_len, has_meta, .. } = *size;
        // Grow first: if growing panics, the stage is unchanged.
        self.payload.reserve(len as usize + usize::from(control_len));
        self.metas.reserve(usize::from(has_meta));
        self.entries.reserve(1);
        match *msg.content().borrow() {
            Content::Plain(data) => self.payload.extend_from_slice(data),
            Content::Full { buffers, control, .. } => self.store(buffers, control),
        }
        if has_meta {
            self.metas.push(msg.meta());
        }
        self.entries.push(Entry {
            dest: RawAddr::new(msg.dest_ref()),
            len,
            control_len,
            plain: control_len == 0 && !has_meta,
            has_meta,
            // Fits: each one takes an entry's memory as well, and memory does not hold 2^32 of those.
            meta_end: self.metas.len() as u32,
            end: self.payload.len(),
        });
    }

    #[cold]
    fn store(&mut self, buffers: SendBuffers<'_>, control: &[u8]) {
        match buffers {
            SendBuffers::One(data) => self.payload.extend_from_slice(data),
            SendBuffers::Many(data) => {
                data.iter().for_each(|part| self.payload.extend_from_slice(part));
            }
        }
        self.payload.extend_from_slice(control);
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = Queued<'_>> {
        let mut bytes = &self.payload[self.byte..];
        let metas = &self.metas[..];
        self.entries[self.entry..].iter().map(move |entry| {
            let (data, rest) = bytes.split_at(entry.len as usize);
            bytes = rest;
            let mut queued = Queued { dest: entry.dest.lend(), data, rest: None };
            if !entry.plain {
                let (control, after) = rest.split_at(entry.control_len.into());
                bytes = after;
                let meta = entry.has_meta.then(|| &metas[entry.meta_end as usize - 1]);
                queued.rest = Some((control, meta));
            }
            queued
        })
    }

    /// Drops the first `n` datagrams and returns their counted size.
    #[inline]
    fn advance(&mut self, n: usize) -> usize {
        let gone = &self.entries[self.entry..][..n];
        let Some(last) = gone.last() else { return 0 };
        let metas = last.meta_end as usize - self.meta;
        let stored = last.end - self.byte + metas * size_of::<SendMeta>();
        (self.meta, self.byte) = (self.meta + metas, last.end);
        self.entry += n;
        stored + n * SendQueue::OVERHEAD
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.payload.clear();
        self.metas.clear();
        (self.entry, self.meta, self.byte) = (0, 0, 0);
    }

    fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.payload.shrink_to_fit();
        self.metas.shrink_to_fit();
    }
}

/// A datagram in a stage, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Queued<'a> {
    dest: RawAddrRef<'a>,
    data: &'a [u8],
    /// Control data and options, if there are any.
    rest: Option<(&'a [u8], Option<&'a SendMeta>)>,
}

impl<'a> Outgoing<'a> for Queued<'a> {
    #[inline]
    fn dest(&self) -> DestRef<'_, 'a> {
        DestRef::Ready(self.dest)
    }

    #[inline]
    fn content(&self) -> impl Borrow<Content<'a>> {
        let Some((control, meta)) = self.rest else { return Content::Plain(self.data) };
        let meta = meta.copied().unwrap_or(SendMeta::new());
        Content::Full { buffers: SendBuffers::One(self.data), control, meta }
    }

    #[inline]
    fn plain(&self) -> Option<&'a [u8]> {
        self.rest.is_none().then_some(self.data)
    }

    fn to_msg(&self) -> SendMsg<'a> {
        let mut msg = SendMsg::new(self.data);
        if let Some(dest) = self.dest.get() {
            msg = msg.with_dest(dest);
        }
        let Some((control, meta)) = self.rest else { return msg };
        msg = msg.with_control_bytes(control);
        meta.map_or(msg, |meta| msg.with_meta(*meta))
    }
}

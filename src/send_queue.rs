//! Outgoing datagrams that may have to wait.

use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;

use crate::{SendMeta, SendMsg};

/// A bounded queue of outgoing datagrams that owns its payload.
///
/// Two stages, as in Okasaki's queue: pushes go to the back stage, a
/// [`flush`](crate::BatchSocket::flush) drains the front stage by a cursor, and when that is empty
/// the two swap. Nothing is moved when datagrams leave at the front, so a socket that takes only
/// some of them costs nothing, and once the stages have grown nothing is allocated.
///
/// The bound is in bytes: a datagram counts its payload, its control data and wishes, and
/// [`OVERHEAD`](Self::OVERHEAD). Beyond it a push is refused, so that back-pressure reaches who
/// can do something about it. The stages take up to twice the bound in memory, since what has left
/// the front stage is given back when all of it has left.
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
#[derive(Debug)]
pub struct SendQueue {
    front: Stage,
    back: Stage,
    /// Bytes that the datagrams in both stages count.
    bytes: usize,
    capacity: usize,
}

impl SendQueue {
    /// What a datagram counts beside its payload and control data, in bytes: the memory of its
    /// entry. So empty datagrams are bounded, too.
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
    /// [`QueueFull`] where it does not fit; the queue is as before. Whether the system will take
    /// the datagram at all is not looked at here: that shows when it is sent.
    #[inline]
    pub fn push(&mut self, msg: &SendMsg<'_>) -> Result<(), QueueFull> {
        let (len, control, meta) = (msg.len(), msg.control(), msg.meta());
        let has_meta = meta != SendMeta::new();
        let extra = control.len() + if has_meta { size_of::<SendMeta>() } else { 0 };
        let bytes = len
            .checked_add(extra + Self::OVERHEAD)
            .and_then(|more| self.bytes.checked_add(more))
            .filter(|bytes| *bytes <= self.capacity)
            .ok_or(QueueFull(()))?;
        let entry = Entry {
            dest: msg.dest(),
            len: len.try_into().map_err(|_| QueueFull(()))?,
            control_len: control.len().try_into().map_err(|_| QueueFull(()))?,
            has_meta,
        };
        self.back.push(entry, msg);
        self.bytes = bytes;
        Ok(())
    }

    /// Datagrams in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the datagrams in the queue count.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bound in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The datagrams, the next one to be sent first.
    pub fn iter(&self) -> impl Iterator<Item = SendMsg<'_>> {
        self.front.iter().chain(self.back.iter())
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

    /// Drops all datagrams and keeps the memory.
    pub fn clear(&mut self) {
        self.front.clear();
        self.back.clear();
        self.bytes = 0;
    }

    /// Gives back memory that no datagram is in.
    pub fn shrink_to_fit(&mut self) {
        self.turn();
        self.front.shrink_to_fit();
        self.back.shrink_to_fit();
    }

    /// The datagrams of the stage that is to be sent first.
    #[inline]
    pub(crate) fn stage(&mut self) -> StageIter<'_> {
        self.turn();
        self.front.iter()
    }

    /// Drops the first `n` datagrams of that stage: a step of the cursor.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        self.bytes -= self.front.advance(n);
    }

    /// Makes the back stage the front one, if there is nothing left at the front.
    #[inline]
    fn turn(&mut self) {
        if self.front.len() == 0 {
            self.front.clear();
            mem::swap(&mut self.front, &mut self.back);
        }
    }
}

/// Refused: the queue has no room for the datagram. Flush, and push again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull(());

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the send queue is full")
    }
}

impl Error for QueueFull {}

impl From<QueueFull> for io::Error {
    /// `WouldBlock`: later, when the socket has taken some, there may be room.
    fn from(full: QueueFull) -> Self {
        Self::new(io::ErrorKind::WouldBlock, full)
    }
}

/// A run of datagrams in order, consumed from its start.
///
/// Invariant: `payload` from `byte` on holds, for each entry from `entry` on, its control data and
/// then its payload.
#[derive(Debug)]
struct Stage {
    entries: Vec<Entry>,
    /// What they ask the kernel for, of those entries that ask for something.
    metas: Vec<SendMeta>,
    payload: Vec<u8>,
    /// The first entry that is still here, and the first of `metas`.
    entry: usize,
    meta: usize,
    /// Where its bytes begin.
    byte: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    dest: Option<SocketAddr>,
    len: u32,
    control_len: u16,
    has_meta: bool,
}

impl Entry {
    /// Bytes of payload memory.
    #[inline]
    fn stored(&self) -> usize {
        usize::from(self.control_len) + self.len as usize
    }
}

impl Stage {
    const fn new() -> Self {
        Self {
            entries: Vec::new(),
            metas: Vec::new(),
            payload: Vec::new(),
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
    fn push(&mut self, entry: Entry, msg: &SendMsg<'_>) {
        self.payload.extend_from_slice(msg.control());
        for slice in msg.slices() {
            self.payload.extend_from_slice(slice);
        }
        if entry.has_meta {
            self.metas.push(msg.meta());
        }
        self.entries.push(entry);
    }

    #[inline]
    fn iter(&self) -> StageIter<'_> {
        StageIter {
            entries: &self.entries[self.entry..],
            metas: &self.metas[self.meta..],
            payload: &self.payload[self.byte..],
        }
    }

    /// Drops the first `n` datagrams and gives the bytes that they counted.
    #[inline]
    fn advance(&mut self, n: usize) -> usize {
        let gone = &self.entries[self.entry..][..n];
        let (mut stored, mut metas) = (0, 0);
        for entry in gone {
            stored += entry.stored();
            metas += usize::from(entry.has_meta);
        }
        self.entry += n;
        self.meta += metas;
        self.byte += stored;
        stored + metas * size_of::<SendMeta>() + n * SendQueue::OVERHEAD
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.metas.clear();
        self.payload.clear();
        (self.entry, self.meta, self.byte) = (0, 0, 0);
    }

    fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.metas.shrink_to_fit();
        self.payload.shrink_to_fit();
    }
}

/// Goes through the datagrams of a stage.
#[derive(Clone, Debug)]
pub(crate) struct StageIter<'a> {
    entries: &'a [Entry],
    metas: &'a [SendMeta],
    payload: &'a [u8],
}

impl<'a> Iterator for StageIter<'a> {
    type Item = SendMsg<'a>;

    #[inline]
    fn next(&mut self) -> Option<SendMsg<'a>> {
        let (entry, entries) = self.entries.split_first()?;
        let (bytes, payload) = self.payload.split_at(entry.stored());
        let (control, data) = bytes.split_at(entry.control_len.into());
        (self.entries, self.payload) = (entries, payload);
        let msg = match entry.dest {
            Some(dest) => SendMsg::to(dest, data),
            None => SendMsg::new(data),
        };
        if control.is_empty() && !entry.has_meta {
            return Some(msg);
        }
        let msg = msg.with_control_bytes(control);
        match self.metas.split_first().filter(|_| entry.has_meta) {
            Some((meta, metas)) => {
                self.metas = metas;
                Some(msg.with_meta(*meta))
            }
            None => Some(msg),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.entries.len(), Some(self.entries.len()))
    }
}

impl ExactSizeIterator for StageIter<'_> {}

//! A queue of outgoing datagrams.

mod error;
mod stage;
#[cfg(test)]
mod tests;

use std::fmt;
use std::mem;
use std::net::SocketAddr;

pub use self::error::PushError;
use self::stage::{Entry, Stage};
use crate::ancillary::SendMeta;
use crate::send::msg::SendMsg;
use crate::send::row::Row;

/// A bounded queue of outgoing datagrams that owns its payload.
///
/// It has two stages, as Okasaki's queue has: pushes go to the back stage, a
/// [`flush`](crate::BatchSocket::flush) drains the front stage by a cursor, then the back stage, and the stages
/// swap if it leaves datagrams there. Nothing moves in memory when datagrams leave, and nothing is allocated once the
/// stages have grown. Where each flush sends all, the next pushes use the same memory again.
///
/// The bound is in bytes: [`cost`](Self::cost) says what a datagram counts. A push beyond the bound fails, so the
/// caller can apply back-pressure. Both stages keep the memory of what they held: two to four times the bound.
/// [`shrink_to_fit`](Self::shrink_to_fit) frees it.
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
    /// Bytes that each datagram counts in addition to its payload and its options: the memory that
    /// describes it. It bounds empty datagrams, too.
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
    /// what is pushed afterwards. Its first step is to sort that: a million datagrams take up to half a second. This
    /// takes up to 8 bytes of memory more for each datagram, which do not count.
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

    /// Bytes that a datagram counts against the bound: its payload, the memory of its [`SendMeta`] if it has one, the
    /// address of a Unix destination, and [`OVERHEAD`](Self::OVERHEAD).
    ///
    /// ```
    /// use mmsg::{SendMsg, SendQueue};
    /// assert_eq!(SendQueue::cost(&SendMsg::new(b"hello")), 5 + SendQueue::OVERHEAD);
    /// ```
    #[must_use]
    pub fn cost(msg: &SendMsg<'_>) -> usize {
        stage::cost(msg).unwrap_or(usize::MAX)
    }

    /// Copies a datagram into the queue.
    ///
    /// # Errors
    ///
    /// The queue is unchanged: [`PushError::Full`] if the datagram does not fit now,
    /// [`PushError::TooLong`] if it can never fit, [`PushError::HasControl`] for a message with raw control messages,
    /// which a queue does not store, [`PushError::OptionTwice`] for one whose options set something twice, and
    /// [`PushError::NoAddress`] for a destination that no Unix socket can have. Whether the system accepts the datagram shows when
    /// it is sent.
    #[inline]
    pub fn push(&mut self, msg: &SendMsg<'_>) -> Result<(), PushError> {
        let cost = stage::cost(msg)?;
        self.check(cost)?;
        self.back.push(msg, cost)?;
        self.bytes += cost;
        Ok(())
    }

    /// Copies one message into the queue once for each of several destinations, or for none of them. Its
    /// payload and options are stored once; its own destination is not used. So all leave from
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
    /// Those of [`push`](Self::push), about all datagrams together: [`PushError::TooLong`] if they can
    /// never be in the queue at the same time. The queue is unchanged.
    pub fn push_to_all(
        &mut self,
        msg: &SendMsg<'_>,
        dests: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<(), PushError> {
        let mut dests = dests.into_iter();
        let Some(first) = dests.next() else { return Ok(()) };
        let (len, bytes) = (self.back.len(), self.bytes);
        let mut result = self.push(&msg.with_dest(first));
        // Those that do not fit are counted as well: they may never fit together.
        let mut cost = Self::cost(&msg.with_dest(first));
        for dest in dests {
            cost = cost.saturating_add(Self::OVERHEAD);
            result = result.and_then(|()| self.check(Self::OVERHEAD));
            match result {
                Ok(()) => {
                    self.back.repeat(dest);
                    self.bytes += Self::OVERHEAD;
                }
                Err(PushError::Full) if cost <= self.capacity => {}
                Err(_) => break,
            }
        }
        if let Err(error) = result {
            self.back.truncate(len);
            self.bytes = bytes;
            let never = error == PushError::Full && cost > self.capacity;
            return Err(if never { PushError::TooLong } else { error });
        }
        Ok(())
    }

    /// Whether a datagram that counts `cost` fits now, or ever.
    #[inline]
    fn check(&self, cost: usize) -> Result<(), PushError> {
        match cost {
            cost if cost <= self.remaining() => Ok(()),
            cost if cost > self.capacity => Err(PushError::TooLong),
            _ => Err(PushError::Full),
        }
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
        self.front.iter().chain(self.back.iter())
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
        let any = !self.is_empty();
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
        self.front.shrink_to_fit();
        self.back.shrink_to_fit();
    }

    /// Writes the first datagrams to a row, at most `max`, and returns them: all of one stage.
    #[inline]
    pub(crate) fn fill<'q, 'r>(
        &'q mut self,
        row: &'r mut Row<'q>,
        max: usize,
    ) -> &'r [SendMsg<'q>] {
        if self.grouped {
            self.turn();
            self.front.group();
        }
        let stage = if self.front.len() > 0 { &self.front } else { &self.back };
        stage.fill(row, max)
    }

    /// Drops the first `n` datagrams of the stage that is sent first, by moving its cursor.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        // The stages do not swap: the next pushes find the memory of these datagrams in the cache.
        if n == self.len() {
            return self.clear();
        }
        self.turn();
        self.bytes -= self.front.advance(n);
    }

    /// Swaps the stages if the front is empty.
    #[inline]
    fn turn(&mut self) {
        if self.front.len() == 0 {
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

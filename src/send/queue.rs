//! A queue of outgoing datagrams.

mod error;
mod half;
#[cfg(test)]
mod tests;

use std::fmt;
use std::mem;
use std::net::SocketAddr;

pub use self::error::PushError;
use self::half::Half;
use crate::ancillary::SendMeta;
use crate::send::chunk::Chunk;
use crate::send::msg::SendMsg;

/// A bounded queue of outgoing datagrams that owns its payload.
///
/// It has two halves. Pushes go to the back half. A [`flush`](crate::BatchSocket::flush) sends the front half, then
/// the back half, and swaps them if datagrams remain in the back half. Sending moves nothing in memory, and once the
/// halves have grown, nothing is allocated. If each flush sends everything, all pushes use the same memory.
///
/// The bound is in bytes: [`cost`](Self::cost) says how many a datagram counts. A push beyond the bound fails, so the
/// caller can apply back-pressure. The halves keep their memory: up to six times the bound if all kinds of datagrams have
/// filled it in turn. Dropping the queue frees it.
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
    front: Half,
    back: Half,
    /// Bytes in both halves, as counted against the bound.
    bytes: usize,
    capacity: usize,
    grouped: bool,
}

impl SendQueue {
    /// Bytes that each datagram counts in addition to its payload and its settings, for the queue's record of it. So the
    /// bound limits empty datagrams, too.
    pub const OVERHEAD: usize = half::OVERHEAD;

    /// An empty queue for up to `capacity` bytes. Memory is allocated as needed.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { front: Half::new(), back: Half::new(), bytes: 0, capacity, grouped: false }
    }

    /// Groups datagrams by destination when they are sent, so that an [`Offload`](crate::Offload) forms longer GSO
    /// batches if the destinations alternate: a, b, c, a, b, c.
    ///
    /// The datagrams to each destination stay in order. A flush sorts the queue when nothing sorted is left in it. Pushes
    /// wait behind what is sorted, and are sorted together once that has left.
    /// Sorting needs four bytes for each datagram, not counted in the bound.
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
    /// // Two GSO batches instead of 20 datagrams, if the kernel has GSO.
    /// assert_eq!(socket.flush(&mut queue)?, 20);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "GSO")]
    #[must_use]
    pub const fn grouped_by_dest(mut self) -> Self {
        self.grouped = true;
        self
    }

    /// An empty queue whose bound fits `datagrams` datagrams of up to `len` bytes of payload each, to Internet
    /// addresses, with per-message settings and without raw control messages.
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

    /// Bytes that a datagram counts against the bound: its payload, the memory of its [`SendMeta`] if it has one, and
    /// [`OVERHEAD`](Self::OVERHEAD). `usize::MAX` for a datagram that no queue stores.
    ///
    /// ```
    /// use mmsg::{SendMsg, SendQueue};
    /// assert_eq!(SendQueue::cost(&SendMsg::new(b"hello")), 5 + SendQueue::OVERHEAD);
    /// ```
    #[must_use]
    pub fn cost(msg: &SendMsg<'_>) -> usize {
        half::cost(msg).unwrap_or(usize::MAX)
    }

    /// Copies a datagram into the queue.
    ///
    /// # Errors
    ///
    /// The queue is unchanged.
    ///
    /// - [`PushError::Full`]: the datagram does not fit now.
    /// - [`PushError::TooLong`]: it can never fit.
    /// - [`PushError::HasControl`]: it has raw control messages, which a queue does not store.
    /// - [`PushError::HasUnixDest`]: it goes to a Unix address, which a queue does not store either. On a connected Unix
    ///   socket it needs none.
    /// - [`PushError::OutOfMemory`]: the queue cannot grow.
    ///
    /// A datagram that the system does not accept fails when it is sent.
    #[inline(always)]
    pub fn push(&mut self, msg: &SendMsg<'_>) -> Result<(), PushError> {
        self.push_with(msg, 0, |_| Some(0))
    }

    /// Adds a datagram whose payload `fill` writes into the queue's memory. Encrypting or encoding there saves a buffer and a
    /// copy.
    ///
    /// The datagram is the payload of `msg`, as a header, followed by the bytes that `fill` writes. `SendMsg::to(dest, &[])`
    /// has no header. `msg` also has the destination and the settings.
    ///
    /// `fill` gets `max_len` zero bytes and returns how many of them to send, from the first on. If it returns `None`, nothing
    /// is queued, and the result is `Ok`. The bytes are zeroed first; keep `max_len` small.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMsg, SendQueue};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let peer = socket.local_addr()?;
    /// let (mut queue, packet) = (SendQueue::new(1 << 20), b"hello");
    /// for counter in 0u64..3 {
    ///     queue.push_with(&SendMsg::to(peer, &counter.to_be_bytes()), packet.len(), |body| {
    ///         body.copy_from_slice(packet);
    ///         body.iter_mut().for_each(|byte| *byte ^= 0x2a); // Encrypts it.
    ///         Some(packet.len())
    ///     })?;
    /// }
    /// assert_eq!(socket.flush(&mut queue)?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of [`push`](Self::push), for a datagram with `max_len` bytes after its header: `fill` is not called, even
    ///   if it would write fewer bytes.
    /// - [`PushError::TooLong`] if `fill` returns more than `max_len`, for example because an encoder needs more space.
    ///
    /// After an error the queue is unchanged, as it is if `fill` panics.
    #[inline(always)]
    pub fn push_with(
        &mut self,
        msg: &SendMsg<'_>,
        max_len: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Result<(), PushError> {
        let bounds = (self.remaining(), self.capacity);
        self.bytes += self.back.push_with(msg, bounds, max_len, fill)?;
        Ok(())
    }

    /// Queues one message for several destinations: for all of them, or for none if it fails. Payload and settings are
    /// stored once; the message's own destination is not used. All datagrams leave from one source address. If the
    /// members of a group contacted different addresses of this host, call this once for each address, with that
    /// [source](SendMeta::with_source) and its members.
    ///
    /// The first datagram counts as in a [`push`](Self::push), each further one only [`OVERHEAD`](Self::OVERHEAD).
    /// Without destinations, nothing is queued.
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
    /// The errors of [`push`](Self::push), for all datagrams together: [`PushError::TooLong`] if they can never be in
    /// the queue at the same time. The queue is unchanged, as it is if the iterator panics.
    pub fn push_to_all(
        &mut self,
        msg: &SendMsg<'_>,
        dests: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<(), PushError> {
        let mut dests = dests.into_iter();
        let Some(first) = dests.next() else { return Ok(()) };
        let undo = Undo { len: self.back.len(), bytes: self.bytes, queue: self };
        let mut result = undo.queue.push(&msg.with_dest(first));
        // Datagrams that do not fit are counted, too, to learn whether all of them could ever fit.
        let mut cost = Self::cost(&msg.with_dest(first));
        for dest in dests {
            cost = cost.saturating_add(Self::OVERHEAD);
            result = result.and_then(|()| undo.queue.repeat(dest));
            if !matches!(result, Ok(()) | Err(PushError::Full)) || cost > undo.queue.capacity {
                break;
            }
        }
        match result {
            Ok(()) => mem::forget(undo),
            Err(PushError::Full) if cost > undo.queue.capacity => return Err(PushError::TooLong),
            Err(_) => {}
        }
        result
    }

    /// Repeats the last datagram with another destination.
    fn repeat(&mut self, dest: SocketAddr) -> Result<(), PushError> {
        self.back.repeat(dest, (self.remaining(), self.capacity))?;
        self.bytes += Self::OVERHEAD;
        Ok(())
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

    /// Bytes in the queue, as counted against the bound.
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

    /// The datagrams in sending order. In a [grouped](Self::grouped_by_dest) queue, datagrams that no flush has reached
    /// yet are in push order.
    pub fn iter(&self) -> impl Iterator<Item = SendMsg<'_>> {
        self.front.iter().chain(self.back.iter())
    }

    /// The next datagram to be sent. An error of [`flush`](crate::BatchSocket::flush) is about this one.
    #[must_use]
    #[inline]
    pub fn front(&self) -> Option<SendMsg<'_>> {
        let half = if self.front.len() > 0 { &self.front } else { &self.back };
        half.iter().next()
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
    #[inline]
    pub fn discard_front(&mut self) -> bool {
        let any = !self.is_empty();
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

    /// Writes the first datagrams of one half, at most `max`, to a chunk and returns them.
    #[inline]
    pub(crate) fn fill<'q, 'r>(
        &'q mut self,
        chunk: &'r mut Chunk<'q>,
        max: usize,
    ) -> &'r [SendMsg<'q>] {
        if self.grouped {
            if self.front.len() == 0 {
                self.swap();
            }
            self.front.group();
        }
        let half = if self.front.len() > 0 { &self.front } else { &self.back };
        half.fill(chunk, max)
    }

    /// Drops the first `n` datagrams of the half that is sent first.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        if n == self.len() {
            return self.finish();
        }
        // What leaves comes to the front.
        if self.front.len() == 0 {
            self.swap();
        }
        self.bytes -= self.front.advance(n);
    }

    /// Drops the last datagrams. Their memory goes to the back: the next pushes find it in the cache.
    #[inline(never)]
    fn finish(&mut self) {
        if self.front.len() > 0 {
            self.swap();
        }
        self.clear();
    }

    #[cold]
    fn swap(&mut self) {
        mem::swap(&mut self.front, &mut self.back);
    }
}

/// Takes back what was pushed since, when it is dropped: also by a panic of the caller's iterator.
struct Undo<'q> {
    queue: &'q mut SendQueue,
    len: usize,
    bytes: usize,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        self.queue.back.take_back(self.len);
        self.queue.bytes = self.bytes;
    }
}

/// Shows counts, never payload.
impl fmt::Debug for SendQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendQueue")
            .field("len", &self.len())
            .field("bytes", &self.bytes)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

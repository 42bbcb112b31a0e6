//! A queue of outgoing datagrams.

mod all_or_nothing;
mod entry;
mod error;
mod flush;
mod iter;
mod stage;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::fmt;
use std::net::SocketAddr;

use self::entry::{QueueEntry, Size};
use self::stage::Stage;
use crate::ancillary::{SendMeta, has_fds};
use crate::send::content::{InlineOptions, LentOptions};
use crate::send::msg::SendMsg;
use crate::send::outgoing::Outgoing;
use crate::sys::DestRef;

pub use self::error::PushError;

/// A bounded queue of outgoing datagrams that owns its payload.
///
/// It has two stages, as Okasaki's queue has: pushes go to the back stage, a
/// [`flush`](crate::BatchSocket::flush) drains the front stage by a cursor, then the back stage, and the stages
/// swap if it leaves datagrams there. Nothing moves in memory when datagrams leave, and nothing is allocated once the
/// stages have grown. Where each flush sends all, the next pushes use the same memory again.
///
/// The bound is in bytes: [`cost`](Self::cost) says what a datagram counts. A push beyond the bound fails, so the
/// caller can apply back-pressure. Both stages keep the memory of what they held, payload and options apart: two to
/// three times the bound for datagrams of one kind, and up to some eight times it where each kind in turn has filled
/// the queue.
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
    /// describes it, if it has nothing in common with the one before it. It bounds empty datagrams, too.
    pub const OVERHEAD: usize = size_of::<QueueEntry>();

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
    /// takes up to 16 bytes of memory more for each datagram, which do not count.
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
    /// [`ControlBuf`](crate::control::ControlBuf) if it has one, the address of a Unix destination, and [`OVERHEAD`](Self::OVERHEAD).
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
        match (msg.unlent(), msg.dest_ref()) {
            (Some((data, inline)), DestRef::Addr(dest)) => self.push_unlent(dest, data, inline),
            _ => self.push_any(msg),
        }
    }

    /// The common case: one buffer with no options but those in the message.
    #[inline(always)]
    fn push_unlent(
        &mut self,
        dest: Option<&SocketAddr>,
        data: &[u8],
        inline: &InlineOptions,
    ) -> Result<(), PushError> {
        let counted = data.len() + Self::OVERHEAD;
        self.check(data.len(), counted)?;
        if !self.back.join(dest, data, inline) {
            self.back.begin(dest, data, inline)?;
        }
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
        self.push_all_or_none(msgs)
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
        self.push_to_all_or_none(msg, dests)
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
        self.check(size.len as usize, size.counted)?;
        Ok(size)
    }

    /// Whether a datagram with `len` bytes of payload, which counts as `counted`, fits now, or ever.
    #[inline]
    fn check(&self, len: usize, counted: usize) -> Result<(), PushError> {
        if counted <= self.remaining() {
            return Ok(());
        }
        let never_fits = counted > self.capacity || u32::try_from(len).is_err();
        Err(if never_fits { PushError::TooLong } else { PushError::Full })
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
        self.first().iter().next().map(|queued| queued.to_msg())
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

//! A message in the caller's memory.

use std::fmt;
use std::io::IoSliceMut;
use std::net::SocketAddr;

use crate::ancillary::RecvMeta;
use crate::recv::datagram::Origin;
use crate::recv::message::Message;
use crate::sys::{Name, RawAddr, RecvHeaders, RecvResult, RecvStorage, encode_addr};

/// A buffer for one message, and after a receive the message itself.
///
/// A receive that returns `n` sets the first `n` messages; the others keep their contents. A `RecvMsg` can be reused
/// for any number of receives.
///
/// ```
/// # use mmsg::{BatchSocket, RecvMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut memory = [[0; 1500]; 8];
/// let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
/// let n = socket.recv_batch(&mut msgs)?;
/// for msg in &msgs[..n] {
///     println!("{} bytes from {:?}", msg.len(), msg.addr());
/// }
/// # assert_eq!(msgs[0].data(), b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A `RecvMsg` borrows its buffer for as long as it lives:
///
/// ```compile_fail,E0505
/// let mut buffer = vec![0; 1500];
/// let msg = mmsg::RecvMsg::new(&mut buffer);
/// drop(buffer);
/// println!("{}", msg.len());
/// ```
///
/// ```compile_fail,E0597
/// let msg = {
///     let mut buffer = [0; 1500];
///     mmsg::RecvMsg::new(&mut buffer)
/// };
/// println!("{}", msg.len());
/// ```
///
/// ```compile_fail,E0502
/// let mut buffer = [0; 1500];
/// let msg = mmsg::RecvMsg::new(&mut buffer);
/// println!("{}", buffer[0]);
/// println!("{}", msg.len());
/// ```
#[doc(alias("msghdr", "mmsghdr", "recvmsg"))]
pub struct RecvMsg<'a> {
    buffer: IoSliceMut<'a>,
    source: Name,
    result: RecvResult,
    meta: Option<RecvMeta>,
}

impl<'a> RecvMsg<'a> {
    /// A message in `buffer`.
    ///
    /// A datagram longer than the buffer is [`truncated`](Self::truncated). 65,535 bytes hold any UDP
    /// datagram and any coalesced message.
    #[must_use]
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        // Windows stores a buffer's length in 32 bits; no message is that long.
        let len = buffer.len().min(u32::MAX as usize);
        let buffer = IoSliceMut::new(&mut buffer[..len]);
        Self { buffer, source: RawAddr::NO_NAME, result: RecvResult::of(0, 0, 0), meta: None }
    }

    /// The message, with its [datagrams](Message::datagrams) and a [reply](Message::reply).
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut memory = [[0; 1500]; 8];
    /// let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
    /// let n = socket.recv_batch(&mut msgs)?;
    /// // Through an `Offload` a message may be several datagrams: each gets its answer.
    /// let datagrams = msgs[..n].iter().flat_map(|msg| msg.message().datagrams());
    /// let replies = datagrams.filter_map(|datagram| datagram.reply(datagram.data()));
    /// socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn message(&self) -> Message<'_> {
        let origin = Origin::new(self.source(), self.meta());
        Message::new(&self.buffer, &self.result, origin, &[])
    }

    /// Bytes received, at most the buffer's capacity.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.result.len.min(self.capacity())
    }

    /// Whether the payload is empty. An empty datagram is a message like any other.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes received.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.buffer[..self.len()]
    }

    /// The bytes received, mutable.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        &mut self.buffer[..len]
    }

    /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
    #[must_use]
    #[inline]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source().get()
    }

    /// The message's metadata.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> &RecvMeta {
        self.meta.as_ref().unwrap_or(&RecvMeta::NONE)
    }

    /// Whether bytes are missing, because the message was longer than the buffer. Where the system coalesces datagrams,
    /// a message from an Internet address also counts as truncated if its control data was truncated and holds no
    /// segment size: its datagram boundaries may be lost.
    #[doc(alias = "MSG_TRUNC")]
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.message().truncated()
    }

    /// Stores a message as if it had been received, for implementations of [`BatchSocket`](crate::BatchSocket) without
    /// a kernel socket.
    ///
    /// If not all of `data` fits into the buffer, the message is [`truncated`](Self::truncated).
    ///
    /// ```
    /// let mut buffer = [0; 4];
    /// let mut msg = mmsg::RecvMsg::new(&mut buffer);
    /// msg.fill(b"hello", "[::1]:53".parse().ok(), mmsg::RecvMeta::default());
    /// assert_eq!((msg.data(), msg.truncated()), (&b"hell"[..], true));
    /// ```
    pub fn fill(&mut self, data: &[u8], source: Option<SocketAddr>, meta: RecvMeta) {
        let len = data.len().min(self.capacity());
        self.buffer[..len].copy_from_slice(&data[..len]);
        let source_len = source.map_or(0, |source| encode_addr(&source, &mut self.source));
        self.result = RecvResult::of(data.len(), len, source_len);
        self.meta = Some(meta);
    }

    /// Lends the buffer to a receive.
    #[inline]
    pub(crate) fn lend_to<'s>(&'s mut self, headers: &mut RecvHeaders<'s>) {
        headers.push(&mut self.buffer);
    }

    /// Takes over the results of a receive into header `i`.
    #[inline]
    pub(crate) fn read_back(&mut self, headers: &RecvStorage, i: usize) {
        self.result = headers.result(i);
        self.source = *headers.name(i);
        RecvMeta::decode(headers.control(i, &self.result), &mut self.meta);
    }

    /// Everything but the payload.
    pub(super) fn attributes(&self) -> (RecvResult, Name, RecvMeta) {
        (self.result, self.source, *self.meta())
    }

    #[inline]
    fn source(&self) -> RawAddr<'_> {
        RawAddr::new(&self.source, self.result.source_len)
    }

    /// Capacity of the buffer in bytes.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.len()
    }
}

/// Shows no payload.
impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("capacity", &self.capacity())
            .field("addr", &self.source())
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

//! A message in the caller's memory.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::slice;

use crate::ancillary::{ControlBuf, RecvMeta};
use crate::recv::datagram::Envelope;
use crate::recv::message::Message;
use crate::recv::received::Received;
use crate::recv::scattered::{self, Parts};
use crate::sys::{RawAddr, RecvHeaders, RecvResult, RecvStorage};

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
    buffers: Buffers<'a>,
    control: Option<&'a mut ControlBuf>,
    /// Written by the kernel.
    source: RawAddr,
    pub(crate) received: Received,
    meta: Option<RecvMeta>,
}

/// One buffer, or several that are filled in order.
enum Buffers<'a> {
    One(IoSliceMut<'a>),
    Many(&'a mut [IoSliceMut<'a>]),
}

impl<'a> Buffers<'a> {
    #[inline]
    fn as_slice(&self) -> &[IoSliceMut<'a>] {
        match self {
            Self::One(buffer) => slice::from_ref(buffer),
            Self::Many(buffers) => buffers,
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [IoSliceMut<'a>] {
        match self {
            Self::One(buffer) => slice::from_mut(buffer),
            Self::Many(buffers) => buffers,
        }
    }
}

/// Before a receive: its buffers.
impl<'a> RecvMsg<'a> {
    /// A message in one buffer.
    ///
    /// A datagram longer than the buffer is [`truncated`](Self::truncated). 65,535 bytes hold any UDP
    /// datagram and any coalesced message.
    #[must_use]
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        // Windows stores a buffer's length in 32 bits; no message is that long.
        let len = buffer.len().min(u32::MAX as usize);
        Self::with_buffers(Buffers::One(IoSliceMut::new(&mut buffer[..len])))
    }

    /// A message in several buffers, filled in order.
    ///
    /// Unix takes up to 1,024 buffers (`IOV_MAX`); with more the receive fails with `EMSGSIZE`, and
    /// nothing is received.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvMsg};
    /// use std::io::IoSliceMut;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let (mut header, mut payload) = ([0; 2], [0; 1500]);
    /// let mut buffers = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut payload)];
    /// let mut msg = RecvMsg::scatter(&mut buffers);
    /// socket.recv_batch(std::slice::from_mut(&mut msg))?;
    /// assert!(msg.message().slices().eq([&b"he"[..], b"llo"]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("iovec", "readv"))]
    #[must_use]
    #[inline]
    pub fn scatter(buffers: &'a mut [IoSliceMut<'a>]) -> Self {
        Self::with_buffers(Buffers::Many(buffers))
    }

    #[inline]
    fn with_buffers(buffers: Buffers<'a>) -> Self {
        Self { buffers, control: None, source: RawAddr::NONE, received: Received::NONE, meta: None }
    }

    /// Receives raw control messages into `control`.
    ///
    /// Needed only for control messages that [`RecvMeta`] has no field for.
    ///
    /// ```
    /// use mmsg::control::ControlBuf;
    /// use mmsg::{Ancillary, BatchSocket, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// Ancillary::TIMESTAMP.require(&socket)?;
    /// let (mut buffer, mut control) = ([0; 1500], ControlBuf::new());
    /// let mut msg = RecvMsg::new(&mut buffer).with_control(&mut control);
    /// socket.recv_batch(std::slice::from_mut(&mut msg))?;
    /// for control in msg.message().control_messages() {
    ///     println!("level {}, type {}", control.level, control.ty);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn with_control(mut self, control: &'a mut ControlBuf) -> Self {
        control.clear();
        self.control = Some(control);
        self
    }
}

/// After a receive: its message.
impl RecvMsg<'_> {
    /// The message, with its [datagrams](Message::datagrams), a [reply](Message::reply) and its control messages.
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
    pub fn message(&self) -> Message<'_> {
        let control = self.control.as_deref().map_or(&[][..], ControlBuf::as_bytes);
        let envelope = Envelope::new(self.source.lend(), self.meta());
        Message::new(self.parts(), self.received, envelope, control)
    }

    /// Bytes received, at most the buffers' capacity.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.received.len
    }

    /// Whether the payload is empty. An empty datagram is a message like any other.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in the first buffer that holds any: all bytes received, unless the message was built
    /// by [`scatter`](Self::scatter).
    #[must_use]
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.parts().head()
    }

    /// The bytes of [`data`](Self::data), mutable.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        let mut buffers = self.buffers.as_mut_slice().iter_mut();
        let first = buffers.find(|buffer| !buffer.is_empty());
        first.map_or(&mut [], |buffer| {
            let len = len.min(buffer.len());
            &mut buffer[..len]
        })
    }

    /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
    #[must_use]
    #[inline]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source.lend().get()
    }

    /// The message's metadata.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> &RecvMeta {
        self.meta.as_ref().unwrap_or(&RecvMeta::NONE)
    }

    /// Whether bytes are missing, because the message was longer than the buffers. Where the system coalesces datagrams,
    /// a message from an Internet address also counts as truncated if its control data was truncated and holds no
    /// segment size: its datagram boundaries may be lost.
    #[doc(alias = "MSG_TRUNC")]
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.received.truncated()
    }

    /// Stores a message as if it had been received, for implementations of [`BatchSocket`](crate::BatchSocket) without
    /// a kernel socket.
    ///
    /// Copies `data` into the buffers in order. If not all of it fits, the message is
    /// [`truncated`](Self::truncated).
    ///
    /// ```
    /// let mut buffer = [0; 4];
    /// let mut msg = mmsg::RecvMsg::new(&mut buffer);
    /// msg.fill(b"hello", "[::1]:53".parse().ok(), mmsg::RecvMeta::default());
    /// assert_eq!((msg.data(), msg.truncated()), (&b"hell"[..], true));
    /// ```
    pub fn fill(&mut self, data: &[u8], source: Option<SocketAddr>, meta: RecvMeta) {
        let mut rest = data;
        for buffer in self.buffers.as_mut_slice() {
            let (now, later) = rest.split_at(rest.len().min(buffer.len()));
            buffer[..now.len()].copy_from_slice(now);
            rest = later;
        }
        let result = RecvResult::of(data.len(), data.len() - rest.len());
        if let Some(control) = &mut self.control {
            control.clear();
        }
        self.source = RawAddr::new(source.as_ref());
        self.meta = Some(meta);
        self.received = Received::new(&result, self.capacity(), &meta, || self.source.lend());
    }

    /// Lends the memory that a receive writes to.
    ///
    /// # Errors
    ///
    /// The error of [`RecvHeaders::push`].
    #[inline]
    pub(crate) fn lend_to<'s>(&'s mut self, headers: &mut RecvHeaders<'s>) -> io::Result<()> {
        let control = self.control.as_deref_mut().map(ControlBuf::bytes_mut);
        headers.push(self.buffers.as_mut_slice(), Some(self.source.name_mut()), control)
    }

    /// Takes over the results of a receive into header `i`.
    #[inline]
    pub(crate) fn read_back(&mut self, headers: &RecvStorage, i: usize) {
        let result = headers.result(i);
        self.source.set_len(result.source_len);
        let control = match &mut self.control {
            Some(control) => control.filled(result.control_len),
            None => headers.control(i, &result),
        };
        RecvMeta::decode(control, &mut self.meta);
        let capacity = self.capacity();
        self.received = Received::new(&result, capacity, self.meta(), || self.source.lend());
    }

    /// Capacity of the buffers in bytes.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        scattered::capacity(self.buffers.as_slice())
    }

    fn parts(&self) -> Parts<'_> {
        Parts::many(self.buffers.as_slice(), self.received.len)
    }
}

/// Shows no payload.
impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("capacity", &self.capacity())
            .field("addr", &self.source.lend())
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

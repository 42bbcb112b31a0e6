//! A message in the caller's memory.

#![allow(unsafe_code)]

use std::fmt;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;

use crate::ancillary::{ControlBuf, RecvMeta};
use crate::recv::datagram::Origin;
use crate::recv::message::Message;
use crate::sys::{
    self, BorrowedSocket, Flags, Name, RawAddr, RecvBuffers, RecvResult, RecvStorage, encode_addr,
};

/// Memory for one message, and after a receive the message itself.
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
///     println!("{} bytes from {:?}", msg.data().len(), msg.message().addr());
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
/// println!("{}", msg.data().len());
/// ```
///
/// ```compile_fail,E0597
/// let msg = {
///     let mut buffer = [0; 1500];
///     mmsg::RecvMsg::new(&mut buffer)
/// };
/// println!("{}", msg.data().len());
/// ```
///
/// ```compile_fail,E0502
/// let mut buffer = [0; 1500];
/// let msg = mmsg::RecvMsg::new(&mut buffer);
/// println!("{}", buffer[0]);
/// println!("{}", msg.data().len());
/// ```
#[doc(alias("msghdr", "mmsghdr", "recvmsg"))]
pub struct RecvMsg<'a> {
    buffers: RecvBuffers<'a>,
    control: Option<&'a mut ControlBuf>,
    /// `None` until the first receive: a new message then writes no memory for it.
    source: Option<Name>,
    result: RecvResult,
    meta: Option<RecvMeta>,
}

impl<'a> RecvMsg<'a> {
    /// A message in `buffer`.
    ///
    /// A datagram longer than the buffer is [`truncated`](Message::truncated). 65,535 bytes hold any UDP
    /// datagram and any coalesced message.
    #[must_use]
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self::with_buffers(RecvBuffers::new(buffer))
    }

    /// A message in `buffer`, which may be uninitialised: the spare capacity of a `Vec<u8>` or a `BytesMut`.
    ///
    /// [`data`](Self::data) is always initialised. If it begins where the buffer begins, `set_len` may rely on its length,
    /// whatever the receive returned. It begins there after a receive of this crate's sockets; an
    /// implementation of [`BatchSocket`](crate::BatchSocket) by others may put another `RecvMsg` in this one's place, so compare
    /// the pointers:
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut buffer: Vec<u8> = Vec::with_capacity(8192);
    /// let mut msgs = [RecvMsg::uninit(buffer.spare_capacity_mut())];
    /// socket.recv_batch(&mut msgs)?;
    /// let (start, len) = (msgs[0].data().as_ptr(), msgs[0].data().len());
    /// assert_eq!(start, buffer.as_ptr());
    /// // SAFETY: the message has initialised `len` bytes from `start`, where the empty vector begins.
    /// unsafe { buffer.set_len(len) };
    /// assert_eq!(buffer, b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// On Windows, `uninit` writes zeros into the whole buffer: the system does not tell the length of each message.
    #[doc(alias("MaybeUninit", "spare_capacity_mut", "BytesMut", "ReadBuf"))]
    #[must_use]
    #[inline]
    pub fn uninit(buffer: &'a mut [MaybeUninit<u8>]) -> Self {
        Self::with_buffers(RecvBuffers::uninit(buffer))
    }

    /// A message in several buffers, filled in order: a header here, its payload there. [`slices`](Self::slices) gives what
    /// came into each.
    ///
    /// It is not split: with GRO on, an [`Offload`](crate::Offload) returns `InvalidInput` before it receives anything. With
    /// more than 1,024 buffers (`IOV_MAX`) a receive returns `EMSGSIZE` before it receives anything.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvMsg};
    /// use std::io::IoSliceMut;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let (mut header, mut payload) = ([0; 2], [0; 1500]);
    /// let mut buffers = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut payload)];
    /// let mut msgs = [RecvMsg::scatter(&mut buffers)];
    /// socket.recv_batch(&mut msgs)?;
    /// assert!(msgs[0].slices().eq([&b"he"[..], b"llo"]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("iovec", "readv"))]
    #[must_use]
    #[inline]
    pub fn scatter(buffers: &'a mut [IoSliceMut<'_>]) -> Self {
        Self::with_buffers(RecvBuffers::list(buffers))
    }

    #[inline]
    fn with_buffers(buffers: RecvBuffers<'a>) -> Self {
        let result = RecvResult::of(0, 0, 0);
        Self { buffers, control: None, source: None, result, meta: None }
    }

    /// Keeps the raw control messages of each receive in `control`, for those that [`RecvMeta`] lacks.
    ///
    /// [`Message::control_messages`] reads them while the message lives, [`ControlBuf::messages`] afterwards.
    ///
    /// ```
    /// use mmsg::control::ControlBuf;
    /// use mmsg::{Ancillary, BatchSocket, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// Ancillary::TIMESTAMP.require(&socket)?;
    /// let (mut buffer, mut control) = ([0; 1500], ControlBuf::new());
    /// let mut msgs = [RecvMsg::new(&mut buffer).with_control(&mut control)];
    /// socket.recv_batch(&mut msgs)?;
    /// for control in msgs[0].message().control_messages() {
    ///     println!("level {}, type {}: {} bytes", control.level, control.ty, control.data.len());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("cmsghdr", "msg_control", "OOB"))]
    #[must_use]
    #[inline]
    pub fn with_control(mut self, control: &'a mut ControlBuf) -> Self {
        control.set(&[]);
        self.control = Some(control);
        self
    }

    /// The message, with its [datagrams](Message::datagrams) and a [reply](Message::reply).
    ///
    /// Of [several buffers](Self::scatter) it has the bytes in the first. It is [`truncated`](Message::truncated) if bytes
    /// are missing behind the last; its datagram also if more came into the others.
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
        let data = self.data();
        let control = self.control.as_deref().map_or(&[][..], ControlBuf::as_bytes);
        let has_all = data.len() == self.len();
        Message::new(data, &self.result, self.origin(), control).with_all(has_all)
    }

    /// Bytes received, at most the capacity of the buffers.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.result.len.min(self.buffers.capacity())
    }

    /// The bytes received, of [several buffers](Self::scatter) those in the first.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.buffers.first(self.result.len)
    }

    /// The bytes of [`data`](Self::data), mutable.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.buffers.first_mut(self.result.len)
    }

    /// The bytes received, a slice for each buffer, empty for those that nothing came into.
    ///
    /// ```
    /// use std::io::IoSliceMut;
    /// let (mut header, mut payload, mut rest) = ([0; 2], [0; 8], [0; 8]);
    /// let mut buffers = [&mut header[..], &mut payload, &mut rest].map(IoSliceMut::new);
    /// let mut msg = mmsg::RecvMsg::scatter(&mut buffers);
    /// msg.fill(b"hello", None, mmsg::RecvMeta::default());
    /// assert!(msg.slices().eq([&b"he"[..], b"llo", b""]));
    /// ```
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.buffers.slices(self.result.len)
    }

    /// Stores a message as if it had been received, for implementations of [`BatchSocket`](crate::BatchSocket) without
    /// a kernel socket.
    ///
    /// If not all of `data` fits into the buffers, the message is [`truncated`](Message::truncated). It has no raw control messages.
    ///
    /// ```
    /// let mut buffer = [0; 4];
    /// let mut msg = mmsg::RecvMsg::new(&mut buffer);
    /// msg.fill(b"hello", "[::1]:53".parse().ok(), mmsg::RecvMeta::default());
    /// assert_eq!((msg.data(), msg.message().truncated()), (&b"hell"[..], true));
    /// ```
    pub fn fill(&mut self, data: &[u8], source: Option<SocketAddr>, meta: RecvMeta) {
        let copied = self.buffers.fill(data);
        if let Some(control) = &mut self.control {
            control.set(&[]);
        }
        let name = self.source.insert(RawAddr::NO_NAME);
        let source_len = source.map_or(0, |source| encode_addr(&source, name));
        self.result = RecvResult::of(data.len(), copied, source_len);
        self.meta = Some(meta);
    }

    /// Takes over the results of a receive into header `i`.
    ///
    /// # Safety
    ///
    /// The last call received into header `i` and had this message's buffers for it.
    #[inline]
    unsafe fn read_back(&mut self, headers: &RecvStorage, i: usize) {
        self.result = headers.result(i);
        // SAFETY: a header's length is 0 until a call has written that many bytes into its buffers.
        unsafe { self.buffers.assume_init(self.result.len) };
        self.source = Some(*headers.name(i));
        let control = headers.control(i, &self.result);
        RecvMeta::decode(control, &mut self.meta);
        if let Some(kept) = &mut self.control {
            kept.set(control);
        }
    }

    /// Everything but the payload.
    pub(super) fn attributes(&self) -> (RecvResult, Name, RecvMeta) {
        (self.result, self.source.unwrap_or(RawAddr::NO_NAME), *self.origin().meta)
    }

    #[inline]
    fn origin(&self) -> Origin<'_> {
        let name = self.source.as_ref().unwrap_or(&RawAddr::NO_NAME);
        let meta = self.meta.as_ref().unwrap_or(&RecvMeta::NONE);
        Origin { source: RawAddr::new(name, self.result.source_len), meta }
    }

    /// Bytes of a coalesced message that fit: none into several buffers, since it could not be split there.
    #[inline]
    pub(crate) fn coalesced_capacity(&self) -> usize {
        if self.buffers.is_list() { 0 } else { self.buffers.capacity() }
    }
}

/// Receives into the messages, in order.
#[inline]
pub(crate) fn recv(
    storage: &mut RecvStorage,
    socket: BorrowedSocket<'_>,
    msgs: &mut [RecvMsg<'_>],
    flags: Flags,
) -> io::Result<usize> {
    let offered = msgs.len().min(flags.max_recv());
    storage.reserve(offered)?;
    let mut headers = storage.begin();
    for msg in &mut msgs[..offered] {
        headers.push(&mut msg.buffers)?;
    }
    let count = sys::recv(socket, headers.prepared(), flags)?.count;
    for (i, msg) in msgs[..count].iter_mut().enumerate() {
        // SAFETY: the call had these messages' buffers for its headers, in this order.
        unsafe { msg.read_back(storage, i) };
    }
    Ok(count)
}

/// Shows no payload.
impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("capacity", &self.buffers.capacity())
            .field("addr", &self.origin().source)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

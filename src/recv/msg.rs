//! One received message in memory that the caller lends.

use std::fmt;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::{ptr, slice};

use crate::ancillary::{ControlBuf, ControlMessages, ControlSpace, RecvMeta};
use crate::recv::datagram::{self, Datagrams, Meta, Received, Truncation};
use crate::recv::scattered::{self, Parts, Slices};
use crate::send::msg::SendMsg;
use crate::sys::{MAX_BUFFERS, OwnedSocket, RawAddr};

/// A buffer for one message, and after a receive the message in it.
///
/// A call sets the messages that its result counts; the others keep their contents. A `RecvMsg` can
/// be used for any number of calls.
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
pub struct RecvMsg<'a> {
    space: RecvSpace<'a>,
    source: RawAddr,
    received: Received,
    /// Valid if `received` says that the message has metadata.
    meta: RecvMeta,
}

/// The borrowed memory. The common case, one buffer, has its own variant.
enum RecvSpace<'a> {
    /// One buffer and nothing else.
    Plain(IoSliceMut<'a>),
    /// Any number of buffers, with or without memory for control data and descriptors.
    Full {
        buffers: RecvBuffers<'a>,
        control: Option<&'a mut ControlSpace>,
        fds: Option<&'a mut Vec<OwnedSocket>>,
    },
}

/// One buffer, or several that are filled in order.
enum RecvBuffers<'a> {
    One(IoSliceMut<'a>),
    Many(&'a mut [IoSliceMut<'a>]),
}

impl<'a> RecvMsg<'a> {
    /// A message in one buffer.
    ///
    /// A datagram longer than the buffer is [`truncated`](Self::truncated). 65,535 bytes hold any UDP
    /// datagram and any coalesced message.
    #[must_use]
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        // Windows stores a buffer's length in 32 bits; no message is as long.
        let len = buffer.len().min(u32::MAX as usize);
        Self::with_space(RecvSpace::Plain(IoSliceMut::new(&mut buffer[..len])))
    }

    /// A message in several buffers, filled in order.
    ///
    /// Unix takes up to 1,024 buffers (`IOV_MAX`); with more the receive fails with `EMSGSIZE`, and
    /// nothing is received.
    #[must_use]
    #[inline]
    pub fn scatter(buffers: &'a mut [IoSliceMut<'a>]) -> Self {
        Self::with_space(RecvSpace::Full {
            buffers: RecvBuffers::Many(buffers),
            control: None,
            fds: None,
        })
    }

    #[inline]
    fn with_space(space: RecvSpace<'a>) -> Self {
        Self { space, source: RawAddr::NONE, received: Received::NONE, meta: RecvMeta::NONE }
    }

    /// Receives raw control messages into `control`.
    ///
    /// Needed only for control messages that [`RecvMeta`] has no field for. Stays empty on Windows.
    #[must_use]
    #[inline]
    pub fn with_control(mut self, control: &'a mut ControlBuf<'_>) -> Self {
        control.clear();
        let (buffers, fds) = match self.space {
            RecvSpace::Plain(buffer) => (RecvBuffers::One(buffer), None),
            RecvSpace::Full { buffers, fds, .. } => (buffers, fds),
        };
        self.space = RecvSpace::Full { buffers, control: Some(control.space_mut()), fds };
        self
    }

    /// Receives the message's descriptors into `fds` (`SCM_RIGHTS`, on a Unix socket). Without `fds`
    /// a receive closes them.
    ///
    /// A receive that fills this message closes the descriptors still in `fds`, then adds the new
    /// ones. [`CONTROL_SPACE`](crate::CONTROL_SPACE) bytes of control data hold over 100 descriptors;
    /// the kernel closes any more, and the message is
    /// [`control_truncated`](Self::control_truncated). Descriptors of `SCM_PIDFD` are always closed.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::{BatchSocket, ControlBuf, RecvMsg, SendMsg};
    /// use std::os::{fd::AsFd, unix::net::UnixDatagram};
    ///
    /// let (near, far) = UnixDatagram::pair()?;
    /// let file = std::fs::File::open("/dev/null")?;
    /// let mut control = ControlBuf::new();
    /// control.push_fds(&[file.as_fd()])?;
    /// near.send_batch(&[SendMsg::new(b"a file").with_control(&control)])?;
    ///
    /// let (mut buffer, mut fds) = ([0; 16], Vec::new());
    /// far.recv_batch(&mut [RecvMsg::new(&mut buffer).with_fds(&mut fds)])?;
    /// let file = std::fs::File::from(fds.pop().expect("one came"));
    /// # drop(file);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn with_fds(mut self, fds: &'a mut Vec<OwnedSocket>) -> Self {
        fds.clear();
        let (buffers, control) = match self.space {
            RecvSpace::Plain(buffer) => (RecvBuffers::One(buffer), None),
            RecvSpace::Full { buffers, control, .. } => (buffers, control),
        };
        self.space = RecvSpace::Full { buffers, control, fds: Some(fds) };
        self
    }

    /// Bytes received, at most the buffers' capacity.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.received.reported.min(self.capacity())
    }

    /// Whether the payload is empty; an empty datagram is a message, too.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message's length in bytes before truncation; `None` if it was truncated and the system did
    /// not report it (see [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN)).
    #[must_use]
    pub fn full_len(&self) -> Option<usize> {
        self.received.full_len(self.len())
    }

    /// The bytes in the first buffer that holds any: all bytes received, unless the message was built
    /// by [`scatter`](Self::scatter).
    #[must_use]
    #[inline]
    pub fn data(&self) -> &[u8] {
        match &self.space {
            RecvSpace::Plain(buffer) => &buffer[..self.received.reported.min(buffer.len())],
            RecvSpace::Full { .. } => self.parts().head(),
        }
    }

    /// The bytes of [`data`](Self::data), mutable.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = self.data().len();
        let mut buffers = self.full_space().0.iter_mut();
        // `data` skips empty buffers, too.
        buffers.find(|buffer| !buffer.is_empty()).map_or(&mut [], |first| &mut first[..len])
    }

    /// The bytes received, buffer by buffer.
    #[must_use]
    pub fn slices(&self) -> Slices<'_> {
        self.parts().slices()
    }

    /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
    #[must_use]
    #[inline]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source.get()
    }

    /// The message's metadata.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> RecvMeta {
        self.meta_ref().get()
    }

    /// A datagram with `data` to this message's source. With
    /// [`Ancillary::DEST`](crate::Ancillary::DEST) enabled it leaves from the address that the
    /// message was sent to (see [`RecvMeta::reply`]), otherwise from the address that the system picks.
    ///
    /// `None` if nobody can be answered: no Internet address, an unspecified address, or source port
    /// 0, which means that the sender expects no reply (RFC 768).
    #[must_use]
    pub fn reply<'d>(&self, data: &'d [u8]) -> Option<SendMsg<'d>> {
        datagram::reply(self.addr(), &self.meta(), data)
    }

    /// Whether bytes or datagram boundaries are missing: the message was longer than the buffers, or it
    /// came from an Internet address and truncation of its control data lost the segment size.
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.received.truncated()
    }

    /// Whether control messages are missing.
    #[must_use]
    #[inline]
    pub fn control_truncated(&self) -> bool {
        self.received.control_truncated()
    }

    /// All control messages, if the message has a [`ControlBuf`].
    #[must_use]
    pub fn control_messages(&self) -> ControlMessages<'_> {
        match &self.space {
            RecvSpace::Full { control: Some(control), .. } => control.messages(),
            _ => ControlMessages::new(&[]),
        }
    }

    /// The datagrams in the message: one, or the segments of a coalesced message (see [`Datagrams`]).
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'_> {
        Datagrams::new(self.parts(), self.source.lend(), &self.received, self.meta_ref())
    }

    #[inline(always)]
    fn meta_ref(&self) -> Meta<'_> {
        Meta::new(self.received.has_meta.then_some(&self.meta), &[])
    }

    /// Stores a message as if it had been received: for implementations of
    /// [`BatchSocket`](crate::BatchSocket) that stand in for a socket.
    ///
    /// Copies `data` into the buffers in order. If not all of it fits, the message is
    /// [`truncated`](Self::truncated).
    ///
    /// ```
    /// let mut buffer = [0; 4];
    /// let mut msg = mmsg::RecvMsg::new(&mut buffer);
    /// msg.fill(b"hello", "[::1]:53".parse().ok(), mmsg::RecvMeta::default());
    /// assert_eq!((msg.data(), msg.truncated(), msg.full_len()), (&b"hell"[..], true, Some(5)));
    /// ```
    pub fn fill(&mut self, data: &[u8], source: Option<SocketAddr>, meta: RecvMeta) {
        let mut rest = data;
        let mut copy = |buffer: &mut [u8]| {
            let (now, later) = rest.split_at(rest.len().min(buffer.len()));
            buffer[..now.len()].copy_from_slice(now);
            rest = later;
        };
        self.full_space().0.iter_mut().for_each(|buffer| copy(buffer));
        let truncation = Truncation { data: !rest.is_empty(), ..Truncation::NONE };
        self.read_control(&[]);
        self.clear_fds();
        self.source = RawAddr::new(source.as_ref());
        self.meta = meta;
        let segment_size = meta.segment_size.filter(|size| *size > 0);
        let reported = data.len();
        self.received = Received { reported, segment_size, truncation, has_meta: true };
    }

    #[inline]
    fn buffers(&self) -> &[IoSliceMut<'a>] {
        match &self.space {
            RecvSpace::Plain(buffer)
            | RecvSpace::Full { buffers: RecvBuffers::One(buffer), .. } => slice::from_ref(buffer),
            RecvSpace::Full { buffers: RecvBuffers::Many(buffers), .. } => buffers,
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts::many(self.buffers(), self.received.reported)
    }

    /// What a receive may write to: the buffer and the source address, if there is nothing else.
    #[inline]
    pub(crate) fn plain_space(&mut self) -> Option<(&mut IoSliceMut<'a>, &mut RawAddr)> {
        match &mut self.space {
            RecvSpace::Plain(buffer) => Some((buffer, &mut self.source)),
            RecvSpace::Full { .. } => None,
        }
    }

    /// What a receive may write to: buffers, the message's own memory for control data if it has any,
    /// and the source address.
    pub(crate) fn full_space(
        &mut self,
    ) -> (&mut [IoSliceMut<'a>], Option<&mut [u8]>, &mut RawAddr) {
        let (buffers, control) = match &mut self.space {
            RecvSpace::Plain(buffer) => (slice::from_mut(buffer), None),
            RecvSpace::Full { buffers: RecvBuffers::One(buffer), control, .. } => {
                (slice::from_mut(buffer), control.as_deref_mut())
            }
            RecvSpace::Full { buffers: RecvBuffers::Many(buffers), control, .. } => {
                (&mut **buffers, control.as_deref_mut())
            }
        };
        (buffers, control.map(ControlSpace::bytes_mut), &mut self.source)
    }

    /// Closes the descriptors of the message before.
    pub(crate) fn clear_fds(&mut self) {
        if let RecvSpace::Full { fds: Some(fds), .. } = &mut self.space {
            fds.clear();
        }
    }

    /// Stores a received descriptor, or closes it.
    #[cfg_attr(single_message, allow(dead_code))] // No descriptors there.
    pub(crate) fn push_fd(&mut self, fd: OwnedSocket) {
        if let RecvSpace::Full { fds: Some(fds), .. } = &mut self.space {
            fds.push(fd);
        }
    }

    /// The source address, for the kernel to write.
    #[inline]
    pub(crate) fn source_mut(&mut self) -> &mut RawAddr {
        &mut self.source
    }

    /// The address of the first buffer, which identifies the message's slot.
    pub(crate) fn start(&self) -> *const u8 {
        self.buffers().first().map_or(ptr::null(), |buffer| buffer.as_ptr())
    }

    /// Whether the system accepts the number of buffers.
    #[inline]
    pub(crate) fn can_be_filled(&self) -> bool {
        self.buffers().len() <= MAX_BUFFERS
    }

    /// Capacity of the buffers in bytes.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        match &self.space {
            RecvSpace::Plain(buffer) => buffer.len(),
            RecvSpace::Full { .. } => scattered::capacity(self.buffers()),
        }
    }

    /// Decodes the control data of a received message and returns the segment size. The kernel wrote
    /// `written.len()` bytes: into the message's own [`ControlBuf`] if it has one, else into `written`.
    #[inline]
    pub(crate) fn read_control(&mut self, written: &[u8]) -> Option<u16> {
        let control = match &mut self.space {
            RecvSpace::Full { control: Some(control), .. } => {
                control.set_len(written.len());
                control.as_bytes()
            }
            _ => written,
        };
        if control.is_empty() {
            return None;
        }
        self.meta = RecvMeta::decode(control);
        self.meta.segment_size
    }

    #[inline]
    pub(crate) fn set_received(&mut self, received: Received) {
        self.received = received;
    }

    pub(crate) fn received(&self) -> Received {
        self.received
    }

    /// Everything about the message but its payload.
    pub(crate) fn known(&self) -> (Received, RawAddr, RecvMeta) {
        let meta = if self.received.has_meta { self.meta } else { RecvMeta::NONE };
        (self.received, self.source, meta)
    }
}

impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("capacity", &self.capacity())
            .field("addr", &self.source)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

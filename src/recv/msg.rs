//! One received message in memory that the caller lends: the memory, and a receive into it.

mod contents;

use std::fmt;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::{ptr, slice};

use crate::ancillary::{ControlBuf, ControlSpace, RecvMeta};
use crate::recv::received::Received;
use crate::recv::space::{Extra, RecvSpace};
use crate::sys::{MAX_BUFFERS, OwnedSocket, RawAddr, RecvHeaders, RecvResult, Row, UnixAddrBuf};

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
#[doc(alias("msghdr", "mmsghdr", "recvmsg"))]
pub struct RecvMsg<'a> {
    space: RecvSpace<'a>,
    source: RawAddr,
    received: Received,
    /// Valid if `received` says that the message has metadata.
    meta: RecvMeta,
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
        Self::with_space(RecvSpace::one(&mut buffer[..len]))
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
    /// assert!(msg.slices().eq([&b"he"[..], b"llo"]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("iovec", "readv"))]
    #[must_use]
    #[inline]
    pub fn scatter(buffers: &'a mut [IoSliceMut<'a>]) -> Self {
        Self::with_space(RecvSpace::many(buffers))
    }

    #[inline]
    fn with_space(space: RecvSpace<'a>) -> Self {
        Self { space, source: RawAddr::NONE, received: Received::NONE, meta: RecvMeta::NONE }
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
    /// for control in msg.control_messages() {
    ///     println!("level {}, type {}", control.level, control.ty);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn with_control(self, control: &'a mut ControlBuf<'_>) -> Self {
        control.clear();
        self.with_extra(|extra| extra.control = Some(control.space_mut()))
    }

    /// Receives the message's descriptors into `fds` (`SCM_RIGHTS`, on a Unix socket). Without `fds`
    /// a receive closes them.
    ///
    /// A receive that fills this message closes the descriptors still in `fds`, then adds the new
    /// ones. [`CONTROL_SPACE`](crate::control::CONTROL_SPACE) bytes of control data hold over 100 descriptors;
    /// the kernel closes any more, and the message is
    /// [`control_truncated`](Self::control_truncated). Descriptors of `SCM_PIDFD` are always closed.
    /// `OwnedSocket` is std's `OwnedFd`; on Windows, which has no such descriptors, its `OwnedSocket`.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::control::ControlBuf;
    /// use mmsg::{BatchSocket, RecvMsg, SendMsg};
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
    #[doc(alias = "SCM_RIGHTS")]
    #[must_use]
    pub fn with_fds(self, fds: &'a mut Vec<OwnedSocket>) -> Self {
        fds.clear();
        self.with_extra(|extra| extra.fds = Some(fds))
    }

    /// Receives the source into `addr`, which has space for the address of a Unix socket; see
    /// [`unix_addr`](Self::unix_addr). Internet addresses need no such memory.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::{BatchSocket, RecvMsg, UnixAddr, UnixAddrBuf};
    /// use std::os::unix::net::UnixDatagram;
    ///
    /// let (near, far) = UnixDatagram::pair()?;
    /// near.send(b"hello")?;
    /// let (mut buffer, mut addr) = ([0; 1500], UnixAddrBuf::new());
    /// let mut msg = RecvMsg::new(&mut buffer).with_unix_addr(&mut addr);
    /// far.recv_batch(std::slice::from_mut(&mut msg))?;
    /// assert_eq!(msg.unix_addr(), Some(UnixAddr::Unnamed));
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn with_unix_addr(self, addr: &'a mut UnixAddrBuf) -> Self {
        addr.space().set(None);
        self.with_extra(|extra| extra.source = Some(addr))
    }

    #[inline]
    fn with_extra(mut self, set: impl FnOnce(&mut Extra<'a>)) -> Self {
        self.space = self.space.with_extra(set);
        self
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
        self.space.buffers_mut().iter_mut().for_each(|buffer| copy(buffer));
        let result = RecvResult {
            len: data.len(),
            truncated: !rest.is_empty(),
            control_truncated: false,
            source_len: 0,
            control_len: 0,
        };
        self.space.set_control_len(0);
        self.clear_fds();
        self.space.source_mut(&mut self.source).set(source.as_ref());
        self.meta = meta;
        self.received = Received::new(&result, Some(&meta), || false);
    }

    /// Lends all that a receive may write to.
    #[inline]
    pub(crate) fn lend_to<'s>(&'s mut self, headers: &mut RecvHeaders<'s>) {
        let source = self.source.space();
        match &mut self.space {
            RecvSpace::Plain(buffer) => headers.push(slice::from_mut(buffer), source, None),
            RecvSpace::Full { buffers, extra } => {
                let source = extra.source.as_deref_mut().map_or(source, UnixAddrBuf::space);
                let control = extra.control.as_deref_mut().map(ControlSpace::bytes_mut);
                if extra.fds.is_some() {
                    headers.accept_fds();
                }
                headers.push(buffers.as_mut(), source, control);
            }
        }
    }

    /// Reads what a receive has left.
    #[inline]
    pub(crate) fn read_back(&mut self, row: Row<'_>) {
        let result = row.result();
        self.space.source_mut(&mut self.source).set_len(result.source_len);
        self.space.set_control_len(result.control_len);
        let has_meta = result.control_len > 0;
        if has_meta {
            self.meta.set(self.space.control().map_or(row.control(), ControlSpace::as_bytes));
        }
        let meta = has_meta.then_some(&self.meta);
        self.received = Received::new(&result, meta, || self.addr().is_some());
        self.clear_fds();
    }

    /// Closes the descriptors of the message before.
    #[inline]
    pub(crate) fn clear_fds(&mut self) {
        if let Some(fds) = self.space.fds_mut() {
            fds.clear();
        }
    }

    /// Stores a received descriptor, or closes it.
    pub(crate) fn push_fd(&mut self, fd: OwnedSocket) {
        if let Some(fds) = self.space.fds_mut() {
            fds.push(fd);
        }
    }

    /// The address of the first buffer, which identifies the message's slot.
    pub(crate) fn start(&self) -> *const u8 {
        self.space.buffers().first().map_or(ptr::null(), |buffer| buffer.as_ptr())
    }

    /// Whether the system accepts the number of buffers.
    #[inline]
    pub(crate) fn can_be_filled(&self) -> bool {
        self.space.buffers().len() <= MAX_BUFFERS
    }

    /// Capacity of the buffers in bytes.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.space.capacity()
    }

    pub(crate) fn received(&self) -> Received {
        self.received
    }

    /// Everything about the message but its payload and its source.
    pub(crate) fn known(&self) -> (RecvResult, RecvMeta) {
        let Received { reported, truncation, has_meta, .. } = self.received;
        let result = RecvResult {
            len: reported,
            truncated: truncation.data,
            control_truncated: truncation.control,
            source_len: 0,
            control_len: 0,
        };
        (result, if has_meta { self.meta } else { RecvMeta::NONE })
    }
}

impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("capacity", &self.capacity())
            .field("addr", &self.source())
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

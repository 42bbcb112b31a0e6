//! What comes out: one message received into memory that the caller lends.

use std::fmt;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::{ptr, slice};

use crate::ancillary::ControlRoom;
use crate::message::{self, Meta, Received, Truncation};
use crate::parts::{self, Parts, Slices};
use crate::sys::{MAX_BUFFERS, OwnedSocket, RawAddr};
use crate::{ControlBuf, ControlMessages, Datagrams, RecvMeta, SendMsg};

/// RecvSpace for one message, and after a receive call the message in it.
///
/// Only the messages that a call counts in its result are set by it; the others keep what they
/// held. A `RecvMsg` can be used for any number of calls.
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
/// Its buffer is borrowed for as long as it lives:
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
    room: RecvSpace<'a>,
    source: RawAddr,
    received: Received,
    /// Not looked at unless `received` says that it has metadata.
    meta: RecvMeta,
}

/// The memory lent. Mostly it is plain, and one look tells.
enum RecvSpace<'a> {
    /// One buffer and nothing else.
    Plain(IoSliceMut<'a>),
    /// Whatever there may be.
    Full {
        buffers: RecvBuffers<'a>,
        control: Option<&'a mut ControlRoom>,
        fds: Option<&'a mut Vec<OwnedSocket>>,
    },
}

/// One buffer, or several that are filled in order.
enum RecvBuffers<'a> {
    One(IoSliceMut<'a>),
    Many(&'a mut [IoSliceMut<'a>]),
}

impl<'a> RecvMsg<'a> {
    /// RecvSpace in one buffer.
    ///
    /// A datagram longer than the buffer is truncation, and [`truncated`](Self::truncated) says so.
    /// 65,535 bytes hold any UDP datagram and any train.
    #[must_use]
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        // Windows counts the bytes of a buffer in 32 bits, and no message comes near that.
        let len = buffer.len().min(u32::MAX as usize);
        Self::with_space(RecvSpace::Plain(IoSliceMut::new(&mut buffer[..len])))
    }

    /// RecvSpace in several buffers, filled in order.
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
    fn with_space(room: RecvSpace<'a>) -> Self {
        Self { room, source: RawAddr::NONE, received: Received::NONE, meta: RecvMeta::NONE }
    }

    /// The same room with `control` for the control messages, to read them raw.
    ///
    /// Needed only for those that [`RecvMeta`] has no field for. Stays empty on Windows.
    #[must_use]
    #[inline]
    pub fn with_control(mut self, control: &'a mut ControlBuf<'_>) -> Self {
        control.clear();
        let (buffers, fds) = match self.room {
            RecvSpace::Plain(buffer) => (RecvBuffers::One(buffer), None),
            RecvSpace::Full { buffers, fds, .. } => (buffers, fds),
        };
        self.room = RecvSpace::Full { buffers, control: Some(control.room()), fds };
        self
    }

    /// The same room, and `fds` for the descriptors that come with the message (`SCM_RIGHTS`, on a
    /// Unix socket). They are closed on received otherwise.
    ///
    /// A receive that fills this message closes what `fds` still holds, and puts the new ones into
    /// it. Up to [`CONTROL_SPACE`](crate::CONTROL_SPACE) bytes of control data come with a message,
    /// which is room for over 100 descriptors; if there are more, the kernel closes them, and
    /// [`control_truncated`](Self::control_truncated) says so. Descriptors of `SCM_PIDFD` are
    /// always closed.
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
        let (buffers, control) = match self.room {
            RecvSpace::Plain(buffer) => (RecvBuffers::One(buffer), None),
            RecvSpace::Full { buffers, control, .. } => (buffers, control),
        };
        self.room = RecvSpace::Full { buffers, control, fds: Some(fds) };
        self
    }

    /// Bytes received, at most what the buffers hold.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.received.reported.min(self.capacity())
    }

    /// Whether no bytes were received: an empty datagram is one, too.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message's own length in bytes, also if it was cut; `None` where the system did not
    /// tell (see [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN)).
    #[must_use]
    pub fn full_len(&self) -> Option<usize> {
        self.received.full_len(self.len())
    }

    /// The bytes received, as far as they lie in the first buffer that holds any: all of them,
    /// unless the message was built by [`scatter`](Self::scatter).
    #[must_use]
    #[inline]
    pub fn data(&self) -> &[u8] {
        match &self.room {
            RecvSpace::Plain(buffer) => &buffer[..self.received.reported.min(buffer.len())],
            RecvSpace::Full { .. } => self.parts().head(),
        }
    }

    /// The same bytes as [`data`](Self::data), to be changed in place.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = self.data().len();
        let mut buffers = self.full_space().0.iter_mut();
        // As `data` does: buffers without room are passed over.
        buffers.find(|buffer| !buffer.is_empty()).map_or(&mut [], |first| &mut first[..len])
    }

    /// The bytes received, buffer by buffer.
    #[must_use]
    pub fn slices(&self) -> Slices<'_> {
        self.parts().slices()
    }

    /// Where the message came from. `None` where the system gave no Internet address, as on a
    /// Unix socket.
    #[must_use]
    #[inline]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source.get()
    }

    /// What else the system told about the message.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> RecvMeta {
        self.meta_ref().get()
    }

    /// The datagram that answers this message with `data`: to where it came from, from the address
    /// that it was sent to where [`Ancillary::DEST`](crate::Ancillary::DEST) was enabled (see
    /// [`RecvMeta::reply`]), and else from the address that the system picks.
    ///
    /// `None` where there is nobody to answer: no Internet address, an unspecified address, or port
    /// 0, by which a sender says that it expects no reply (RFC 768) and to which nothing can be
    /// sent.
    #[must_use]
    pub fn reply<'d>(&self, data: &'d [u8]) -> Option<SendMsg<'d>> {
        message::reply(self.addr(), &self.meta(), data)
    }

    /// Whether bytes are missing, or where its datagrams end is not known: the message was longer than
    /// the buffers, or it came from an Internet address and its control data was truncated before a
    /// segment size.
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

    /// All control messages, if there was a [`ControlBuf`] for them.
    #[must_use]
    pub fn control_messages(&self) -> ControlMessages<'_> {
        match &self.room {
            RecvSpace::Full { control: Some(control), .. } => control.messages(),
            _ => ControlMessages::new(&[]),
        }
    }

    /// The datagrams in the message: one, or those of a train (see [`Datagrams`]).
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'_> {
        Datagrams::new(self.parts(), self.source.lend(), &self.received, self.meta_ref())
    }

    #[inline(always)]
    fn meta_ref(&self) -> Meta<'_> {
        Meta::new(self.received.has_meta.then_some(&self.meta), &[])
    }

    /// Takes a message as if it had been received: for implementations of
    /// [`BatchSocket`](crate::BatchSocket) that stand in for a socket.
    ///
    /// Copies `data` into the buffers in order. What does not fit is cut off, and the message is
    /// [`truncated`](Self::truncated) then.
    ///
    /// ```
    /// let mut buffer = [0; 4];
    /// let mut msg = mmsg::RecvMsg::new(&mut buffer);
    /// msg.fill(b"hello", "[::1]:53".parse().ok(), mmsg::RecvMeta::default());
    /// assert_eq!((msg.data(), msg.truncated(), msg.full_len()), (&b"hell"[..], true, Some(5)));
    /// ```
    pub fn fill(&mut self, data: &[u8], addr: Option<SocketAddr>, meta: RecvMeta) {
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
        self.source = RawAddr::new(addr.as_ref());
        self.meta = meta;
        let segment_size = meta.segment_size.filter(|size| *size > 0);
        let reported = data.len();
        self.received = Received { reported, segment_size, truncation, has_meta: true };
    }

    #[inline]
    fn buffers(&self) -> &[IoSliceMut<'a>] {
        match &self.room {
            RecvSpace::Plain(buffer)
            | RecvSpace::Full { buffers: RecvBuffers::One(buffer), .. } => slice::from_ref(buffer),
            RecvSpace::Full { buffers: RecvBuffers::Many(buffers), .. } => buffers,
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts::many(self.buffers(), self.received.reported)
    }

    /// What a receive may write to: one buffer and the room for an address, if that is all.
    #[inline]
    pub(crate) fn plain_space(&mut self) -> Option<(&mut IoSliceMut<'a>, &mut RawAddr)> {
        match &mut self.room {
            RecvSpace::Plain(buffer) => Some((buffer, &mut self.source)),
            RecvSpace::Full { .. } => None,
        }
    }

    /// What a receive may write to: buffers, the room for control data if it is not the arena's,
    /// and the room for an address.
    pub(crate) fn full_space(
        &mut self,
    ) -> (&mut [IoSliceMut<'a>], Option<&mut [u8]>, &mut RawAddr) {
        let (buffers, control) = match &mut self.room {
            RecvSpace::Plain(buffer) => (slice::from_mut(buffer), None),
            RecvSpace::Full { buffers: RecvBuffers::One(buffer), control, .. } => {
                (slice::from_mut(buffer), control.as_deref_mut())
            }
            RecvSpace::Full { buffers: RecvBuffers::Many(buffers), control, .. } => {
                (&mut **buffers, control.as_deref_mut())
            }
        };
        (buffers, control.map(ControlRoom::bytes_mut), &mut self.source)
    }

    /// Closes the descriptors that came before.
    pub(crate) fn clear_fds(&mut self) {
        if let RecvSpace::Full { fds: Some(fds), .. } = &mut self.room {
            fds.clear();
        }
    }

    /// Takes a descriptor that came, or closes it.
    #[cfg_attr(one_by_one, allow(dead_code))] // None comes there.
    pub(crate) fn push_fd(&mut self, fd: OwnedSocket) {
        if let RecvSpace::Full { fds: Some(fds), .. } = &mut self.room {
            fds.push(fd);
        }
    }

    /// The address that came.
    #[inline]
    pub(crate) fn source_mut(&mut self) -> &mut RawAddr {
        &mut self.source
    }

    /// Where the first buffer begins, to be compared.
    pub(crate) fn start(&self) -> *const u8 {
        self.buffers().first().map_or(ptr::null(), |buffer| buffer.as_ptr())
    }

    /// Whether the system takes as many buffers.
    #[inline]
    pub(crate) fn can_be_filled(&self) -> bool {
        self.buffers().len() <= MAX_BUFFERS
    }

    /// Bytes that the buffers hold.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        match &self.room {
            RecvSpace::Plain(buffer) => buffer.len(),
            RecvSpace::Full { .. } => parts::capacity(self.buffers()),
        }
    }

    /// Reads the control data of an received: what lies in the message's own [`ControlBuf`] if it
    /// has one, where the kernel wrote `written.len()` bytes, and else `written` itself. Gives the
    /// segment size of a train.
    #[inline]
    pub(crate) fn read_control(&mut self, written: &[u8]) -> Option<u16> {
        let control = match &mut self.room {
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

    /// All that is known of the message but its bytes.
    pub(crate) fn known(&self) -> (Received, RawAddr, RecvMeta) {
        let meta = if self.received.has_meta { self.meta } else { RecvMeta::NONE };
        (self.received, self.source, meta)
    }
}

impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("room", &self.capacity())
            .field("addr", &self.source)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

//! What comes out: one message received into memory that the caller lends.

use std::fmt;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::{ptr, slice};

use crate::ancillary::{ControlRoom, Told};
use crate::message::{self, Arrival, Cut, Meta};
use crate::parts::{self, Parts, Slices};
use crate::sys::{MAX_BUFFERS, OwnedSocket, RawAddr};
use crate::{ControlBuf, ControlMessages, Datagrams, RecvMeta, SendMsg};

/// Room for one message, and after a receive call the message in it.
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
    room: Room<'a>,
    source: RawAddr,
    arrival: Arrival,
    /// What was told beside it; not looked at unless the arrival says that something was.
    told: Told,
}

/// The memory lent. Mostly it is plain, and one look tells.
enum Room<'a> {
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
    /// Room in one buffer.
    ///
    /// A datagram longer than the buffer is cut, and [`truncated`](Self::truncated) says so.
    /// 65,535 bytes hold any UDP datagram and any train.
    #[must_use]
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        // Windows counts the bytes of a buffer in 32 bits, and no message comes near that.
        let len = buffer.len().min(u32::MAX as usize);
        Self::with_room(Room::Plain(IoSliceMut::new(&mut buffer[..len])))
    }

    /// Room in several buffers, filled in order.
    ///
    /// Unix takes up to 1,024 buffers (`IOV_MAX`); with more the receive fails with `EMSGSIZE`, and
    /// nothing is received.
    #[must_use]
    #[inline]
    pub fn scatter(buffers: &'a mut [IoSliceMut<'a>]) -> Self {
        Self::with_room(Room::Full {
            buffers: RecvBuffers::Many(buffers),
            control: None,
            fds: None,
        })
    }

    #[inline]
    fn with_room(room: Room<'a>) -> Self {
        Self { room, source: RawAddr::NONE, arrival: Arrival::NONE, told: Told::NOTHING }
    }

    /// The same room with `control` for the control messages, to read them raw.
    ///
    /// Needed only for those that [`RecvMeta`] has no field for. Stays empty on Windows.
    #[must_use]
    #[inline]
    pub fn with_control(mut self, control: &'a mut ControlBuf<'_>) -> Self {
        control.clear();
        let (buffers, fds) = match self.room {
            Room::Plain(buffer) => (RecvBuffers::One(buffer), None),
            Room::Full { buffers, fds, .. } => (buffers, fds),
        };
        self.room = Room::Full { buffers, control: Some(control.room()), fds };
        self
    }

    /// The same room, and `fds` for the descriptors that come with the message (`SCM_RIGHTS`, on a
    /// Unix socket). They are closed on arrival otherwise.
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
            Room::Plain(buffer) => (RecvBuffers::One(buffer), None),
            Room::Full { buffers, control, .. } => (buffers, control),
        };
        self.room = Room::Full { buffers, control, fds: Some(fds) };
        self
    }

    /// Bytes received, at most what the buffers hold.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.arrival.reported.min(self.capacity())
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
        self.arrival.full_len(self.len())
    }

    /// The bytes received, as far as they lie in the first buffer that holds any: all of them,
    /// unless the message was built by [`scatter`](Self::scatter).
    #[must_use]
    #[inline]
    pub fn data(&self) -> &[u8] {
        match &self.room {
            Room::Plain(buffer) => &buffer[..self.arrival.reported.min(buffer.len())],
            Room::Full { .. } => self.parts().head(),
        }
    }

    /// The same bytes as [`data`](Self::data), to be changed in place.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = self.data().len();
        let mut buffers = self.full_room().0.iter_mut();
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
        self.told().get()
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
        self.arrival.truncated()
    }

    /// Whether control messages are missing.
    #[must_use]
    #[inline]
    pub fn control_truncated(&self) -> bool {
        self.arrival.control_truncated()
    }

    /// All control messages, if there was a [`ControlBuf`] for them.
    #[must_use]
    pub fn control_messages(&self) -> ControlMessages<'_> {
        match &self.room {
            Room::Full { control: Some(control), .. } => control.messages(),
            _ => ControlMessages::new(&[]),
        }
    }

    /// The datagrams in the message: one, or those of a train (see [`Datagrams`]).
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'_> {
        Datagrams::new(self.parts(), self.source.lend(), &self.arrival, self.told())
    }

    #[inline(always)]
    fn told(&self) -> Meta<'_> {
        Meta::new(self.arrival.told.then_some(&self.told), &[])
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
        self.full_room().0.iter_mut().for_each(|buffer| copy(buffer));
        let cut = Cut { data: !rest.is_empty(), ..Cut::NONE };
        self.read_control(&[]);
        self.clear_fds();
        self.source = RawAddr::new(addr.as_ref());
        self.told = meta.into();
        let segment_size = meta.segment_size.filter(|size| *size > 0);
        let reported = data.len();
        self.arrival = Arrival { reported, segment_size, cut, told: true };
    }

    #[inline]
    fn buffers(&self) -> &[IoSliceMut<'a>] {
        match &self.room {
            Room::Plain(buffer) | Room::Full { buffers: RecvBuffers::One(buffer), .. } => {
                slice::from_ref(buffer)
            }
            Room::Full { buffers: RecvBuffers::Many(buffers), .. } => buffers,
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts::many(self.buffers(), self.arrival.reported)
    }

    /// What a receive may write to: one buffer and the room for an address, if that is all.
    #[inline]
    pub(crate) fn plain_room(&mut self) -> Option<(&mut IoSliceMut<'a>, &mut RawAddr)> {
        match &mut self.room {
            Room::Plain(buffer) => Some((buffer, &mut self.source)),
            Room::Full { .. } => None,
        }
    }

    /// What a receive may write to: buffers, the room for control data if it is not the arena's,
    /// and the room for an address.
    pub(crate) fn full_room(&mut self) -> (&mut [IoSliceMut<'a>], Option<&mut [u8]>, &mut RawAddr) {
        let (buffers, control) = match &mut self.room {
            Room::Plain(buffer) => (slice::from_mut(buffer), None),
            Room::Full { buffers: RecvBuffers::One(buffer), control, .. } => {
                (slice::from_mut(buffer), control.as_deref_mut())
            }
            Room::Full { buffers: RecvBuffers::Many(buffers), control, .. } => {
                (&mut **buffers, control.as_deref_mut())
            }
        };
        (buffers, control.map(ControlRoom::bytes_mut), &mut self.source)
    }

    /// Closes the descriptors that came before.
    pub(crate) fn clear_fds(&mut self) {
        if let Room::Full { fds: Some(fds), .. } = &mut self.room {
            fds.clear();
        }
    }

    /// Takes a descriptor that came, or closes it.
    #[cfg_attr(one_by_one, allow(dead_code))] // None comes there.
    pub(crate) fn push_fd(&mut self, fd: OwnedSocket) {
        if let Room::Full { fds: Some(fds), .. } = &mut self.room {
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
            Room::Plain(buffer) => buffer.len(),
            Room::Full { .. } => parts::capacity(self.buffers()),
        }
    }

    /// Reads the control data of an arrival: what lies in the message's own [`ControlBuf`] if it
    /// has one, where the kernel wrote `written.len()` bytes, and else `written` itself. Gives the
    /// segment size of a train.
    #[inline]
    pub(crate) fn read_control(&mut self, written: &[u8]) -> Option<u16> {
        let control = match &mut self.room {
            Room::Full { control: Some(control), .. } => {
                control.set_len(written.len());
                control.as_bytes()
            }
            _ => written,
        };
        if control.is_empty() {
            return None;
        }
        self.told.read(control)
    }

    /// What was told, to be read into.
    #[cfg_attr(one_by_one, allow(dead_code))] // No control messages there.
    #[inline(always)]
    pub(crate) fn told_mut(&mut self) -> &mut Told {
        &mut self.told
    }

    /// Takes note of what arrived.
    #[inline]
    pub(crate) fn set_arrival(&mut self, arrival: Arrival) {
        self.arrival = arrival;
    }

    pub(crate) fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// All that is known of the message but its bytes.
    pub(crate) fn known(&self) -> (Arrival, RawAddr, Told) {
        let told = if self.arrival.told { self.told } else { Told::NOTHING };
        (self.arrival, self.source, told)
    }
}

impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("room", &self.capacity())
            .field("addr", &self.source)
            .field("arrival", &self.arrival)
            .finish_non_exhaustive()
    }
}

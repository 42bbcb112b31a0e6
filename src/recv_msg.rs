//! What comes out: one message received into memory that the caller lends.

use std::fmt;
use std::io::IoSliceMut;
use std::net::SocketAddr;

use crate::message::{Arrival, Cut, Message, Meta};
use crate::parts::{Parts, Slices};
use crate::{ControlBuf, ControlMessages, Datagrams, RecvMeta};

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
    buffers: RecvBuffers<'a>,
    control: Option<&'a mut ControlBuf>,
    arrival: Arrival,
    /// What was told beside it; not looked at unless `told`.
    meta: RecvMeta,
    told: bool,
}

/// The memory lent: one buffer, or several that are filled in order.
pub(crate) enum RecvBuffers<'a> {
    One(&'a mut [u8]),
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
        Self::with_buffers(RecvBuffers::One(buffer))
    }

    /// Room in several buffers, filled in order.
    ///
    /// Unix takes up to 1,024 buffers (`IOV_MAX`); with more the receive fails with the system's
    /// own error, `EMSGSIZE`.
    #[must_use]
    #[inline]
    pub fn scatter(buffers: &'a mut [IoSliceMut<'a>]) -> Self {
        Self::with_buffers(RecvBuffers::Many(buffers))
    }

    #[inline]
    fn with_buffers(buffers: RecvBuffers<'a>) -> Self {
        Self { buffers, control: None, arrival: Arrival::NONE, meta: RecvMeta::NONE, told: false }
    }

    /// The same room with `control` for the control messages, to read them raw.
    ///
    /// Needed only for those that [`RecvMeta`] has no field for. Stays empty on Windows.
    #[must_use]
    #[inline]
    pub fn with_control(mut self, control: &'a mut ControlBuf) -> Self {
        control.clear();
        self.control = Some(control);
        self
    }

    /// Bytes received, at most what the buffers hold.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.arrival.len
    }

    /// Whether no bytes were received: an empty datagram is one, too.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.arrival.len == 0
    }

    /// The message's own length in bytes, also if it was cut; `None` where the system did not
    /// tell (see [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN)).
    #[must_use]
    pub fn full_len(&self) -> Option<usize> {
        self.arrival.full_len()
    }

    /// The bytes received, as far as they lie in the first buffer that holds any: all of them,
    /// unless the message was built by [`scatter`](Self::scatter).
    #[must_use]
    #[inline]
    pub fn data(&self) -> &[u8] {
        match &self.buffers {
            RecvBuffers::One(buffer) => &buffer[..self.arrival.len],
            RecvBuffers::Many(_) => self.parts().head(),
        }
    }

    /// The same bytes as [`data`](Self::data), to be changed in place.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let len = self.data().len();
        match &mut self.buffers {
            RecvBuffers::One(buffer) => &mut buffer[..len],
            RecvBuffers::Many(buffers) => match buffers.iter_mut().find(|b| !b.is_empty()) {
                Some(first) => &mut first[..len],
                None => &mut [],
            },
        }
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
        self.arrival.addr
    }

    /// What else the system told about the message.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> RecvMeta {
        if self.told { self.meta } else { RecvMeta::NONE }
    }

    /// Whether bytes are missing, or may be: the message was longer than the buffers, or its
    /// control data was cut, so that a train cannot be told from a datagram.
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
        self.control.as_ref().map_or(ControlMessages::new(&[]), |control| control.messages())
    }

    /// The datagrams in the message: one, or those of a train (see [`Datagrams`]).
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'_> {
        let meta = Meta { read: self.told.then_some(&self.meta), raw: &[] };
        Message::new(self.parts(), self.arrival, meta).datagrams()
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
        match &mut self.buffers {
            RecvBuffers::One(buffer) => copy(buffer),
            RecvBuffers::Many(buffers) => buffers.iter_mut().for_each(|buffer| copy(buffer)),
        }
        let cut = Cut { data: !rest.is_empty(), control: false };
        let len = data.len() - rest.len();
        self.read_control(&[]);
        (self.meta, self.told) = (meta, true);
        let (reported, segment_size) = (data.len(), meta.segment_size);
        self.arrival = Arrival { len, reported, addr, segment_size, cut };
    }

    fn parts(&self) -> Parts<'_> {
        match &self.buffers {
            RecvBuffers::One(buffer) => Parts::one(&buffer[..self.arrival.len]),
            RecvBuffers::Many(buffers) => Parts::many(buffers, self.arrival.len),
        }
    }

    #[inline]
    pub(crate) fn buffers_mut(&mut self) -> (&mut RecvBuffers<'a>, Option<&mut [u8]>) {
        (&mut self.buffers, self.control.as_deref_mut().map(ControlBuf::room))
    }

    /// Bytes that the buffers hold.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        match &self.buffers {
            RecvBuffers::One(buffer) => buffer.len(),
            RecvBuffers::Many(buffers) => buffers.iter().map(|buffer| buffer.len()).sum(),
        }
    }

    /// Reads the control data of an arrival: what lies in the message's own [`ControlBuf`] if it
    /// has one, where the kernel wrote `written.len()` bytes, and else `written` itself. Gives the
    /// segment size of a train.
    #[inline]
    pub(crate) fn read_control(&mut self, written: &[u8]) -> Option<u16> {
        self.told = !written.is_empty();
        let control = match &mut self.control {
            None if !self.told => return None,
            None => written,
            Some(control) => {
                control.set_len(written.len());
                control.as_bytes()
            }
        };
        self.meta = RecvMeta::from_control(control);
        self.meta.segment_size
    }

    /// Takes note of what arrived; `arrival.len` is at most [`room`](Self::room).
    #[inline]
    pub(crate) fn set_arrival(&mut self, arrival: Arrival) {
        debug_assert!(arrival.len <= self.room());
        self.arrival = arrival;
    }

    pub(crate) fn arrival(&self) -> (Arrival, RecvMeta) {
        (self.arrival, self.meta())
    }
}

impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("room", &self.room())
            .field("arrival", &self.arrival)
            .finish_non_exhaustive()
    }
}

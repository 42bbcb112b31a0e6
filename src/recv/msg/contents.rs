//! What a receive left in a message.

use std::net::SocketAddr;

use super::RecvMsg;
use crate::ancillary::{ControlSpace, RecvMeta};
use crate::recv::envelope::Envelope;
use crate::recv::in_place::{self, DatagramMut};
use crate::recv::message::Message;
use crate::recv::scattered::{Parts, Slices};
use crate::recv::space::RecvSpace;
use crate::recv::split::Datagrams;
use crate::send::msg::SendMsg;
use crate::sys::{ControlMessages, RawAddrRef, UnixAddr};

impl RecvMsg<'_> {
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
        self.slices_mut().next().unwrap_or_default()
    }

    /// The bytes received, buffer by buffer.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut buffer = [0; 1500];
    /// let mut msg = RecvMsg::new(&mut buffer);
    /// socket.recv_batch(std::slice::from_mut(&mut msg))?;
    /// assert!(msg.slices().eq([b"hello"])); // One slice, since there is one buffer.
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn slices(&self) -> Slices<'_> {
        self.parts().slices()
    }

    /// The bytes received, buffer by buffer, mutable. No slice is empty.
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
    /// msg.slices_mut().for_each(<[u8]>::make_ascii_uppercase);
    /// assert_eq!(msg.slices().collect::<Vec<_>>().concat(), b"HELLO");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let mut left = self.len();
        let slices = self.space.buffers_mut().iter_mut().map(move |buffer| {
            let len = left.min(buffer.len());
            left -= len;
            &mut buffer[..len]
        });
        slices.filter(|slice| !slice.is_empty())
    }

    /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
    #[must_use]
    #[inline]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source().get()
    }

    /// The source address on a Unix socket. `None` if it is an Internet address, or if it is longer
    /// than an Internet address and the message has no [memory](Self::with_unix_addr) for it.
    ///
    /// A sender without a name is [`UnixAddr::Unnamed`], as is a source that the system did not report.
    #[must_use]
    #[doc(alias = "sockaddr_un")]
    pub fn unix_addr(&self) -> Option<UnixAddr<'_>> {
        self.source().unix()
    }

    /// The message's metadata.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> RecvMeta {
        self.envelope().meta()
    }

    /// A datagram with `data` to this message's source, from the address that was asked; `None` if nobody can be
    /// answered (see [`Datagram::reply`](crate::Datagram::reply)).
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut memory = [[0; 1500]; 8];
    /// let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
    /// let n = socket.recv_batch(&mut msgs)?;
    /// let replies = msgs[..n].iter().filter_map(|msg| msg.reply(msg.data()));
    /// socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn reply<'d>(&'d self, data: &'d [u8]) -> Option<SendMsg<'d>> {
        self.envelope().reply(data)
    }

    /// Whether bytes or datagram boundaries are missing: the message was longer than the buffers, or it
    /// came from an Internet address and truncation of its control data lost the segment size.
    #[doc(alias = "MSG_TRUNC")]
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.received.truncated()
    }

    /// Whether control messages are missing.
    #[doc(alias = "MSG_CTRUNC")]
    #[must_use]
    #[inline]
    pub fn control_truncated(&self) -> bool {
        self.received.control_truncated()
    }

    /// All control messages, if the message has a [`ControlBuf`](crate::control::ControlBuf).
    #[must_use]
    pub fn control_messages(&self) -> ControlMessages<'_> {
        self.space.control().map_or(ControlMessages::new(&[]), ControlSpace::messages)
    }

    /// The datagrams in the message: one, or the segments of a coalesced message (see [`Datagrams`]).
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let socket = Offload::new(socket)?;
    /// let mut buffer = vec![0; 65_535];
    /// let mut msg = RecvMsg::new(&mut buffer);
    /// socket.recv_batch(std::slice::from_mut(&mut msg))?;
    /// for datagram in msg.datagrams() {
    ///     println!("{} bytes from {:?}", datagram.len(), datagram.addr());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'_> {
        Datagrams::new(self.parts(), &self.received, self.envelope())
    }

    /// The datagrams in the message, whose bytes may be changed in place.
    ///
    /// A datagram of a message built by [`scatter`](Self::scatter) lends its bytes in the first buffer
    /// alone; [`slices_mut`](Self::slices_mut) has all of the message.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut buffer = [0; 1500];
    /// let mut msg = RecvMsg::new(&mut buffer);
    /// socket.recv_batch(std::slice::from_mut(&mut msg))?;
    /// for mut datagram in msg.datagrams_mut() {
    ///     datagram.data_mut().make_ascii_uppercase();
    /// }
    /// assert_eq!(msg.data(), b"HELLO");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn datagrams_mut(&mut self) -> impl Iterator<Item = DatagramMut<'_>> {
        let (received, len) = (self.received, self.len());
        let Self { space, source, meta, has_meta, .. } = self;
        let (buffers, source) = space.parts_mut(source);
        let envelope = Envelope::new(source, if *has_meta { meta } else { &RecvMeta::NONE }, &[]);
        in_place::split_scattered(buffers, len, received, envelope)
    }

    /// The message as [`BatchSocketExt::recv_slices`](crate::BatchSocketExt::recv_slices) gives it.
    pub(crate) fn message(&self) -> Message<'_> {
        Message::new(self.parts(), self.received, self.envelope())
    }

    #[inline]
    pub(super) fn source(&self) -> RawAddrRef<'_> {
        self.space.source(&self.source)
    }

    #[inline(always)]
    fn envelope(&self) -> Envelope<'_> {
        Envelope::new(self.source(), self.meta_ref(), &[])
    }

    fn parts(&self) -> Parts<'_> {
        Parts::many(self.space.buffers(), self.received.reported)
    }
}

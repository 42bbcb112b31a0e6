//! The source and the metadata of a message or a datagram, and how to answer it.

use std::net::SocketAddr;

use crate::ancillary::RecvMeta;
use crate::send::msg::SendMsg;
use crate::sys::{RawAddrRef, UnixAddr};

/// A message's source and metadata; borrowed, since both are large and metadata is often absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope<'a> {
    pub(super) source: RawAddrRef<'a>,
    pub(crate) meta: &'a RecvMeta,
}

impl<'a> Envelope<'a> {
    pub(crate) const NONE: Self = Self { source: RawAddrRef::NONE, meta: &RecvMeta::NONE };

    #[inline(always)]
    pub(crate) fn new(source: RawAddrRef<'a>, meta: &'a RecvMeta) -> Self {
        Self { source, meta }
    }

    /// A datagram with `data` to the source, unless the source cannot be answered.
    pub(crate) fn reply<'d>(&self, data: &'d [u8]) -> Option<SendMsg<'d>>
    where
        'a: 'd,
    {
        // Source port 0 means that no reply is expected (RFC 768). 0.0.0.0 is never a destination (RFC
        // 1122, section 3.2.1.3).
        let answerable = |source: &SocketAddr| {
            source.port() != 0 && !source.ip().to_canonical().is_unspecified()
        };
        let msg = match self.source.get() {
            Some(source) => Some(source).filter(answerable).map(|source| SendMsg::to(source, data)),
            None => match self.source.unix() {
                Some(UnixAddr::Unnamed) | None => None,
                Some(source) => Some(SendMsg::to_unix(source, data)),
            },
        }?;
        // A socket without this metadata pays for one comparison.
        let has_source = self.meta.destination.is_some() || self.meta.local.is_some();
        Some(if has_source { msg.with_reply(self.meta) } else { msg })
    }
}

/// The public methods that `Message`, `Datagram` and `DatagramMut` share.
macro_rules! accessors {
    () => {
        /// Whether the payload is empty. An empty datagram is delivered like any other.
        #[must_use]
        #[inline]
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }

        /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
        #[must_use]
        #[inline]
        pub fn addr(&self) -> Option<std::net::SocketAddr> {
            self.envelope.source.get()
        }

        /// The source address on a Unix socket. `None` if it is an Internet address.
        ///
        /// A sender without a name is [`UnixAddr::Unnamed`](crate::UnixAddr::Unnamed), as is a source that
        /// the system did not report.
        ///
        /// ```
        /// # #[cfg(unix)] {
        /// use mmsg::{BatchSocket, RecvBatch, UnixAddr};
        /// use std::os::unix::net::UnixDatagram;
        /// # let dir = std::env::temp_dir().join(format!("mmsg-doc-{}", std::process::id()));
        /// # std::fs::create_dir_all(&dir)?;
        /// # let (server_path, client_path) = (dir.join("server"), dir.join("client"));
        /// let server = UnixDatagram::bind(&server_path)?;
        /// let client = UnixDatagram::bind(&client_path)?;
        /// client.send_to(b"hello", &server_path)?;
        ///
        /// let mut batch = RecvBatch::new(8, 1500);
        /// server.recv_into(&mut batch)?;
        /// let datagram = batch.iter().next().expect("one was received");
        /// assert_eq!(datagram.unix_addr(), Some(UnixAddr::Path(&client_path)));
        /// # std::fs::remove_dir_all(&dir)?;
        /// # }
        /// # Ok::<(), std::io::Error>(())
        /// ```
        #[must_use]
        #[doc(alias = "sockaddr_un")]
        pub fn unix_addr(&self) -> Option<crate::sys::UnixAddr<'a>> {
            self.envelope.source.unix()
        }

        /// The metadata; the segments of a coalesced message share it.
        #[must_use]
        #[inline]
        pub fn meta(&self) -> &'a crate::ancillary::RecvMeta {
            self.envelope.meta
        }

        /// A datagram with `data` to the source. With [`Ancillary::DEST`](crate::Ancillary::DEST) enabled it leaves
        /// from the address that the request was sent to (see [`RecvMeta::reply_meta`](crate::RecvMeta::reply_meta)),
        /// otherwise from the address that the system picks.
        ///
        /// `None` if the source cannot be answered: no address, an unspecified Internet address, an unnamed Unix
        /// socket, or source port 0, which means that the sender expects no reply (RFC 768).
        ///
        /// To answer after the batch has been reused, keep [`addr`](Self::addr) and
        /// [`RecvMeta::reply_meta`](crate::RecvMeta::reply_meta). The reply to a coalesced message is one answer for
        /// all of it; each of its [datagrams](crate::Message::datagrams) can get its own.
        ///
        /// The reply borrows the metadata. [`SendMsg::with_ecn`](crate::SendMsg::with_ecn) and
        /// [`SendMsg::with_meta`](crate::SendMsg::with_meta) add options to it.
        ///
        /// ```
        /// use mmsg::{Ancillary, BatchSocket, BatchSocketExt, RecvBatch};
        /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
        /// # client.send_to(b"hello", socket.local_addr()?)?;
        /// let mut batch = RecvBatch::new(64, 1500);
        /// Ancillary::DEST.require(&socket)?;
        /// socket.recv_into(&mut batch)?;
        /// let replies = batch.iter().filter_map(|datagram| datagram.reply(b"thanks"));
        /// socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
        /// # assert_eq!(client.recv(&mut [0; 8])?, 6);
        /// # Ok::<(), std::io::Error>(())
        /// ```
        #[must_use]
        pub fn reply<'d>(&self, data: &'d [u8]) -> Option<crate::send::msg::SendMsg<'d>>
        where
            'a: 'd,
        {
            self.envelope.reply(data)
        }
    };
}
pub(crate) use accessors;

/// The public methods that only `Message` and `Datagram` share.
macro_rules! accessors_of_bytes {
    () => {
        /// Length in bytes.
        #[must_use]
        #[inline]
        pub fn len(&self) -> usize {
            self.parts.len()
        }

        /// The bytes in the first buffer: the whole payload, unless the message was received by
        /// [`RecvMsg::scatter`](crate::RecvMsg::scatter).
        #[must_use]
        #[inline]
        pub fn data(&self) -> &'a [u8] {
            self.parts.head()
        }

        /// The bytes, buffer by buffer. No slice is empty.
        ///
        /// ```
        /// use mmsg::{BatchSocket, RecvBatch};
        /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        /// # socket.send_to(b"hello", socket.local_addr()?)?;
        /// let mut batch = RecvBatch::new(16, 1500);
        /// socket.recv_into(&mut batch)?;
        /// let message = batch.message(0).expect("one came");
        /// assert!(message.slices().eq([b"hello"]) && message.datagrams().all(|d| d.slices().count() == 1));
        /// # Ok::<(), std::io::Error>(())
        /// ```
        pub fn slices(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
            self.parts.slices()
        }

        /// The length in bytes before truncation. If bytes are missing, it is known only on Linux and Android after
        /// [`MmsgBuf::recv_with`](crate::MmsgBuf::recv_with) with [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN),
        /// and `None` otherwise.
        #[must_use]
        pub fn full_len(&self) -> Option<usize> {
            self.missing().full_len(self.len())
        }

        /// Whether bytes are missing at the end, because the buffer was too short. Where the system coalesces datagrams,
        /// a message from an Internet address also counts as truncated if its control data was truncated and holds no
        /// segment size: its datagram boundaries may be lost.
        #[must_use]
        #[inline]
        pub fn truncated(&self) -> bool {
            self.missing().is_truncated()
        }
    };
}
pub(crate) use accessors_of_bytes;

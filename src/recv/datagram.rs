//! One received datagram, and what it shares with a message: the source, the metadata, and how to answer it.

use std::net::SocketAddr;

use crate::ancillary::RecvMeta;
use crate::send::msg::SendMsg;
use crate::sys::{RawAddr, UnixAddr};

/// A message's source and metadata; borrowed, since both are large and metadata is often absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) source: RawAddr<'a>,
    pub(crate) meta: &'a RecvMeta,
}

impl<'a> Origin<'a> {
    pub(crate) const NONE: Self = Self { source: RawAddr::NONE, meta: &RecvMeta::NONE };

    /// The source's Internet address, unless it cannot be answered.
    pub(super) fn reply_addr(&self) -> Option<SocketAddr> {
        // Source port 0 means that no reply is expected (RFC 768). 0.0.0.0 is never a destination (RFC
        // 1122, section 3.2.1.3).
        let answerable = |source: &SocketAddr| {
            source.port() != 0 && !source.ip().to_canonical().is_unspecified()
        };
        self.source.get().filter(answerable)
    }

    /// A datagram with `data` to the source, unless the source cannot be answered.
    pub(crate) fn reply<'d>(&self, data: &'d [u8]) -> Option<SendMsg<'d>>
    where
        'a: 'd,
    {
        let msg = match self.reply_addr() {
            Some(source) => SendMsg::to(source, data),
            None => match self.source.unix() {
                Some(UnixAddr::Unnamed) | None => return None,
                Some(source) => SendMsg::to_unix(source, data),
            },
        };
        // A socket without this metadata pays for one comparison.
        Some(if self.meta.dest.is_some() { msg.with_reply(self.meta) } else { msg })
    }
}

/// The public methods that `Message`, `Datagram` and `DatagramMut` share.
macro_rules! accessors {
    () => {
        /// Length in bytes.
        #[must_use]
        #[inline]
        pub fn len(&self) -> usize {
            self.data.len()
        }

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
            self.origin.source.get()
        }

        /// The address to answer later. `None` for the Internet sources that [`reply`](Self::reply) refuses, and on a
        /// Unix socket.
        ///
        /// An answer to the unchecked [`addr`](Self::addr) may stay on this host: an attacker can send from `::`, and Linux
        /// delivers what goes to `::` by loopback.
        ///
        /// ```
        /// # use mmsg::{BatchSocket, RecvBatch, SendMsg};
        /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        /// # socket.send_to(b"hello", socket.local_addr()?)?;
        /// # let mut batch = RecvBatch::new(64, 1500);
        /// socket.recv_into(&mut batch)?;
        /// let asked: Vec<_> =
        ///     batch.iter().filter_map(|d| Some((d.reply_addr()?, d.meta().reply_meta()))).collect();
        /// for (to, meta) in &asked {
        ///     socket.send_batch(&[SendMsg::to(*to, b"answer").with_meta(meta)])?;
        /// }
        /// # assert_eq!(asked.len(), 1);
        /// # Ok::<(), std::io::Error>(())
        /// ```
        #[must_use]
        pub fn reply_addr(&self) -> Option<std::net::SocketAddr> {
            self.origin.reply_addr()
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
            self.origin.source.unix()
        }

        /// The metadata; the segments of a coalesced message share it.
        #[must_use]
        #[inline]
        pub fn meta(&self) -> &'a crate::ancillary::RecvMeta {
            self.origin.meta
        }

        /// A datagram with `data` to the source. With [`Ancillary::DEST`](crate::Ancillary::DEST) enabled it leaves
        /// from the address that the request was sent to (see [`RecvMeta::reply_meta`](crate::RecvMeta::reply_meta)),
        /// otherwise from the address that the system picks.
        ///
        /// `None` if the source cannot be answered: no address, an unspecified Internet address, an unnamed Unix
        /// socket, or source port 0, which means that the sender expects no reply (RFC 768).
        ///
        /// To answer after the batch has been reused, keep [`reply_addr`](Self::reply_addr) and
        /// [`RecvMeta::reply_meta`](crate::RecvMeta::reply_meta). The reply to a coalesced message is one answer for
        /// all of it; each of its [datagrams](crate::Message::datagrams) can get its own.
        ///
        /// The reply borrows the metadata. [`SendMsg::with_ecn`](crate::SendMsg::with_ecn) and
        /// [`SendMsg::with_meta`](crate::SendMsg::with_meta) add settings to it.
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
            self.origin.reply(data)
        }
    };
}
pub(crate) use accessors;

/// One received datagram: its payload, source and metadata.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for datagram in batch.iter() {
///     println!("{:?} from {:?}", datagram.data(), datagram.addr());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Datagram<'a> {
    pub(super) data: &'a [u8],
    pub(super) origin: Origin<'a>,
    pub(super) truncated: bool,
}

impl<'a> Datagram<'a> {
    accessors!();

    /// The bytes received.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether bytes are missing at the end, because the buffer was too short, or the datagram's boundaries are unknown
    /// (see [`Message::truncated`](crate::Message::truncated)).
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.truncated
    }
}

/// One received datagram, mutable: to decrypt it or rewrite its header in place.
///
/// [`RecvBatch::iter_mut`](crate::RecvBatch::iter_mut) yields them. [`into_datagram`](Self::into_datagram) makes a
/// [`Datagram`], which can be sent on without a copy.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for mut datagram in batch.iter_mut() {
///     datagram.data_mut().make_ascii_uppercase();
///     println!("{} bytes, answered with {:?}", datagram.len(), datagram.reply(b"thanks"));
/// }
/// assert!(batch.iter().all(|d| d.data() == b"HELLO"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct DatagramMut<'a> {
    pub(super) data: &'a mut [u8],
    pub(super) origin: Origin<'a>,
    pub(super) truncated: bool,
}

impl<'a> DatagramMut<'a> {
    accessors!();

    /// The bytes received.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.data
    }

    /// The bytes received, mutable.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.data
    }

    /// Whether bytes are missing at the end.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Makes the datagram immutable, so that its bytes can be sent on without a copy:
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, RecvBatch};
    /// # let server = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # client.send_to(b"hello", server.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// server.recv_into(&mut batch)?;
    /// let replies = batch.iter_mut().filter_map(|mut datagram| {
    ///     datagram.data_mut().make_ascii_uppercase();
    ///     let datagram = datagram.into_datagram();
    ///     datagram.reply(datagram.data())
    /// });
    /// server.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    /// # let mut reply = [0; 8];
    /// # assert_eq!((client.recv(&mut reply)?, &reply[..5]), (5, &b"HELLO"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_datagram(self) -> Datagram<'a> {
        let Self { data, origin, truncated } = self;
        Datagram { data, origin, truncated }
    }
}

/// Shows the length and the source, never the payload.
macro_rules! debug_without_payload {
    ($($type:ident),*) => {$(
        impl std::fmt::Debug for $type<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    .field("len", &self.len())
                    .field("from", &self.origin)
                    .field("truncated", &self.truncated())
                    .finish_non_exhaustive()
            }
        }
    )*};
}
pub(super) use debug_without_payload;

debug_without_payload!(Datagram, DatagramMut);

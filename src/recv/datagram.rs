//! A received datagram, in one buffer or several.

use std::net::SocketAddr;

use crate::ancillary::RecvMeta;
use crate::recv::received::{self, Meta, Missing};
use crate::recv::scattered::{Parts, Slices};
use crate::send::msg::SendMsg;
use crate::sys::{RawAddrRef, UnixAddr};

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
#[derive(Clone, Debug)]
pub struct Datagram<'a> {
    parts: Parts<'a>,
    source: RawAddrRef<'a>,
    meta: Meta<'a>,
    missing: Missing,
}

impl<'a> Datagram<'a> {
    /// A single datagram that is not truncated.
    #[inline(always)]
    pub(crate) fn whole(data: &'a [u8], source: RawAddrRef<'a>, meta: Meta<'a>) -> Self {
        Self::new(data, source, meta, Missing::NOTHING)
    }

    #[inline(always)]
    pub(crate) fn new(
        data: &'a [u8],
        source: RawAddrRef<'a>,
        meta: Meta<'a>,
        missing: Missing,
    ) -> Self {
        Self::over(Parts::one(data), source, meta, missing)
    }

    #[inline(always)]
    pub(crate) fn over(
        parts: Parts<'a>,
        source: RawAddrRef<'a>,
        meta: Meta<'a>,
        missing: Missing,
    ) -> Self {
        Self { parts, source, meta, missing }
    }

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether it has no bytes; an empty datagram is delivered like any other.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }

    /// The bytes in the first buffer: the whole payload, unless the message was received by
    /// [`RecvMsg::scatter`](crate::RecvMsg::scatter).
    #[must_use]
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.parts.head()
    }

    /// The bytes, buffer by buffer.
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
    /// let datagram = msg.datagrams().next().expect("one was received");
    /// assert!(datagram.slices().eq([&b"he"[..], b"llo"]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn slices(&self) -> Slices<'a> {
        self.parts.slices()
    }

    /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
    #[must_use]
    #[inline]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source.get()
    }

    /// The source address on a Unix socket. `None` if it is an Internet address.
    ///
    /// A sender without a name is [`UnixAddr::Unnamed`], as is a source that the system did not report. A
    /// datagram received into a [`RecvMsg`](crate::RecvMsg) has a Unix address only if that
    /// [has memory for it](crate::RecvMsg::with_unix_addr).
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
    pub fn unix_addr(&self) -> Option<UnixAddr<'a>> {
        self.source.unix()
    }

    /// The datagram's length in bytes before truncation; `None` if it was truncated and the system did
    /// not report it (see [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN)).
    #[must_use]
    pub fn full_len(&self) -> Option<usize> {
        self.missing.full_len(self.len())
    }

    /// The datagram's metadata; the segments of a coalesced message share it.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> RecvMeta {
        self.meta.get()
    }

    /// A datagram with `data` to this datagram's source. With
    /// [`Ancillary::DEST`](crate::Ancillary::DEST) enabled it leaves from the address that the
    /// datagram was sent to (see [`RecvMeta::reply`]), otherwise from the address that the system picks.
    ///
    /// `None` if nobody can be answered: no address, an unspecified Internet address, an unnamed Unix
    /// socket, or source port 0, which means that the sender expects no reply (RFC 768).
    ///
    /// To answer later, when the batch is used again, keep [`addr`](Self::addr) and [`RecvMeta::reply`].
    ///
    /// It borrows this datagram's metadata. [`SendMsg::with_ecn`] adds to its options, and
    /// [`SendMsg::with_meta`] replaces them: begin with `datagram.meta().reply()` to keep the source.
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
    pub fn reply<'d>(&self, data: &'d [u8]) -> Option<SendMsg<'d>>
    where
        'a: 'd,
    {
        received::reply(self.source, self.meta, data)
    }

    /// Whether its end is missing.
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.missing.is_truncated()
    }
}

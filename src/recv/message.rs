//! A received message, in one buffer or several.

use std::net::SocketAddr;

use crate::ancillary::RecvMeta;
use crate::recv::received::{self, Meta, Received};
use crate::recv::scattered::Parts;
use crate::recv::split::Datagrams;
use crate::send::msg::SendMsg;
use crate::sys::{ControlMessages, RawAddrRef, Row, UnixAddr};

/// A received message: a single datagram or a coalesced message, with its metadata.
///
/// [`RecvBatch::messages`](crate::RecvBatch::messages) yields them, and
/// [`recv_slices`](crate::BatchSocketExt::recv_slices) gives one for each buffer that it fills.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for message in batch.messages() {
///     println!("{} datagrams from {:?}", message.datagrams().count(), message.addr());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Message<'a> {
    parts: Parts<'a>,
    source: RawAddrRef<'a>,
    received: Received,
    meta: Meta<'a>,
}

impl<'a> Message<'a> {
    #[inline]
    pub(crate) fn new(
        parts: Parts<'a>,
        source: RawAddrRef<'a>,
        received: Received,
        meta: Meta<'a>,
    ) -> Self {
        Self { parts, source, received, meta }
    }

    /// Calls `then` with the message that a receive left in `buffer`.
    #[inline]
    pub(crate) fn with_row<R>(
        buffer: &'a [u8],
        row: Row<'a>,
        then: impl FnOnce(Message<'_>) -> R,
    ) -> R {
        let result = row.result();
        let decoded = (result.control_len > 0).then(|| RecvMeta::decode(row.control()));
        let meta = decoded.as_ref();
        let received = Received::new(&result, meta, || row.source().get().is_some());
        let data = Parts::one(&buffer[..buffer.len().min(result.len)]);
        then(Message::new(data, row.source(), received, Meta::new(meta, row.control())))
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

    /// The bytes received.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.parts.head()
    }

    /// The message's length in bytes before truncation; `None` if it was truncated and the system did
    /// not report it (see [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN)).
    #[must_use]
    pub fn full_len(&self) -> Option<usize> {
        self.received.full_len(self.parts.len())
    }

    /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source.get()
    }

    /// The source address on a Unix socket (see [`Datagram::unix_addr`](crate::Datagram::unix_addr)).
    #[must_use]
    pub fn unix_addr(&self) -> Option<UnixAddr<'a>> {
        self.source.unix()
    }

    /// The message's metadata.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> RecvMeta {
        self.meta.get()
    }

    /// A datagram with `data` to this message's source, from the address that was asked; `None` if nobody can be
    /// answered (see [`Datagram::reply`](crate::Datagram::reply)).
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// socket.recv_into(&mut batch)?;
    /// // One answer to a message, however many datagrams are coalesced in it.
    /// let replies = batch.messages().filter_map(|message| message.reply(b"received"));
    /// socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn reply<'d>(&self, data: &'d [u8]) -> Option<SendMsg<'d>>
    where
        'a: 'd,
    {
        received::reply(self.source, self.meta, data)
    }

    /// Whether bytes or datagram boundaries are missing: the message was longer than its slot, or it
    /// came from an Internet address and truncation of its control data lost the segment size.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.received.truncated()
    }

    /// Whether control messages are missing.
    #[must_use]
    pub fn control_truncated(&self) -> bool {
        self.received.control_truncated()
    }

    pub(crate) fn received(&self) -> Received {
        self.received
    }

    /// All control messages. The numbers of received descriptors read as -1 (see
    /// [`RecvBatch::accept_fds`](crate::RecvBatch::accept_fds)).
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// Ancillary::TIMESTAMP.require(&socket)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// socket.recv_into(&mut batch)?;
    /// for message in batch.messages() {
    ///     for control in message.control_messages() {
    ///         println!("level {}, type {}: {} bytes", control.level, control.ty, control.data.len());
    ///     }
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn control_messages(&self) -> ControlMessages<'a> {
        ControlMessages::new(self.meta.raw)
    }

    /// The datagrams in the message: one, or the segments of a coalesced message (see [`Datagrams`]).
    #[must_use]
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'a> {
        Datagrams::new(self.parts, self.source, &self.received, self.meta)
    }
}

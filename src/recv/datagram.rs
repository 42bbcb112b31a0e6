//! Received messages, and the datagrams in them.

use std::fmt;

use crate::ancillary::RecvMeta;
use crate::recv::envelope::{Envelope, accessors, accessors_of_bytes};
use crate::recv::received::{Missing, Received};
use crate::recv::scattered::Parts;
use crate::sys::{ControlMessages, RawAddr, RecvResult};

/// A received message: a single datagram or a coalesced message, with its metadata.
///
/// [`RecvBatch::messages`](crate::RecvBatch::messages) yields them, and
/// [`recv_slices`](crate::BatchSocket::recv_slices) passes one for each buffer that it fills.
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
#[derive(Clone)]
pub struct Message<'a> {
    pub(super) parts: Parts<'a>,
    pub(crate) received: Received,
    pub(super) envelope: Envelope<'a>,
    control: &'a [u8],
}

impl<'a> Message<'a> {
    #[inline(always)]
    pub(crate) fn new(
        parts: Parts<'a>,
        received: Received,
        envelope: Envelope<'a>,
        control: &'a [u8],
    ) -> Self {
        Self { parts, received, envelope, control }
    }

    fn missing(&self) -> Missing {
        self.received.missing(self.parts.len())
    }

    /// Everything but the payload.
    pub(super) fn attributes(&self) -> (RecvResult, RawAddr, RecvMeta) {
        let Received { reported, truncation, .. } = self.received;
        let (truncated, control_truncated) = (truncation.data, truncation.control);
        let result = RecvResult { truncated, control_truncated, ..RecvResult::of(reported, 0) };
        (result, self.envelope.source.to_owned(), *self.envelope.meta)
    }

    accessors!();

    accessors_of_bytes!();

    /// Whether control messages were lost because their buffer was too small.
    #[must_use]
    pub fn control_truncated(&self) -> bool {
        self.received.truncation.control
    }

    /// All control messages. Received descriptors are closed, and their numbers read as -1.
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
        ControlMessages::new(self.control)
    }
}

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
    parts: Parts<'a>,
    envelope: Envelope<'a>,
    missing: Missing,
}

impl<'a> Datagram<'a> {
    #[inline(always)]
    pub(crate) fn new(parts: Parts<'a>, envelope: Envelope<'a>, missing: Missing) -> Self {
        Self { parts, envelope, missing }
    }

    accessors!();

    accessors_of_bytes!();

    #[inline(always)]
    fn missing(&self) -> Missing {
        self.missing
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
    data: &'a mut [u8],
    envelope: Envelope<'a>,
    missing: Missing,
}

impl<'a> DatagramMut<'a> {
    #[inline]
    pub(crate) fn new(data: &'a mut [u8], envelope: Envelope<'a>, missing: Missing) -> Self {
        Self { data, envelope, missing }
    }

    accessors!();

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

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
        self.missing.is_truncated()
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
        Datagram::new(Parts::one(self.data), self.envelope, self.missing)
    }
}

/// Shows the length and the source, never the payload.
macro_rules! debug_without_payload {
    ($($type:ident),*) => {$(
        impl fmt::Debug for $type<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($type))
                    .field("len", &self.len())
                    .field("from", &self.envelope)
                    .field("truncated", &self.truncated())
                    .finish_non_exhaustive()
            }
        }
    )*};
}
debug_without_payload!(Message, Datagram, DatagramMut);

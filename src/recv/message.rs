//! A received message, in one buffer or several.

use crate::ancillary::RecvMeta;
use crate::recv::envelope::{Envelope, accessors};
use crate::recv::received::{self, Received};
use crate::recv::scattered::Parts;
use crate::recv::split::Datagrams;
use crate::sys::{ControlMessages, Row};

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
    received: Received,
    envelope: Envelope<'a>,
}

impl<'a> Message<'a> {
    #[inline]
    pub(crate) fn new(parts: Parts<'a>, received: Received, envelope: Envelope<'a>) -> Self {
        Self { parts, received, envelope }
    }

    /// The message that a receive left in `buffer`, with its metadata.
    ///
    /// Always inlined, since a message that a call returns goes through memory, which takes 100 instructions.
    #[inline(always)]
    pub(crate) fn of_row(buffer: &'a [u8], row: Row<'a>, meta: &'a RecvMeta) -> Self {
        let (received, envelope) = received::describe(row, meta);
        Self::new(Parts::one(&buffer[..buffer.len().min(received.reported)]), received, envelope)
    }

    accessors!();

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.parts.len()
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
        self.envelope.control_messages()
    }

    /// The datagrams in the message: one, or the segments of a coalesced message (see [`Datagrams`]).
    #[must_use]
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'a> {
        Datagrams::new(self.parts, &self.received, self.envelope)
    }
}

//! A received datagram, in one buffer or several.

use crate::recv::envelope::{Envelope, accessors};
use crate::recv::received::Missing;
use crate::recv::scattered::{Parts, Slices};

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
    envelope: Envelope<'a>,
    missing: Missing,
}

impl<'a> Datagram<'a> {
    #[inline(always)]
    pub(crate) fn new(parts: Parts<'a>, envelope: Envelope<'a>, missing: Missing) -> Self {
        Self { parts, envelope, missing }
    }

    accessors!();

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

    /// The datagram's length in bytes before truncation; `None` if it was truncated and the system did
    /// not report it (see [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN)).
    #[must_use]
    pub fn full_len(&self) -> Option<usize> {
        self.missing.full_len(self.len())
    }

    /// Whether its end is missing.
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.missing.is_truncated()
    }
}

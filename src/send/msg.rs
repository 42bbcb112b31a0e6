//! One datagram to be sent.

use std::fmt;
use std::io::IoSlice;
use std::net::SocketAddr;

use crate::ancillary::{ControlBuf, SendMeta};

/// One datagram to be sent: destination, payload and options.
///
/// A `SendMsg` borrows; building one copies no payload.
///
/// ```
/// use mmsg::SendMsg;
/// use std::io::IoSlice;
///
/// let to = "[::1]:4433".parse()?;
/// let one = SendMsg::to(to, b"hello");
/// let parts = [IoSlice::new(b"header"), IoSlice::new(b"payload")];
/// let gathered = SendMsg::gather(&parts).with_dest(to);
/// assert_eq!((one.len(), gathered.len()), (5, 13));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
///
/// The payload must outlive the message:
///
/// ```compile_fail,E0597
/// let msg = {
///     let data = vec![1, 2, 3];
///     mmsg::SendMsg::new(&data)
/// };
/// println!("{}", msg.len());
/// ```
#[doc(alias("msghdr", "mmsghdr", "sendmsg"))]
#[derive(Clone, Copy)]
pub struct SendMsg<'a> {
    pub(super) dest: Option<SocketAddr>,
    pub(super) content: Content<'a>,
}

/// The parts of a datagram. The common case, one buffer and no options, has its own variant.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    /// One buffer and nothing else.
    Plain(&'a [u8]),
    /// Any number of buffers, control messages and options.
    Full { buffers: SendBuffers<'a>, control: &'a [u8], meta: SendMeta },
}

impl<'a> Content<'a> {
    /// Bytes of payload.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match *self {
            Content::Plain(data) | Content::Full { buffers: SendBuffers::One(data), .. } => {
                data.len()
            }
            Content::Full { buffers: SendBuffers::Many(data), .. } => total_len(data),
        }
    }
}

/// Bytes in all buffers together. Buffers may overlap, so the sum can exceed `usize`: it saturates, and
/// no system sends so much.
fn total_len(buffers: &[IoSlice<'_>]) -> usize {
    buffers.iter().fold(0, |sum, part| part.len().saturating_add(sum))
}

/// The payload: one buffer, or several that follow one another.
#[derive(Clone, Copy)]
pub(crate) enum SendBuffers<'a> {
    One(&'a [u8]),
    Many(&'a [IoSlice<'a>]),
}

impl<'a> SendMsg<'a> {
    /// A datagram without a destination, for a connected socket.
    #[must_use]
    #[inline]
    pub const fn new(data: &'a [u8]) -> Self {
        Self { dest: None, content: Content::Plain(data) }
    }

    /// A datagram to `dest`.
    #[must_use]
    #[inline]
    pub const fn to(dest: SocketAddr, data: &'a [u8]) -> Self {
        Self { dest: Some(dest), content: Content::Plain(data) }
    }

    /// A datagram made of several buffers in order, without a destination.
    ///
    /// Unix takes up to 1,024 buffers a datagram (`IOV_MAX`); with more the send fails with the
    /// system's own error, `EMSGSIZE`.
    #[doc(alias("iovec", "writev"))]
    #[must_use]
    #[inline]
    pub const fn gather(data: &'a [IoSlice<'a>]) -> Self {
        let (buffers, meta) = (SendBuffers::Many(data), SendMeta::new());
        Self { dest: None, content: Content::Full { buffers, control: &[], meta } }
    }

    /// Sets the destination.
    #[must_use]
    #[inline]
    pub const fn with_dest(mut self, dest: SocketAddr) -> Self {
        self.dest = Some(dest);
        self
    }

    /// Sets the per-message options.
    ///
    /// Invalid or unsupported options make the send fail with `InvalidInput` or `Unsupported`.
    #[must_use]
    #[inline]
    pub fn with_meta(mut self, meta: SendMeta) -> Self {
        self.content = Content::Full { buffers: self.buffers(), control: self.control(), meta };
        self
    }

    /// Sets the raw control messages.
    ///
    /// Unix and Windows, each with its own control messages.
    #[must_use]
    #[inline]
    pub fn with_control(self, control: &'a ControlBuf<'_>) -> Self {
        self.with_control_bytes(control.as_bytes())
    }

    /// Where it goes, `None` for wherever the socket is connected to.
    #[must_use]
    #[inline]
    pub const fn dest(&self) -> Option<SocketAddr> {
        self.dest
    }

    /// What it asks the kernel for.
    #[must_use]
    #[inline]
    pub const fn meta(&self) -> SendMeta {
        match self.content {
            Content::Plain(_) => SendMeta::new(),
            Content::Full { meta, .. } => meta,
        }
    }

    /// Payload length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.content.len()
    }

    /// Whether there is no payload; an empty datagram is sent like any other.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload, buffer by buffer.
    pub fn slices(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (one, many) = match self.buffers() {
            SendBuffers::One(data) => (Some(data), &[][..]),
            SendBuffers::Many(data) => (None, data),
        };
        one.into_iter().chain(many.iter().map(|part| &**part))
    }

    #[inline]
    pub(crate) fn dest_ref(&self) -> Option<&SocketAddr> {
        self.dest.as_ref()
    }

    #[inline]
    pub(crate) fn buffers(&self) -> SendBuffers<'a> {
        match self.content {
            Content::Plain(data) => SendBuffers::One(data),
            Content::Full { buffers, .. } => buffers,
        }
    }

    #[inline]
    pub(crate) fn control(&self) -> &'a [u8] {
        match self.content {
            Content::Plain(_) => &[],
            Content::Full { control, .. } => control,
        }
    }

    /// The same datagram with control messages given as bytes.
    #[inline]
    pub(crate) fn with_control_bytes(mut self, control: &'a [u8]) -> Self {
        self.content = Content::Full { buffers: self.buffers(), control, meta: self.meta() };
        self
    }
}

impl fmt::Debug for SendMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendMsg")
            .field("dest", &self.dest)
            .field("len", &self.len())
            .field("meta", &self.meta())
            .field("control_len", &self.control().len())
            .finish_non_exhaustive()
    }
}

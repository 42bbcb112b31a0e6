//! One datagram to be sent.

use std::fmt;
use std::io::IoSlice;
use std::net::SocketAddr;

use super::content::{Content, InlineOptions, LentOptions, MsgOptions, SendBuffers};
use crate::ancillary::{ControlBuf, Ecn, RecvMeta, SendMeta};
use crate::sys::{DestRef, UnixAddr};

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
    dest: Dest<'a>,
    content: Content<'a>,
}

/// Where a message goes.
#[derive(Clone, Copy)]
enum Dest<'a> {
    Addr(SocketAddr),
    /// The peer of a connected socket.
    None,
    Unix(UnixAddr<'a>),
}

/// Programs make lists of them: for many small datagrams the time to write the list shows.
#[cfg(test)]
const _: () = assert!(size_of::<SendMsg<'_>>() <= 64);

impl<'a> SendMsg<'a> {
    /// A datagram without a destination, for a connected socket.
    #[must_use]
    #[inline]
    pub const fn new(data: &'a [u8]) -> Self {
        Self::with_parts(Dest::None, SendBuffers::One(data), MsgOptions::NONE)
    }

    /// A datagram to `dest`.
    #[must_use]
    #[inline]
    pub const fn to(dest: SocketAddr, data: &'a [u8]) -> Self {
        Self::with_parts(Dest::Addr(dest), SendBuffers::One(data), MsgOptions::NONE)
    }

    /// A datagram to the address of a Unix socket.
    ///
    /// An address that no socket can have, such as [`UnixAddr::Unnamed`] or a path that is too long, makes
    /// the send fail with `InvalidInput`, as does every one on Windows.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::{BatchSocket, SendMsg, UnixAddr};
    /// use std::os::unix::net::UnixDatagram;
    /// # let dir = std::env::temp_dir().join(format!("mmsg-dest-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// # let path = dir.join("server");
    /// let server = UnixDatagram::bind(&path)?;
    /// let client = UnixDatagram::unbound()?;
    /// let msg = SendMsg::to_unix(UnixAddr::Path(&path), b"hello");
    /// assert_eq!(client.send_batch(&[msg])?, 1);
    /// assert_eq!(server.recv(&mut [0; 8])?, 5);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "sockaddr_un")]
    #[must_use]
    #[inline]
    pub const fn to_unix(dest: UnixAddr<'a>, data: &'a [u8]) -> Self {
        Self::with_parts(Dest::Unix(dest), SendBuffers::One(data), MsgOptions::NONE)
    }

    /// A datagram made of several buffers in order, without a destination.
    ///
    /// Unix takes up to 1,024 buffers a datagram (`IOV_MAX`); with more the send fails with the
    /// system's own error, `EMSGSIZE`.
    #[doc(alias("iovec", "writev"))]
    #[must_use]
    #[inline]
    pub const fn gather(data: &'a [IoSlice<'a>]) -> Self {
        Self::with_parts(Dest::None, SendBuffers::Many(data), MsgOptions::NONE)
    }

    /// Sets the destination.
    #[must_use]
    #[inline]
    pub const fn with_dest(mut self, dest: SocketAddr) -> Self {
        self.dest = Dest::Addr(dest);
        self
    }

    /// Sets the address of a Unix socket as the destination (see [`to_unix`](Self::to_unix)).
    ///
    /// ```
    /// use mmsg::{SendMsg, UnixAddr};
    /// use std::io::IoSlice;
    /// let parts = [IoSlice::new(b"<13>"), IoSlice::new(b"text")];
    /// let dest = UnixAddr::Path("/dev/log".as_ref());
    /// let msg = SendMsg::gather(&parts).with_unix_dest(dest);
    /// assert_eq!((msg.unix_dest(), msg.dest()), (Some(dest), None));
    /// ```
    #[must_use]
    #[inline]
    pub const fn with_unix_dest(mut self, dest: UnixAddr<'a>) -> Self {
        self.dest = Dest::Unix(dest);
        self
    }

    /// Sets the per-message options, in place of those set by an earlier `with_meta` or
    /// [`with_control`](Self::with_control), and of those of a [reply](crate::Datagram::reply).
    ///
    /// Messages can share them. ECN bits and segment size can be set in the message itself as well, by
    /// [`with_ecn`](Self::with_ecn) and [`with_segment_size`](Self::with_segment_size). What else differs from
    /// message to message, such as the source address, needs a `SendMeta` for each, which outlives the send:
    /// [`send_iter`](crate::BatchSocketExt::send_iter) shows it with an iterator.
    ///
    /// Invalid or unsupported options make the send fail with `InvalidInput` or `Unsupported`.
    ///
    /// ```
    /// use mmsg::{SendMeta, SendMsg};
    /// let meta = SendMeta::new().with_hop_limit(1);
    /// let msgs = [b"one", b"two"].map(|data| SendMsg::new(data).with_meta(&meta));
    /// assert_eq!(msgs[1].meta(), meta);
    /// ```
    #[must_use]
    #[inline]
    pub const fn with_meta(self, meta: &'a SendMeta) -> Self {
        self.with_lent(LentOptions::Meta(meta))
    }

    /// Sets the ECN bits, over those of other options, whichever are set first. The rest of the TOS byte comes
    /// from these options, or is 0.
    ///
    /// ```
    /// use mmsg::{Ecn, SendMeta, SendMsg};
    /// let meta = SendMeta::new().with_tos(46 << 2);
    /// let msg = SendMsg::new(b"hello").with_ecn(Ecn::Ect0).with_meta(&meta);
    /// assert_eq!(msg.meta().tos, Some(46 << 2 | Ecn::Ect0 as u8));
    /// ```
    #[doc(alias("ECN", "IP_TOS", "IPV6_TCLASS"))]
    #[must_use]
    #[inline]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        let inline = InlineOptions { ecn: Some(ecn), ..self.inline() };
        self.with_options(MsgOptions { inline, ..self.options() })
    }

    /// Sets the segment size in bytes (see [`SendMeta::segment_size`]), over that of other options, whichever is
    /// set first.
    ///
    /// ```
    /// use mmsg::SendMsg;
    /// let three_datagrams = SendMsg::new(&[0; 3000]).with_segment_size(1200);
    /// assert_eq!(three_datagrams.meta().segment_size, Some(1200));
    /// ```
    #[doc(alias("UDP_SEGMENT", "GSO"))]
    #[must_use]
    #[inline]
    pub const fn with_segment_size(self, segment_size: u16) -> Self {
        let inline = InlineOptions { segment_size: Some(segment_size), ..self.inline() };
        self.with_options(MsgOptions { inline, ..self.options() })
    }

    /// Sets the raw control messages, and the options that [the buffer has](ControlBuf::with_meta), in
    /// place of those set by an earlier call or by [`with_meta`](Self::with_meta).
    ///
    /// Unix and Windows, each with its own control messages.
    ///
    /// ```
    /// use mmsg::control::ControlBuf;
    /// use mmsg::{SendMeta, SendMsg};
    ///
    /// let mut control = ControlBuf::new().with_meta(SendMeta::new().with_hop_limit(1));
    /// control.push(1, 2, b"payload")?;
    /// let msg = SendMsg::new(b"hello").with_control(&control);
    /// assert_eq!(msg.meta().hop_limit, Some(1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub const fn with_control(self, control: &'a ControlBuf<'_>) -> Self {
        self.with_lent(LentOptions::Control(control))
    }

    /// The Internet destination. `None` if the message goes to the socket's peer or to a
    /// [Unix address](Self::unix_dest).
    #[must_use]
    #[inline]
    pub const fn dest(&self) -> Option<SocketAddr> {
        match self.dest {
            Dest::Addr(dest) => Some(dest),
            Dest::None | Dest::Unix(_) => None,
        }
    }

    /// The Unix destination, if there is one.
    ///
    /// ```
    /// use mmsg::{SendMsg, UnixAddr};
    /// let msg = SendMsg::to_unix(UnixAddr::Abstract(b"name"), b"hello");
    /// assert_eq!(msg.unix_dest(), Some(UnixAddr::Abstract(b"name")));
    /// ```
    #[must_use]
    #[inline]
    pub const fn unix_dest(&self) -> Option<UnixAddr<'a>> {
        match self.dest {
            Dest::Unix(dest) => Some(dest),
            Dest::None | Dest::Addr(_) => None,
        }
    }

    /// All of its options together, wherever they are set.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> SendMeta {
        self.options().meta()
    }

    /// Payload length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.buffers().len()
    }

    /// Whether there is no payload; an empty datagram is sent like any other.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload, buffer by buffer.
    ///
    /// ```
    /// use mmsg::SendMsg;
    /// use std::io::IoSlice;
    /// let parts = [IoSlice::new(b"header"), IoSlice::new(b"payload")];
    /// assert!(SendMsg::gather(&parts).slices().eq([&b"header"[..], b"payload"]));
    /// ```
    pub fn slices(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (one, many) = match self.buffers() {
            SendBuffers::One(data) => (Some(data), &[][..]),
            SendBuffers::Many(data) => (None, data),
        };
        one.into_iter().chain(many.iter().map(|part| &**part))
    }

    #[inline]
    const fn with_parts(dest: Dest<'a>, buffers: SendBuffers<'a>, options: MsgOptions<'a>) -> Self {
        Self { dest, content: Content::new(buffers, options) }
    }

    #[inline]
    const fn with_lent(self, lent: LentOptions<'a>) -> Self {
        self.with_options(MsgOptions { lent, ..self.options() })
    }

    #[inline]
    const fn with_options(self, options: MsgOptions<'a>) -> Self {
        Self::with_parts(self.dest, self.buffers(), options)
    }

    /// The same datagram with the options of a reply to a received one.
    #[inline]
    pub(crate) const fn with_reply(self, received: &'a RecvMeta) -> Self {
        self.with_lent(LentOptions::Reply(received))
    }

    #[inline]
    pub(crate) const fn dest_ref(&self) -> DestRef<'_, 'a> {
        match &self.dest {
            Dest::None => DestRef::Addr(None),
            Dest::Addr(dest) => DestRef::Addr(Some(dest)),
            Dest::Unix(dest) => DestRef::Unix(*dest),
        }
    }

    /// Makes a message of a stored datagram.
    #[inline(always)]
    pub(super) fn from_parts(
        dest: DestRef<'_, 'a>,
        data: &'a [u8],
        options: MsgOptions<'a>,
    ) -> Self {
        let dest = match dest {
            DestRef::Unix(dest) => Dest::Unix(dest),
            dest => dest.get().map_or(Dest::None, Dest::Addr),
        };
        Self::with_parts(dest, SendBuffers::One(data), options)
    }

    /// The same with this payload.
    #[inline(always)]
    pub(super) const fn with_data(&self, data: &'a [u8]) -> Self {
        Self::with_parts(self.dest, SendBuffers::One(data), self.options())
    }

    #[inline]
    pub(crate) const fn buffers(&self) -> SendBuffers<'a> {
        self.content.buffers()
    }

    #[inline]
    pub(crate) const fn options(&self) -> MsgOptions<'a> {
        self.content.options()
    }

    #[inline]
    pub(super) const fn inline(&self) -> InlineOptions {
        self.content.options().inline
    }

    #[inline(always)]
    pub(crate) const fn single(&self) -> Option<(&'a [u8], MsgOptions<'a>)> {
        self.content.single()
    }

    #[inline(always)]
    pub(super) const fn unlent(&self) -> Option<(&'a [u8], &InlineOptions)> {
        self.content.unlent()
    }
}

impl fmt::Debug for SendMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SendMsg");
        match self.dest {
            Dest::Unix(dest) => debug.field("unix_dest", &dest),
            _ => debug.field("dest", &self.dest()),
        };
        debug
            .field("len", &self.len())
            .field("meta", &self.meta())
            .field("control_len", &self.options().control().len())
            .finish_non_exhaustive()
    }
}

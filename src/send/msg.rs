//! One datagram to send.

use std::fmt;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::ptr;

use crate::ancillary::{ControlBuf, Ecn, RecvMeta, SendMeta};
use crate::sys::{Dest, Payload, UnixAddr};

/// One datagram to send: destination, payload and settings.
///
/// A `SendMsg` borrows its payload and its settings.
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
#[doc(alias("msghdr", "mmsghdr", "sendmsg", "Transmit"))]
#[derive(Clone, Copy)]
pub struct SendMsg<'a> {
    pub(crate) dest: Dest<'a>,
    pub(crate) payload: Payload<'a>,
    /// The metadata of the message that this one answers, which says where to send from.
    pub(super) reply: Option<&'a RecvMeta>,
    pub(super) meta: Option<&'a SendMeta>,
    pub(super) control: Option<&'a ControlBuf>,
    pub(super) ecn: Option<Ecn>,
    pub(super) segment_size: Option<u16>,
    /// Whether a reply leaves by the interface that its request came by.
    pub(super) by_interface: bool,
}

impl<'a> SendMsg<'a> {
    /// A datagram without a destination, for a connected socket.
    #[must_use]
    #[inline]
    pub const fn new(data: &'a [u8]) -> Self {
        Self::with(Dest::None, Payload::One(data))
    }

    /// A datagram to `dest`. An IPv6 socket that carries IPv4 too takes IPv4 destinations as they are.
    #[must_use]
    #[inline]
    pub const fn to(dest: SocketAddr, data: &'a [u8]) -> Self {
        Self::with(Dest::Addr(dest), Payload::One(data))
    }

    /// A datagram to the address of a Unix socket.
    ///
    /// The send fails with `InvalidInput` for an address that no socket can have, such as [`UnixAddr::Unnamed`] or a
    /// path that is too long, and for every address on Windows.
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
        Self::with(Dest::Unix(dest), Payload::One(data))
    }

    /// A datagram made of several buffers in order, without a destination.
    ///
    /// Unix takes up to 1,024 buffers a datagram (`IOV_MAX`); with more, the send fails with `EMSGSIZE`, unless an
    /// [`Offload`](crate::Offload) copies them together.
    ///
    /// The message borrows the list. In an iterator, make the lists first: rustc rejects a temporary list with E0515
    /// (see the [cookbook](crate::guide::cookbook#a-header-before-each-payload)).
    ///
    /// ```
    /// use mmsg::SendMsg;
    /// use std::io::IoSlice;
    /// let payloads = ["one", "two"];
    /// let lists = payloads.map(|payload| [IoSlice::new(b"header "), IoSlice::new(payload.as_bytes())]);
    /// let msgs = lists.iter().map(|list| SendMsg::gather(list));
    /// assert_eq!(msgs.map(|msg| msg.len()).sum::<usize>(), 20);
    /// ```
    #[doc(alias("iovec", "writev"))]
    #[must_use]
    #[inline]
    pub const fn gather(data: &'a [IoSlice<'a>]) -> Self {
        Self::with(Dest::None, Payload::Many(data))
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

    /// Sets per-message settings, which replace those of an earlier `with_meta`.
    ///
    /// The message borrows the settings, and several messages can share them. In an iterator, make the settings first:
    /// rustc rejects a temporary `SendMeta` with E0515, in a loop with E0716 (see the
    /// [cookbook](crate::guide::cookbook#settings-for-each-message)). ECN bits and segment size need no `SendMeta`:
    /// [`with_ecn`](Self::with_ecn) and [`with_segment_size`](Self::with_segment_size) set them in the message itself.
    ///
    /// They replace those settings of a [reply](crate::Datagram::reply) that both have, and combine with the others. The send
    /// fails with `InvalidInput` if [raw control messages](Self::with_control) have one of them, too, or if one is invalid,
    /// and with `Unsupported` if the platform lacks one.
    ///
    /// ```
    /// use mmsg::{SendMeta, SendMsg};
    /// let shared = SendMeta::new().with_hop_limit(1);
    /// let msgs = [b"one", b"two"].map(|data| SendMsg::new(data).with_meta(&shared));
    /// assert_eq!(msgs[1].meta(), shared);
    ///
    /// // One for each message.
    /// let metas = [1, 2, 3].map(|hops| SendMeta::new().with_hop_limit(hops));
    /// let msgs = metas.iter().map(|meta| SendMsg::new(b"probe").with_meta(meta));
    /// assert!(msgs.map(|msg| msg.meta().hop_limit).eq([Some(1), Some(2), Some(3)]));
    /// ```
    #[must_use]
    #[inline]
    pub const fn with_meta(mut self, meta: &'a SendMeta) -> Self {
        self.meta = Some(meta);
        self
    }

    /// Makes a [reply](crate::Datagram::reply) leave by the interface that its request came by, where two interfaces lead to
    /// one network: discovery by multicast, a host with two cables. The reply to a group leaves from an address of that
    /// interface. Without it the routing table chooses interface and source address, unless the source is link-local.
    ///
    /// Use it only for peers on the link: an IPv4 host beyond a router that the interface has no route to does not get the
    /// reply, and no error says so. (For IPv6, Linux then takes another interface.) It needs
    /// [`Ancillary::DEST`](crate::Ancillary::DEST), and changes nothing for a message that is no reply or that sets the
    /// interface itself.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket, BatchSocketExt, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// Ancillary::DEST.require(&socket)?;
    /// # client.send_to(b"who is there?", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// socket.recv_into(&mut batch)?;
    /// let answers = batch.iter().filter_map(|d| Some(d.reply(b"here")?.by_interface()));
    /// socket.send_each(answers, |_, error| eprintln!("answer: {error}"))?;
    /// # assert_eq!(client.recv(&mut [0; 8])?, 4);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("ipi_ifindex", "mDNS", "SSDP"))]
    #[must_use]
    #[inline]
    pub const fn by_interface(mut self) -> Self {
        self.by_interface = true;
        self
    }

    /// Sets the ECN bits. They replace those of [`SendMeta::tos`], whichever is set first. The rest of the TOS byte comes
    /// from there, or is 0.
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
    pub const fn with_ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = Some(ecn);
        self
    }

    /// Sets the length in bytes of the segments that the kernel splits the payload into; the last one may be shorter
    /// (`UDP_SEGMENT`). 0 means a single datagram, even if the socket has a segment size. Linux 4.18, Android; Windows 10
    /// 2004 (`UDP_SEND_MSG_SIZE`). On others an [`Offload`](crate::Offload) splits the payload.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMsg};
    /// # let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// # let to = socket.get_ref().local_addr()?;
    /// // One message, three datagrams, on any `Offload`.
    /// assert_eq!(socket.send_batch(&[SendMsg::to(to, &[0; 3000]).with_segment_size(1200)])?, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("UDP_SEGMENT", "UDP_SEND_MSG_SIZE", "GSO"))]
    #[must_use]
    #[inline]
    pub const fn with_segment_size(mut self, segment_size: u16) -> Self {
        self.segment_size = Some(segment_size);
        self
    }

    /// Sets raw control messages, for what [`SendMeta`] lacks. They replace those of an earlier `with_control`.
    ///
    /// Unix and Windows, each with its own control messages. They go to the system as they are: on macOS an `IP_PKTINFO`
    /// among them takes the address and the peer away from the socket.
    ///
    /// ```
    /// use mmsg::control::ControlBuf;
    /// use mmsg::{SendMeta, SendMsg};
    ///
    /// let (mut control, meta) = (ControlBuf::new(), SendMeta::new().with_hop_limit(1));
    /// control.push(1, 2, b"payload")?;
    /// let msg = SendMsg::new(b"hello").with_control(&control).with_meta(&meta); // Both apply.
    /// assert_eq!(msg.meta().hop_limit, Some(1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub const fn with_control(mut self, control: &'a ControlBuf) -> Self {
        self.control = Some(control);
        self
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

    /// All settings of the message together, except its segment size and raw control messages.
    #[must_use]
    #[inline(always)] // Each setting is then read where it is, without a copy of all.
    pub fn meta(&self) -> SendMeta {
        let mut settings = self.borrowed_settings();
        if let Some(ecn) = self.ecn {
            settings.tos = Some(settings.tos.unwrap_or(0) & !0b11 | ecn as u8);
        }
        settings
    }

    /// The segment size in bytes, if it is set.
    ///
    /// ```
    /// use mmsg::SendMsg;
    /// assert_eq!(SendMsg::new(&[0; 3000]).with_segment_size(1200).segment_size(), Some(1200));
    /// ```
    #[must_use]
    #[inline]
    pub const fn segment_size(&self) -> Option<u16> {
        self.segment_size
    }

    /// Payload length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match self.payload {
            Payload::One(data) => data.len(),
            // Buffers may overlap, so the sum can exceed `usize`. It saturates, and no system sends that much.
            Payload::Many(list) => list.iter().fold(0, |sum, part| part.len().saturating_add(sum)),
        }
    }

    /// Whether the payload is empty. An empty datagram is sent like any other.
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
        let (one, many) = match self.payload {
            Payload::One(data) => (Some(data), &[][..]),
            Payload::Many(list) => (None, list),
        };
        one.into_iter().chain(many.iter().map(|part| &**part))
    }

    #[inline]
    const fn with(dest: Dest<'a>, payload: Payload<'a>) -> Self {
        let (reply, meta, control) = (None, None, None);
        let (ecn, segment_size, by_interface) = (None, None, false);
        Self { dest, payload, reply, meta, control, ecn, segment_size, by_interface }
    }

    #[inline]
    pub(crate) const fn with_reply(mut self, reply: &'a RecvMeta) -> Self {
        self.reply = Some(reply);
        self
    }

    /// The same message with this payload, as a single datagram.
    pub(crate) const fn segment(mut self, data: &'a [u8]) -> Self {
        (self.payload, self.segment_size) = (Payload::One(data), Some(0));
        self
    }

    /// The borrowed settings together: those of `with_meta`, then those of a reply.
    #[inline(always)]
    pub(crate) fn borrowed_settings(&self) -> SendMeta {
        let mut settings = self.meta.copied().unwrap_or_default();
        if let Some(received) = self.reply {
            let (source, interface) = reply_path(received, self.by_interface);
            settings.source = settings.source.or(source);
            settings.interface = settings.interface.or(interface);
        }
        settings
    }

    /// Whether the message has neither settings nor control messages.
    #[inline]
    pub(crate) fn has_no_settings(&self) -> bool {
        self.ecn.is_none()
            && self.segment_size.is_none()
            && self.meta.is_none()
            && self.control.is_none()
            && self.reply.is_none()
    }

    /// Whether both messages have equal settings and control messages.
    #[inline(always)]
    pub(crate) fn same_settings(&self, other: &SendMsg<'_>) -> bool {
        let ecn = |msg: &SendMsg<'_>| msg.ecn.map_or(4, |ecn| ecn as u8);
        ecn(self) == ecn(other)
            && self.segment_size == other.segment_size
            && self.by_interface == other.by_interface
            && (place(self.reply) == place(other.reply)
                && place(self.meta) == place(other.meta)
                && place(self.control) == place(other.control)
                || self.same_borrowed_settings(other))
    }

    #[inline(never)]
    fn same_borrowed_settings(&self, other: &SendMsg<'_>) -> bool {
        // What `reply_meta` depends on. Messages that differ in it may still have equal replies: one to this host's address
        // and one to a broadcast address.
        let origin = |meta: &RecvMeta| (meta.local, meta.dest, meta.interface);
        let same_reply = match (self.reply, other.reply) {
            (Some(one), Some(other)) => {
                origin(one) == origin(other)
                    || !self.by_interface && one.reply_meta() == other.reply_meta()
            }
            (one, other) => one.is_none() && other.is_none(),
        };
        same_reply && self.meta == other.meta && self.same_control(other)
    }

    /// Skips empty slices: their address may be unmapped, and `memcmp` with length 0 then takes 150 ns.
    #[inline]
    fn same_control(&self, other: &SendMsg<'_>) -> bool {
        let (own, other) = (self.raw_control(), other.raw_control());
        own.len() == other.len() && (own.is_empty() || own == other)
    }

    #[inline]
    pub(crate) fn raw_control(&self) -> &'a [u8] {
        self.control.map_or(&[], ControlBuf::as_bytes)
    }

    #[inline]
    pub(crate) fn has_metas(&self) -> bool {
        self.reply.is_some() || self.meta.is_some()
    }
}

/// Where a reply leaves: its source address and its interface.
#[inline(never)]
fn reply_path(received: &RecvMeta, by_interface: bool) -> (Option<IpAddr>, Option<u32>) {
    let reply = received.reply_meta();
    if by_interface {
        // For a question to a group the kernel reports the address that its routes choose, which may be another interface's.
        let source = reply.source.filter(|source| Some(*source) == received.dest);
        return (source, received.interface);
    }
    (reply.source, reply.interface)
}

/// Where a value is, or null.
#[inline(always)]
fn place<T>(value: Option<&T>) -> *const T {
    value.map_or(ptr::null(), ptr::from_ref)
}

/// Shows no payload.
impl fmt::Debug for SendMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendMsg")
            .field("dest", &self.dest)
            .field("len", &self.len())
            .field("meta", &self.meta())
            .field("control_len", &self.raw_control().len())
            .finish_non_exhaustive()
    }
}

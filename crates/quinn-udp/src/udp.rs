//! quinn-udp's types for datagrams, errors and borrowed sockets.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mmsg::error_queue::{Event, Report};
use socket2::SockRef;

/// What a receive says of one buffer: datagrams of [`stride`](Self::stride) bytes, of which the last may be shorter.
///
/// ```
/// use mmsg_quinn_udp::RecvMeta;
///
/// fn datagrams<'a>(meta: &RecvMeta, buffer: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
///     buffer[..meta.len].chunks(meta.stride)
/// }
/// # let _ = datagrams;
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecvMeta {
    /// The source of the datagrams.
    pub addr: SocketAddr,
    /// The number of bytes received.
    pub len: usize,
    /// The length of each datagram but the last, at least 1.
    pub stride: usize,
    /// The ECN bits, if any is set.
    pub ecn: Option<EcnCodepoint>,
    /// The address that the datagrams were sent to, where the system reports it: not on NetBSD and OpenBSD for IPv4.
    pub dst_ip: Option<IpAddr>,
    /// The index of the interface at which the datagrams arrived, where the system reports it.
    pub interface_index: Option<u32>,
    /// When the kernel received the datagrams, since the Unix epoch. Linux and Android.
    pub timestamp: Option<Duration>,
}

impl Default for RecvMeta {
    /// A value to be overwritten.
    fn default() -> Self {
        Self {
            addr: SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
            len: 0,
            stride: 1,
            ecn: None,
            dst_ip: None,
            interface_index: None,
            timestamp: None,
        }
    }
}

/// A message to send: one datagram, or several of [`segment_size`](Self::segment_size) bytes.
///
/// ```
/// use mmsg_quinn_udp::{EcnCodepoint, Transmit};
/// let three_datagrams = Transmit {
///     destination: "127.0.0.1:9".parse().unwrap(),
///     ecn: Some(EcnCodepoint::Ect0),
///     contents: &[0; 3000],
///     segment_size: Some(1200),
///     src_ip: None,
/// };
/// # let _ = three_datagrams;
/// ```
#[derive(Clone, Debug)]
pub struct Transmit<'a> {
    /// Where to send it.
    pub destination: SocketAddr,
    /// The ECN bits to set.
    pub ecn: Option<EcnCodepoint>,
    /// The bytes of all its datagrams.
    pub contents: &'a [u8],
    /// The length of each datagram but the last, if there are several.
    pub segment_size: Option<usize>,
    /// The address to send it from.
    pub src_ip: Option<IpAddr>,
}

/// The ECN bits of an IP header (RFC 3168).
///
/// ```
/// use mmsg_quinn_udp::EcnCodepoint;
/// assert_eq!(EcnCodepoint::from_bits(0b10), Some(EcnCodepoint::Ect0));
/// assert_eq!(EcnCodepoint::from_bits(0b00), None);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum EcnCodepoint {
    /// The sender understands ECN: ECT(0).
    Ect0 = 0b10,
    /// The sender understands ECN: ECT(1).
    Ect1 = 0b01,
    /// A router on the path was congested.
    Ce = 0b11,
}

impl EcnCodepoint {
    /// The codepoint in the two low bits.
    #[must_use]
    pub fn from_bits(x: u8) -> Option<Self> {
        match x & 0b11 {
            0b10 => Some(Self::Ect0),
            0b01 => Some(Self::Ect1),
            0b11 => Some(Self::Ce),
            _ => None,
        }
    }
}

/// An error about a datagram that was sent earlier, from the socket's error queue.
///
/// [`UdpSocketState::recv_transport_error`](crate::UdpSocketState::recv_transport_error) has an example.
///
/// ```
/// use mmsg_quinn_udp::{TransportError, TransportErrorPayload};
///
/// fn is_lost(error: &TransportError) -> bool {
///     error.mtu().is_none() && matches!(error.payload, TransportErrorPayload::Unreachable)
/// }
/// # let _ = is_lost;
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TransportError {
    /// The host that reported it: a router or the peer. `None` if it was this host.
    pub addr: Option<SocketAddr>,
    /// What happened.
    pub payload: TransportErrorPayload,
    /// The system's error number.
    pub raw_errno: i32,
}

impl TransportError {
    /// The MTU of the link that could not carry the datagram.
    #[must_use]
    pub fn mtu(&self) -> Option<u32> {
        match self.payload {
            TransportErrorPayload::TooBig { mtu } => Some(mtu),
            _ => None,
        }
    }
}

impl From<Report> for TransportError {
    fn from(report: Report) -> Self {
        let payload = match report.event {
            Event::TooBig { mtu } => TransportErrorPayload::TooBig { mtu },
            Event::Refused | Event::Unreachable => TransportErrorPayload::Unreachable,
            _ => TransportErrorPayload::Other,
        };
        Self { addr: report.offender, payload, raw_errno: report.errno }
    }
}

/// What a [`TransportError`] is about.
///
/// ```
/// use mmsg_quinn_udp::TransportErrorPayload;
/// let _ = TransportErrorPayload::TooBig { mtu: 1280 };
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TransportErrorPayload {
    /// The host or its port is unreachable.
    Unreachable,
    /// The datagram is too big for a link on the path.
    TooBig {
        /// The link's MTU; 0 if the router did not report it.
        mtu: u32,
    },
    /// Something else.
    Other,
}

/// A socket, borrowed for one call: made from a reference to any socket of std, tokio, socket2 and others.
///
/// ```
/// use mmsg_quinn_udp::UdpSockRef;
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// UdpSockRef::from(&socket).set_nonblocking(true)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UdpSockRef<'a>(pub(crate) SockRef<'a>);

impl UdpSockRef<'_> {
    /// Whether calls on the socket return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }
}

impl<'s, S> From<&'s S> for UdpSockRef<'s>
where
    SockRef<'s>: From<&'s S>,
{
    fn from(socket: &'s S) -> Self {
        Self(socket.into())
    }
}

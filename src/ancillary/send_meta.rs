//! Per-message options of a send.

use std::net::IpAddr;

use super::Ecn;

/// Options of one message to be sent.
///
/// `None` leaves the choice to the socket. Invalid or unsupported options make the send fail with
/// [`InvalidInput`](std::io::ErrorKind::InvalidInput) or
/// [`Unsupported`](std::io::ErrorKind::Unsupported).
///
/// ```
/// use mmsg::{Ecn, SendMeta, SendMsg};
/// let meta = SendMeta::new().with_ecn(Ecn::Ect0).with_source("192.0.2.1".parse()?);
/// let msg = SendMsg::to("192.0.2.7:4433".parse()?, b"hello").with_meta(&meta);
/// assert_eq!(msg.meta().tos, Some(0b10));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendMeta {
    /// The TOS byte (IPv4) or traffic class (IPv6), ECN bits included. It overrides the socket's own, even
    /// if it is 0. Linux, Android, macOS, FreeBSD, Windows; the other BSDs for IPv6. On Windows, a
    /// TOS of ECN bits alone (`IP_ECN`) leaves the other bits to the socket. Some Android kernels reject it
    /// (`EINVAL`, `EIO`): an [`Offload`](crate::Offload) then sends without it, and
    /// [says so](crate::offload::OffloadState::sends_tos).
    #[doc(alias("IP_TOS", "IPV6_TCLASS", "DSCP"))]
    pub tos: Option<u8>,
    /// The address of this host to send from: of the destination's family, or IPv4-mapped for an
    /// IPv4 destination. Linux, Android, macOS, the BSDs, Windows.
    #[doc(alias("IP_PKTINFO", "IPV6_PKTINFO", "pktinfo", "ipi_spec_dst"))]
    pub source: Option<IpAddr>,
    /// Index of the interface to send from. nix's `if_nametoindex` finds it by its name, on Linux also rustix's
    /// `name_to_index`. Linux, Android, macOS, NetBSD, Windows; the other BSDs for IPv6.
    #[doc(alias("ipi_ifindex", "ipi6_ifindex"))]
    pub interface: Option<u32>,
    /// Time to live (IPv4, 1 to 255) or hop limit (IPv6), also of multicast. Linux, Android, Windows; others for IPv6.
    #[doc(alias("IP_TTL", "IPV6_HOPLIMIT"))]
    pub hop_limit: Option<u8>,
    /// Length in bytes of the segments that the kernel splits the payload into; the last one may be
    /// shorter (`UDP_SEGMENT`). 0 means a single datagram, even if the socket has a segment size.
    /// Linux 4.18, Android; Windows 10 2004 (`UDP_SEND_MSG_SIZE`).
    #[doc(alias("UDP_SEGMENT", "GSO"))]
    pub segment_size: Option<u16>,
    /// When to send, in nanoseconds of the socket's [`TransmitClock`](crate::TransmitClock). The send fails with
    /// `EINVAL` until [`select`](crate::TransmitClock::select) is called. Linux 4.19, where the device has the queueing
    /// discipline `fq` or `etf`. Under any other, and on loopback, which has none, the message leaves at once, without
    /// an error.
    #[doc(alias("SCM_TXTIME", "SO_TXTIME"))]
    pub transmit_time: Option<u64>,
    /// The number of the datagram's transmit timestamp, instead of the running count
    /// ([`Event::Sent`](crate::error_queue::Event::Sent), `SCM_TS_OPT_ID`). The count skips such datagrams. The send
    /// fails with `EINVAL` unless [`SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on. Linux 6.13.
    #[doc(alias = "SCM_TS_OPT_ID")]
    pub timestamp_id: Option<u32>,
}

impl SendMeta {
    /// No options.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            tos: None,
            source: None,
            interface: None,
            hop_limit: None,
            segment_size: None,
            transmit_time: None,
            timestamp_id: None,
        }
    }

    /// Sets the ECN bits, and leaves the rest of `tos` as it is (initially 0).
    #[doc(alias = "ECN")]
    #[must_use]
    pub const fn with_ecn(mut self, ecn: Ecn) -> Self {
        let rest = match self.tos {
            Some(tos) => tos & !0b11,
            None => 0,
        };
        self.tos = Some(rest | ecn as u8);
        self
    }

    /// Sets the TOS byte or traffic class, ECN bits included.
    ///
    /// ```
    /// use mmsg::{Ecn, SendMeta};
    /// let expedited = SendMeta::new().with_tos(46 << 2).with_ecn(Ecn::Ect0); // DSCP 46 (RFC 3246)
    /// assert_eq!(expedited.tos, Some(0b101110_10));
    /// ```
    #[doc(alias("IP_TOS", "IPV6_TCLASS", "DSCP"))]
    #[must_use]
    pub const fn with_tos(mut self, tos: u8) -> Self {
        self.tos = Some(tos);
        self
    }

    /// Sets the source address.
    #[doc(alias("IP_PKTINFO", "IPV6_PKTINFO", "pktinfo"))]
    #[must_use]
    pub const fn with_source(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Sets the interface by its index.
    ///
    /// ```
    /// use mmsg::{SendMeta, SendMsg};
    /// let meta = SendMeta::new().with_interface(2).with_hop_limit(1);
    /// let announcement = SendMsg::to("224.0.0.251:5353".parse()?, b"here").with_meta(&meta);
    /// # assert_eq!(announcement.meta().interface, Some(2));
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub const fn with_interface(mut self, interface: u32) -> Self {
        self.interface = Some(interface);
        self
    }

    /// Sets the time to live or hop limit.
    ///
    /// ```
    /// use mmsg::{SendMeta, SendMsg};
    /// // A probe for each router on the way, as traceroute sends them.
    /// let metas: Vec<_> = (1..=30).map(|hops| SendMeta::new().with_hop_limit(hops)).collect();
    /// let probes: Vec<_> = metas.iter().map(|meta| SendMsg::new(b"probe").with_meta(meta)).collect();
    /// assert_eq!(probes[6].meta().hop_limit, Some(7));
    /// ```
    #[doc(alias("IP_TTL", "IPV6_HOPLIMIT"))]
    #[must_use]
    pub const fn with_hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = Some(hop_limit);
        self
    }

    /// Sets the segment size in bytes.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMeta, SendMsg};
    /// # let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// # let to = socket.get_ref().local_addr()?;
    /// let meta = SendMeta::new().with_segment_size(1200);
    /// // One message, three datagrams, on any `Offload`.
    /// assert_eq!(socket.send_batch(&[SendMsg::to(to, &[0; 3000]).with_meta(&meta)])?, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("UDP_SEGMENT", "GSO"))]
    #[must_use]
    pub const fn with_segment_size(mut self, segment_size: u16) -> Self {
        self.segment_size = Some(segment_size);
        self
    }

    /// Sets the transmit time, in nanoseconds of the socket's [`TransmitClock`](crate::TransmitClock).
    ///
    /// ```
    /// use mmsg::{SendMeta, TransmitClock};
    /// # if !cfg!(target_os = "linux") { return Ok(()); }
    /// let in_a_millisecond = TransmitClock::Monotonic.now()? + 1_000_000;
    /// let meta = SendMeta::new().with_transmit_time(in_a_millisecond);
    /// # assert!(meta.transmit_time.is_some());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("SCM_TXTIME", "SO_TXTIME"))]
    #[must_use]
    pub const fn with_transmit_time(mut self, nanoseconds: u64) -> Self {
        self.transmit_time = Some(nanoseconds);
        self
    }

    /// Sets the number of the datagram's send timestamp.
    ///
    /// ```
    /// use mmsg::{SendMeta, SendMsg};
    /// let meta = SendMeta::new().with_timestamp_id(7);
    /// let msg = SendMsg::new(b"frame 7").with_meta(&meta); // `Event::Sent` says 7 as well.
    /// assert_eq!(msg.meta().timestamp_id, Some(7));
    /// ```
    #[must_use]
    pub const fn with_timestamp_id(mut self, id: u32) -> Self {
        self.timestamp_id = Some(id);
        self
    }
}

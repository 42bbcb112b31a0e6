//! Per-message options of a send.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Ecn;
use super::unencodable::Unencodable;
use crate::sys::numbers::{self, CmsgType};
use crate::sys::{Layout, control_message};

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
    /// TOS of ECN bits alone (`IP_ECN`) leaves the other bits to the socket. If the kernel rejects it, the
    /// message is sent without: [`Ecn::is_sent`] says so.
    #[doc(alias("IP_TOS", "IPV6_TCLASS", "DSCP"))]
    pub tos: Option<u8>,
    /// The address of this host to send from: of the destination's family, or IPv4-mapped for an
    /// IPv4 destination. Linux, Android, macOS, the BSDs, Windows.
    #[doc(alias("IP_PKTINFO", "IPV6_PKTINFO", "pktinfo", "ipi_spec_dst"))]
    pub source: Option<IpAddr>,
    /// Index of the interface to send from. Linux, Android, macOS, NetBSD, Windows; the other BSDs for
    /// IPv6.
    #[doc(alias("ipi_ifindex", "ipi6_ifindex"))]
    pub interface: Option<u32>,
    /// Time to live (IPv4, 1 to 255) or hop limit (IPv6). Linux, Android, Windows; others for IPv6.
    #[doc(alias("IP_TTL", "IPV6_HOPLIMIT"))]
    pub hop_limit: Option<u8>,
    /// Length in bytes of the segments that the kernel splits the payload into; the last one may be
    /// shorter (`UDP_SEGMENT`). 0 means a single datagram, even if the socket has a segment size.
    /// Linux 4.18, Android; Windows 10 2004 (`UDP_SEND_MSG_SIZE`).
    #[doc(alias("UDP_SEGMENT", "GSO"))]
    pub segment_size: Option<u16>,
    /// When to send, in nanoseconds of the socket's [`TransmitClock`](crate::TransmitClock).
    /// The send fails with `EINVAL` before [`select`](crate::TransmitClock::select) was called.
    /// Linux 4.19, where the device has the queueing discipline `fq` or `etf`. Under any other, and on loopback,
    /// which has none, the message leaves at once, without an error.
    #[doc(alias("SCM_TXTIME", "SO_TXTIME"))]
    pub transmit_time: Option<u64>,
    /// The number of the datagram's send timestamp, in place of the running count
    /// ([`Event::Sent`](crate::error_queue::Event::Sent), `SCM_TS_OPT_ID`). The count passes over such datagrams. The send fails with
    /// `EINVAL` unless [`SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on. Linux 6.13.
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

    /// Writes the control messages for an IPv4 (or IPv4-mapped) or IPv6 destination, followed by the
    /// encoded messages in `raw`. Returns the length in bytes.
    pub(crate) fn encode(
        &self,
        v4: bool,
        raw: &[u8],
        space: &mut [u8],
    ) -> Result<usize, Unencodable> {
        // First, so that the datagrams of a rejected GSO batch can use the bytes after it.
        let at = match self.segment_size {
            Some(size) => Self::encode_segment_size(size, space)?,
            None => 0,
        };
        let mut writer = Writer { space, at, v4 };
        if v4 {
            self.encode_v4(&mut writer)?
        } else {
            self.encode_v6(&mut writer)?
        }
        if let Some(time) = self.transmit_time {
            writer.append("transmit_time", numbers::TXTIME, &time.to_ne_bytes())?;
        }
        if let Some(id) = self.timestamp_id {
            writer.append("timestamp_id", numbers::STAMP_NUMBER, &id.to_ne_bytes())?;
        }
        writer.append_raw(raw)
    }

    /// Writes a segment size alone. Returns the length in bytes.
    #[inline]
    pub(crate) fn encode_segment_size(size: u16, space: &mut [u8]) -> Result<usize, Unencodable> {
        if size == 0 && !numbers::SEGMENT_MAY_BE_ZERO {
            return Ok(0);
        }
        let mut writer = Writer { space, at: 0, v4: true };
        let (size, long) = (size.to_ne_bytes(), u32::from(size).to_ne_bytes());
        let payload = if numbers::SEGMENT_LEN == 2 { &size[..] } else { &long };
        writer.append("segment_size", numbers::SEGMENT, payload)?;
        Ok(writer.at)
    }

    /// The TOS byte if it has no other bits than those of ECN.
    fn ecn_alone(&self) -> Option<u8> {
        self.tos.filter(|tos| tos & !0b11 == 0)
    }

    fn encode_v4(&self, writer: &mut Writer<'_>) -> Result<(), Unencodable> {
        if let Some(ecn) = self.ecn_alone().filter(|_| numbers::SEND_ECN_V4.is_some()) {
            writer.append_int("tos", numbers::SEND_ECN_V4, ecn)?;
        } else if let Some(tos) = self.tos {
            // An int everywhere but on FreeBSD (ip_cmsg_send in net/ipv4/ip_sockglue.c takes both).
            if numbers::SEND_TOS_IS_A_BYTE {
                writer.append("tos", numbers::SEND_TOS, &[tos])?;
            } else {
                writer.append_int("tos", numbers::SEND_TOS, tos)?;
            }
        }
        if let Some(ttl) = self.hop_limit {
            if ttl == 0 {
                return Err(Unencodable::NoHops);
            }
            writer.append_int("hop_limit", numbers::SEND_TTL, ttl)?;
        }
        let source = match self.source.map(|ip| ip.to_canonical()) {
            Some(source @ IpAddr::V6(_)) => {
                return Err(Unencodable::SourceFamily { source, v4: true });
            }
            Some(IpAddr::V4(ip)) => Some(ip),
            None => None,
        };
        if source.is_none() && self.interface.is_none() {
            return Ok(());
        }
        let ip = source.unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
        if numbers::SEND_PKTINFO_V4.is_none() && self.interface.is_none() {
            return writer.append("source", numbers::SEND_SRCADDR_V4, &ip);
        }
        if numbers::SEND_PKTINFO_V4_IS_SHORT {
            let interface = self.interface.unwrap_or(0).to_ne_bytes();
            return writer.append(
                "source",
                numbers::SEND_PKTINFO_V4,
                [ip, interface].as_flattened(),
            );
        }
        // struct in_pktinfo (ip(7)): interface, source (ipi_spec_dst), and a field that the kernel
        // ignores on send.
        let mut info = [0; 12];
        info[..4].copy_from_slice(&self.interface.unwrap_or(0).to_ne_bytes());
        info[4..8].copy_from_slice(&ip);
        // A platform without this control message still has source addresses, so it is the interface that fails.
        writer.append("interface", numbers::SEND_PKTINFO_V4, &info)
    }

    fn encode_v6(&self, writer: &mut Writer<'_>) -> Result<(), Unencodable> {
        if let Some(ecn) = self.ecn_alone().filter(|_| numbers::SEND_ECN_V6.is_some()) {
            writer.append_int("tos", numbers::SEND_ECN_V6, ecn)?;
        } else if let Some(tos) = self.tos {
            writer.append_int("tos", numbers::SEND_TCLASS, tos)?;
        }
        if let Some(hops) = self.hop_limit {
            writer.append_int("hop_limit", numbers::SEND_HOP_LIMIT, hops)?;
        }
        let ip = match self.source {
            Some(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none() => ip,
            Some(source) => return Err(Unencodable::SourceFamily { source, v4: false }),
            None if self.interface.is_none() => return Ok(()),
            None => Ipv6Addr::UNSPECIFIED,
        };
        // struct in6_pktinfo (RFC 3542, section 6.1).
        let mut info = [0; 20];
        info[..16].copy_from_slice(&ip.octets());
        info[16..].copy_from_slice(&self.interface.unwrap_or(0).to_ne_bytes());
        let option = if self.source.is_some() { "source" } else { "interface" };
        writer.append(option, numbers::SEND_PKTINFO_V6, &info)
    }
}

/// Appends control messages to a buffer.
struct Writer<'a> {
    space: &'a mut [u8],
    at: usize,
    v4: bool,
}

impl Writer<'_> {
    /// Appends the control message of an option, a field of `SendMeta`.
    #[inline]
    fn append(
        &mut self,
        option: &'static str,
        ty: Option<CmsgType>,
        payload: &[u8],
    ) -> Result<(), Unencodable> {
        let ty = ty.ok_or(Unencodable::Unsupported { option, v4: self.v4 })?;
        let end = control_message::append(Layout::NATIVE, self.space, self.at, ty, payload);
        let needed = self.at + Layout::NATIVE.space(payload.len());
        self.at = end.ok_or(Unencodable::TooLong { needed })?;
        Ok(())
    }

    fn append_int(
        &mut self,
        option: &'static str,
        ty: Option<CmsgType>,
        value: u8,
    ) -> Result<(), Unencodable> {
        self.append(option, ty, &i32::from(value).to_ne_bytes())
    }

    /// Appends encoded messages after the last one's padding.
    fn append_raw(self, raw: &[u8]) -> Result<usize, Unencodable> {
        let end = self.at + raw.len();
        let space = self.space.get_mut(self.at..end);
        space.ok_or(Unencodable::TooLong { needed: end })?.copy_from_slice(raw);
        Ok(end)
    }
}

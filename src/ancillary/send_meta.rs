//! Per-message settings of a send, and the control messages that they become.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::invalid;
use super::sys::numbers::{self, CmsgType, SourceRule};
use super::sys::{
    CONTROL_SPACE, ControlMessage, ControlMessages, Families, Layout, control_message,
};

/// Settings of one message to be sent; [`SendMsg`](crate::SendMsg) itself has the ECN bits and the segment size.
///
/// `None` leaves the choice to the socket. Invalid or unsupported settings make the send fail with
/// [`InvalidInput`](std::io::ErrorKind::InvalidInput) or
/// [`Unsupported`](std::io::ErrorKind::Unsupported).
///
/// ```
/// use mmsg::{Ecn, SendMeta, SendMsg};
/// let meta = SendMeta::new().with_source("192.0.2.1".parse()?).with_hop_limit(64);
/// let msg = SendMsg::to("192.0.2.7:4433".parse()?, b"hello").with_meta(&meta).with_ecn(Ecn::Ect0);
/// assert_eq!((msg.meta().source, msg.meta().tos), (meta.source, Some(0b10)));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendMeta {
    /// The TOS byte (IPv4) or traffic class (IPv6), ECN bits included. It overrides the socket's own, even
    /// if it is 0. Linux, Android, macOS, FreeBSD, Windows; the other BSDs for IPv6. macOS 10.15 ignores it for IPv4. On
    /// Windows, a TOS of ECN bits alone (`IP_ECN`) leaves the other bits to the socket. Some Android kernels reject it
    /// (`EINVAL`, `EIO`): an [`Offload`](crate::Offload) then sends without it, and
    /// [says so](crate::offload::OffloadState::sends_tos).
    #[doc(alias("IP_TOS", "IPV6_TCLASS", "DSCP"))]
    pub tos: Option<u8>,
    /// The address of this host to send from: of the destination's family, or IPv4-mapped for an
    /// IPv4 destination. Linux, Android, macOS, the BSDs, Windows. macOS, FreeBSD and DragonFly send IPv4 from another
    /// source than the socket's own address only on a socket that is bound to all addresses and not connected: on any
    /// other, another source is `InvalidInput`. FreeBSD needs a bound socket. On NetBSD an IPv6 socket has none for IPv4.
    #[doc(alias("IP_PKTINFO", "IPV6_PKTINFO", "pktinfo", "ipi_spec_dst"))]
    pub source: Option<IpAddr>,
    /// Index of the interface to send from. nix's `if_nametoindex` finds it by its name, on Linux also rustix's
    /// `name_to_index`. Linux, Android, macOS, NetBSD, Windows; the other BSDs for IPv6. macOS ignores it beside an IPv4
    /// source; without one, for an IPv4 destination, it is `InvalidInput` on a socket that is bound to one address or
    /// connected.
    #[doc(alias("ipi_ifindex", "ipi6_ifindex"))]
    pub interface: Option<u32>,
    /// Time to live (IPv4, 1 to 255) or hop limit (IPv6), also of multicast. Linux, Android, Windows; others for IPv6.
    #[doc(alias("IP_TTL", "IPV6_HOPLIMIT"))]
    pub hop_limit: Option<u8>,
    /// When to send, by the socket's [`TransmitClock`](crate::TransmitClock). The send fails with
    /// `EINVAL` until [`select`](crate::TransmitClock::select) is called. Linux 4.19, where the device has the queueing
    /// discipline `fq` or `etf`. Under any other, and on loopback, which has none, the message leaves at once, without
    /// an error.
    #[doc(alias("SCM_TXTIME", "SO_TXTIME"))]
    pub transmit_time: Option<Duration>,
    /// The number of the datagram's transmit timestamp, instead of the running count
    /// ([`Event::Sent`](crate::error_queue::Event::Sent), `SCM_TS_OPT_ID`). The count skips such datagrams. The send
    /// fails with `EINVAL` unless [`SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on. Linux 6.13.
    #[doc(alias = "SCM_TS_OPT_ID")]
    pub timestamp_id: Option<u32>,
}

impl SendMeta {
    /// No settings.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            tos: None,
            source: None,
            interface: None,
            hop_limit: None,
            transmit_time: None,
            timestamp_id: None,
        }
    }

    /// Sets the TOS byte or traffic class, ECN bits included; [`SendMsg::with_ecn`](crate::SendMsg::with_ecn) sets these
    /// alone.
    ///
    /// ```
    /// use mmsg::{Ecn, SendMeta, SendMsg};
    /// let expedited = SendMeta::new().with_tos(46 << 2); // DSCP 46 (RFC 3246)
    /// let msg = SendMsg::new(b"hello").with_meta(&expedited).with_ecn(Ecn::Ect0);
    /// assert_eq!(msg.meta().tos, Some(0b101110_10));
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

    /// Sets the transmit time, by the socket's [`TransmitClock`](crate::TransmitClock).
    ///
    /// ```
    /// use mmsg::{SendMeta, TransmitClock};
    /// use std::time::Duration;
    /// # if !cfg!(target_os = "linux") { return Ok(()); }
    /// let in_a_millisecond = TransmitClock::Monotonic.now()? + Duration::from_millis(1);
    /// let meta = SendMeta::new().with_transmit_time(in_a_millisecond);
    /// # assert!(meta.transmit_time.is_some());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("SCM_TXTIME", "SO_TXTIME"))]
    #[must_use]
    pub const fn with_transmit_time(mut self, time: Duration) -> Self {
        self.transmit_time = Some(time);
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

    /// Writes the control messages of a segment size and of these settings for destinations of these families (IPv4-mapped
    /// ones are IPv4), and the raw ones after them. Returns the length in bytes.
    #[inline(always)]
    pub(crate) fn encode(
        &self,
        families: Families,
        segment_size: Option<u16>,
        raw: &[u8],
        space: &mut [u8],
    ) -> io::Result<usize> {
        let mut writer = ControlWriter { space, len: 0, families };
        let Self { tos, source, interface, hop_limit, transmit_time, timestamp_id } = *self;
        if let Some(size) = segment_size {
            writer.append_segment_size(size)?;
        }
        if let Some(tos) = tos {
            writer.append_tos(tos)?;
        }
        if let Some(hops) = hop_limit {
            writer.append_hop_limit(hops)?;
        }
        if source.is_some() || interface.is_some() {
            writer.append_pktinfo(source, interface)?;
        }
        if let Some(time) = transmit_time {
            // In nanoseconds, of which 64 bits hold 584 years.
            let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            writer.append("transmit_time", numbers::TXTIME, &time.to_ne_bytes())?;
        }
        if let Some(id) = timestamp_id {
            writer.append("timestamp_id", numbers::STAMP_NUMBER, &id.to_ne_bytes())?;
        }
        if raw.is_empty() { Ok(writer.len) } else { writer.append_raw(raw) }
    }

    /// Prepares the settings of an IPv4 datagram for a socket with the address `own`, so that the send leaves address and peer
    /// to the socket. Its own source needs no naming.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if this system cannot send so from a socket that is bound to one address or connected; `Unsupported` if it
    /// cannot from an IPv6 socket.
    #[cold]
    pub(crate) fn keep_socket(&mut self, rule: SourceRule, own: Option<IpAddr>) -> io::Result<()> {
        let unbinds = rule == SourceRule::Unbinds;
        if unbinds && self.source.is_some() {
            self.interface = None;
        }
        let Some(own) = own else { return Ok(()) };
        if rule == SourceRule::IgnoredByV6 && own.is_ipv6() {
            return Err(unsupported("a source or interface", "IPv4 on an IPv6 socket"));
        }
        let own = own.to_canonical();
        if rule == SourceRule::IgnoredByV6 || own.is_unspecified() {
            return Ok(());
        }
        let named = match (self.source, self.interface) {
            (Some(source), _) if source.to_canonical() != own => format!("source is {source}"),
            (None, Some(index)) if unbinds => format!("interface is {index}"),
            _ => {
                self.source = None;
                return Ok(());
            }
        };
        let reason = "on this system only a socket that is bound to all addresses and not connected can send so";
        Err(invalid(format!("SendMeta::{named}, the socket's own address {own}: {reason}")))
    }

    /// Whether these settings cannot be written for both families at once.
    pub(crate) fn needs_one_family(&self) -> bool {
        let either = self.source.is_some() || self.interface.is_some();
        either || self.hop_limit == Some(0) || !numbers::IGNORES_OTHER_FAMILY
    }
}

/// Appends control messages to a buffer, for destinations of these families.
struct ControlWriter<'a> {
    space: &'a mut [u8],
    /// Bytes written.
    len: usize,
    families: Families,
}

impl ControlWriter<'_> {
    #[inline]
    fn append_segment_size(&mut self, size: u16) -> io::Result<()> {
        if size == 0 && !numbers::SEGMENT_MAY_BE_ZERO {
            return Ok(());
        }
        let (size, long) = (size.to_ne_bytes(), u32::from(size).to_ne_bytes());
        let payload = if numbers::SEGMENT_LEN == 2 { &size[..] } else { &long };
        self.append("segment_size", numbers::SEGMENT, payload)
    }

    #[inline(always)]
    fn append_tos(&mut self, tos: u8) -> io::Result<()> {
        if self.families.v4 {
            let is_a_byte = numbers::SEND_TOS_IS_A_BYTE;
            self.append_tos_as(tos, numbers::ECN_V4, numbers::SEND_TOS, is_a_byte)?;
        }
        if self.families.v6 {
            self.append_tos_as(tos, numbers::ECN_V6, numbers::TCLASS, false)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn append_tos_as(
        &mut self,
        tos: u8,
        ecn: Option<CmsgType>,
        whole: Option<CmsgType>,
        is_a_byte: bool,
    ) -> io::Result<()> {
        if ecn.is_some() && tos & !0b11 == 0 {
            self.append_int("tos", ecn, tos)
        } else if is_a_byte {
            // FreeBSD takes a byte, other systems an int. Linux takes both (ip_cmsg_send in net/ipv4/ip_sockglue.c).
            self.append("tos", whole, &[tos])
        } else {
            self.append_int("tos", whole, tos)
        }
    }

    fn append_hop_limit(&mut self, hops: u8) -> io::Result<()> {
        if self.families.v4 {
            if hops == 0 {
                return Err(invalid("SendMeta::hop_limit is 0: for IPv4 it must be 1 to 255"));
            }
            self.append_int("hop_limit", numbers::SEND_TTL, hops)?;
        }
        if self.families.v6 {
            self.append_int("hop_limit", numbers::HOP_LIMIT, hops)?;
        }
        Ok(())
    }

    /// Appends source address and interface for one family; one may be missing.
    #[inline(always)]
    fn append_pktinfo(&mut self, source: Option<IpAddr>, interface: Option<u32>) -> io::Result<()> {
        let index = interface.unwrap_or(0).to_ne_bytes();
        let ip = source.map(|source| source.to_canonical());
        match (self.families.v4, ip) {
            (true, Some(IpAddr::V6(_))) | (false, Some(IpAddr::V4(_))) => {
                let (source, family) =
                    (source.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), self.family());
                Err(invalid(format!("SendMeta::source is {source}: the destination is {family}")))
            }
            (true, Some(IpAddr::V4(ip))) => self.append_pktinfo_v4(ip, index, interface.is_some()),
            (true, None) => self.append_pktinfo_v4(Ipv4Addr::UNSPECIFIED, index, true),
            (false, ip) => {
                // struct in6_pktinfo (RFC 3542, section 6.1).
                let mut info = [0; 20];
                if let Some(IpAddr::V6(ip)) = ip {
                    info[..16].copy_from_slice(&ip.octets());
                }
                info[16..].copy_from_slice(&index);
                let setting = if ip.is_some() { "source" } else { "interface" };
                self.append(setting, numbers::PKTINFO_V6, &info)
            }
        }
    }

    #[inline(always)]
    fn append_pktinfo_v4(
        &mut self,
        ip: Ipv4Addr,
        index: [u8; 4],
        has_interface: bool,
    ) -> io::Result<()> {
        let ip = ip.octets();
        if numbers::PKTINFO_V4.is_none() && !has_interface {
            return self.append("source", numbers::SEND_SRCADDR_V4, &ip);
        }
        if numbers::SEND_PKTINFO_V4_IS_SHORT {
            return self.append("source", numbers::PKTINFO_V4, [ip, index].as_flattened());
        }
        // struct in_pktinfo (ip(7)): interface, source (ipi_spec_dst), and a field that the kernel
        // ignores on send.
        let info = [index, ip, [0; 4]];
        // A platform without this control message still supports source addresses, so the error names the interface.
        self.append("interface", numbers::PKTINFO_V4, info.as_flattened())
    }

    #[inline]
    fn append_int(
        &mut self,
        setting: &'static str,
        ty: Option<CmsgType>,
        value: u8,
    ) -> io::Result<()> {
        self.append(setting, ty, &i32::from(value).to_ne_bytes())
    }

    /// Appends the control message of a setting.
    #[inline(always)] // The payload's length is then a constant, which saves 80 instructions a message.
    fn append(
        &mut self,
        setting: &'static str,
        ty: Option<CmsgType>,
        payload: &[u8],
    ) -> io::Result<()> {
        let Some(ty) = ty else {
            return Err(unsupported(setting, self.family()));
        };
        let end = control_message::append(Layout::NATIVE, self.space, self.len, ty, payload);
        self.len = end.ok_or_else(|| too_long(self.len + Layout::NATIVE.space(payload.len())))?;
        Ok(())
    }

    /// Appends encoded control messages. Returns the total length.
    fn append_raw(self, raw: &[u8]) -> io::Result<usize> {
        for message in ControlMessages::new(raw) {
            let same =
                |own: &ControlMessage<'_>| (own.level, own.ty) == (message.level, message.ty);
            if ControlMessages::new(&self.space[..self.len]).any(|own| same(&own)) {
                let (level, ty) = (message.level, message.ty);
                let reason = format!(
                    "the settings and the ControlBuf both set level {level}, type {ty}: set it once"
                );
                return Err(invalid(reason));
            }
        }
        let end = self.len + raw.len();
        let free = self.space.get_mut(self.len..end);
        free.ok_or_else(|| too_long(end))?.copy_from_slice(raw);
        Ok(end)
    }

    fn family(&self) -> &'static str {
        if self.families.v4 { "IPv4" } else { "IPv6" }
    }
}

#[cold]
fn unsupported(setting: &str, family: &str) -> io::Error {
    let reason = format!("this platform does not support {setting} for {family}");
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

#[cold]
fn too_long(needed: usize) -> io::Error {
    invalid(format!("settings and control messages take {needed} bytes of {CONTROL_SPACE}"))
}

//! What the kernel tells about a received message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use super::{ControlMessage, ControlMessages, Ecn, SendMeta};
use crate::sys::{self, kinds};

/// What the kernel told about a received message, beyond its bytes and its source.
///
/// All but the segment size must be asked for by [`Ancillary`](crate::Ancillary), and all is
/// `None` where the kernel did not tell it, never zero. The fields name what they are asked for
/// by, and the platforms that fill them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecvMeta {
    /// The address that the message was sent to, of this host or a multicast or broadcast group.
    /// On an IPv6 socket that takes IPv4 it is IPv4-mapped, as the source is.
    /// [`DEST`](crate::Ancillary::DEST); Linux, Android, macOS, the BSDs.
    pub destination: Option<IpAddr>,
    /// Index of the interface that it came in by.
    /// [`DEST`](crate::Ancillary::DEST); Linux, Android, macOS, and the BSDs for IPv6.
    pub interface: Option<u32>,
    /// The whole TOS byte (IPv4) or traffic class (IPv6); [`ecn`](Self::ecn) is its low bits.
    /// [`TOS`](crate::Ancillary::TOS); Linux, Android, macOS, FreeBSD, others for IPv6.
    pub tos: Option<u8>,
    /// What was left of the time to live (IPv4) or hop limit (IPv6).
    /// [`HOP_LIMIT`](crate::Ancillary::HOP_LIMIT); as `tos`.
    pub hop_limit: Option<u8>,
    /// When the kernel received it, by the system's clock.
    /// [`TIMESTAMP`](crate::Ancillary::TIMESTAMP); Linux, Android in nanoseconds, macOS and the
    /// BSDs in microseconds.
    pub timestamp: Option<SystemTime>,
    /// When the network device received it, by the device's clock, which may count from anywhere.
    /// [`HARDWARE_TIMESTAMP`](crate::Ancillary::HARDWARE_TIMESTAMP); Linux, Android, with a device
    /// that has one and was told to use it.
    pub hardware_timestamp: Option<Duration>,
    /// Length in bytes of each datagram of a received train but its last, which may be shorter.
    /// `None`: the message is one datagram. [`GRO`](crate::Ancillary::GRO); Linux 5.0, Android.
    pub segment_size: Option<u16>,
    /// Messages that this socket had dropped for want of buffer space when this one was queued,
    /// since the socket was made. Linux tells it once it is not 0.
    /// [`DROPPED`](crate::Ancillary::DROPPED); Linux, Android.
    pub dropped: Option<u32>,
    /// Where the message was sent to before a transparent proxy's rule redirected it.
    /// [`ORIGINAL_DEST`](crate::Ancillary::ORIGINAL_DEST); Linux, Android, FreeBSD.
    pub original_dest: Option<SocketAddr>,
    /// A path MTU in bytes that became known. Linux tells it by a message of its own, which has no
    /// payload and whose source is the destination that the path leads to.
    /// [`PATH_MTU`](crate::Ancillary::PATH_MTU); Linux, Android, IPv6 sockets.
    pub path_mtu: Option<u32>,
    /// The message's mark, as set by the packet filter.
    /// [`MARK`](crate::Ancillary::MARK); Linux 5.19.
    pub mark: Option<u32>,
}

impl RecvMeta {
    /// Nothing told.
    pub(crate) const NONE: Self = Self {
        destination: None,
        interface: None,
        tos: None,
        hop_limit: None,
        timestamp: None,
        hardware_timestamp: None,
        segment_size: None,
        dropped: None,
        original_dest: None,
        path_mtu: None,
        mark: None,
    };

    /// The congestion bits of `tos`.
    #[must_use]
    pub fn ecn(&self) -> Option<Ecn> {
        self.tos.map(Ecn::from_tos)
    }

    /// What an answer must ask for to leave from the address that the message was sent to.
    ///
    /// Its source is [`destination`](Self::destination), unless that is a multicast or broadcast
    /// address, which nothing can be sent from; of a link-local one, the interface is needed, too.
    #[must_use]
    pub fn reply(&self) -> SendMeta {
        let mut reply = SendMeta::default();
        reply.source =
            self.destination.filter(|ip| !ip.is_multicast() && *ip != Ipv4Addr::BROADCAST);
        if let Some(IpAddr::V6(ip)) = reply.source {
            reply.interface = self.interface.filter(|_| ip.is_unicast_link_local());
        }
        reply
    }

    /// Reads what is known out of the control messages that came with a message.
    #[inline]
    pub(crate) fn from_control(control: &[u8]) -> Self {
        let mut meta = Self::NONE;
        for message in ControlMessages::new(control) {
            meta.read(message);
        }
        meta
    }

    /// Reads one control message. One of an unexpected length is left alone: absent, not guessed.
    #[inline]
    fn read(&mut self, message: ControlMessage<'_>) {
        let data = message.data;
        match (message.level, message.kind) {
            // struct in_pktinfo: interface, address of this host, address in the header. The
            // last one is where the datagram was sent to (ip(7)).
            kinds::PKTINFO_V4 => {
                if let Some([i0, i1, i2, i3, _, _, _, _, ip @ ..]) = exactly::<12>(data) {
                    self.set_destination_v4(ip);
                    self.interface = Some(u32::from_ne_bytes([i0, i1, i2, i3]));
                }
            }
            kinds::DSTADDR_V4 => {
                if let Some(ip) = exactly(data) {
                    self.set_destination_v4(ip);
                }
            }
            // struct in6_pktinfo: address, interface (RFC 3542, section 6.1).
            kinds::PKTINFO_V6 => {
                if let Some((ip, interface)) = data.split_first_chunk::<16>() {
                    if let Some(interface) = exactly(interface) {
                        self.destination = Some(Ipv6Addr::from(*ip).into());
                        self.interface = Some(u32::from_ne_bytes(interface));
                    }
                }
            }
            kinds::TOS | kinds::TCLASS => self.tos = byte(data).or(self.tos),
            kinds::TTL | kinds::HOP_LIMIT => self.hop_limit = byte(data).or(self.hop_limit),
            // A C int (udp_cmsg_recv in the kernel's include/linux/udp.h). Nothing longer than a
            // datagram and no zero is a length to split by.
            kinds::GRO => {
                let size = message.int().and_then(|size| u16::try_from(size).ok());
                self.segment_size = size.filter(|size| *size > 0);
            }
            _ => self.read_rarer(message),
        }
    }

    #[inline(never)]
    fn read_rarer(&mut self, message: ControlMessage<'_>) {
        let data = message.data;
        match (message.level, message.kind) {
            kinds::TIMESTAMP_NS => self.timestamp = clock(data, 1).map(system_time),
            kinds::TIMESTAMP_US => self.timestamp = clock(data, 1000).map(system_time),
            kinds::TIMESTAMPING => self.read_timestamping(data),
            kinds::DROPPED => self.dropped = exactly(data).map(u32::from_ne_bytes),
            kinds::MARK => self.mark = exactly(data).map(u32::from_ne_bytes),
            kinds::ORIGINAL_DEST_V4 | kinds::ORIGINAL_DEST_V6 => {
                self.original_dest = sys::socket_addr(data);
            }
            // struct ip6_mtuinfo: a sockaddr_in6 and the MTU (RFC 3542, section 11.3).
            kinds::PATH_MTU => {
                self.path_mtu = exactly::<32>(data)
                    .and_then(|info| info.last_chunk().copied())
                    .map(u32::from_ne_bytes);
            }
            _ => {}
        }
    }

    /// An IPv6 socket tells the destination of an IPv4 datagram twice; the mapped form stays, to
    /// look like the source.
    #[inline]
    fn set_destination_v4(&mut self, ip: [u8; 4]) {
        if !matches!(self.destination, Some(IpAddr::V6(_))) {
            self.destination = Some(Ipv4Addr::from(ip).into());
        }
    }

    /// `struct scm_timestamping`: the kernel's stamp, an unused one, the device's; each zero if
    /// there is none (Documentation/networking/timestamping.rst).
    fn read_timestamping(&mut self, data: &[u8]) {
        let (software, hardware) = timestamping(data);
        self.timestamp = software.map(system_time).or(self.timestamp);
        self.hardware_timestamp = hardware;
    }
}

/// The software and hardware stamp of a `struct scm_timestamping`.
pub(crate) fn timestamping(data: &[u8]) -> (Option<Duration>, Option<Duration>) {
    let each = data.len() / 3;
    let stamp = |i: usize| clock(data.get(i * each..(i + 1) * each)?, 1).filter(|t| !t.is_zero());
    if data.len() % 3 == 0 { (stamp(0), stamp(2)) } else { (None, None) }
}

/// A `struct timespec` or `timeval` with 64-bit or 32-bit fields, whose second field counts units
/// of `unit` nanoseconds.
fn clock(data: &[u8], unit: u32) -> Option<Duration> {
    let (seconds, parts) = match data.len() {
        16 => {
            let field = |at: usize| data[at..].first_chunk().copied().map(i64::from_ne_bytes);
            (field(0)?, field(8)?)
        }
        8 => {
            let field = |at: usize| data[at..].first_chunk().copied().map(i32::from_ne_bytes);
            (field(0)?.into(), field(4)?.into())
        }
        _ => return None,
    };
    let nanos =
        u32::try_from(parts).ok()?.checked_mul(unit).filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds.try_into().ok()?, nanos))
}

pub(crate) fn system_time(since_epoch: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + since_epoch
}

/// The payload, if it has just this length.
#[inline]
fn exactly<const N: usize>(data: &[u8]) -> Option<[u8; N]> {
    data.try_into().ok()
}

/// A small number, told as one byte or as a C int: Linux's IP_TOS has one byte, its IP_TTL four.
#[inline]
fn byte(data: &[u8]) -> Option<u8> {
    match *data {
        [byte] => Some(byte),
        [a, b, c, d] => u8::try_from(i32::from_ne_bytes([a, b, c, d])).ok(),
        _ => None,
    }
}

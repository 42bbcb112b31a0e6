//! What the kernel tells about a received message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use super::{ControlMessage, ControlMessages, Ecn, SendMeta, Told};
use crate::sys::{self, kinds};

/// What the kernel told about a received message, beyond its bytes and its source.
///
/// All but the segment size must be asked for by [`Ancillary`](crate::Ancillary), and all is
/// `None` where the kernel did not tell it, never zero. The fields name what they are asked for
/// by, and the platforms that fill them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecvMeta {
    /// The destination address in the message's IP header: this host's, or a multicast or
    /// broadcast address. On an IPv6 socket that receives IPv4 it is IPv4-mapped, as the source is.
    /// [`DEST`](crate::Ancillary::DEST); Linux, Android, macOS, the BSDs.
    pub destination: Option<IpAddr>,
    /// This host's own address that the message came to: the same as `destination`, or for IPv4
    /// multicast and broadcast the address of this host that a reply is to be sent from
    /// (`ipi_spec_dst`). `None` for IPv6 multicast. In the same form as `destination`.
    /// [`DEST`](crate::Ancillary::DEST); Linux, Android, and for IPv6 macOS and the BSDs.
    pub local: Option<IpAddr>,
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
    /// Where the message was sent to before a transparent proxy's rule redirected it. Of an IPv4
    /// message it is an IPv4 address, on an IPv6 socket, too.
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
        local: None,
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

    /// Options of a reply that leaves from the address that the message was sent to.
    ///
    /// Its source is [`local`](Self::local), so that replies to broadcast and multicast messages
    /// leave from this host's own address. Where the system does not tell `local`, the source is
    /// [`destination`](Self::destination) unless it is a multicast address or 255.255.255.255;
    /// there a network's own broadcast address, such as 192.0.2.255, does not show that it is one,
    /// and a socket that receives by it must take the source out. With a link-local source goes
    /// the interface.
    #[must_use]
    pub fn reply(&self) -> SendMeta {
        let source = self.local.or_else(|| {
            self.destination.filter(|ip| {
                let ip = ip.to_canonical();
                !ip.is_multicast() && ip != Ipv4Addr::BROADCAST
            })
        });
        let interface = match source {
            Some(IpAddr::V6(ip)) if ip.is_unicast_link_local() => self.interface,
            _ => None,
        };
        SendMeta { source, interface, ..SendMeta::new() }
    }

    /// Reads a `struct in_pktinfo`: interface, address of this host, address in the header (ip(7)).
    /// The interface and this host's address are 0 of a message that was queued before they were
    /// asked for. `twice` says that the destination was already told of this message, which an
    /// IPv6 socket does of an IPv4 one: its form stays, IPv4-mapped, to look like the source.
    #[inline(always)]
    pub(super) fn read_pktinfo_v4(&mut self, info: &[u8; 12], twice: bool) {
        let [i0, i1, i2, i3, l0, l1, l2, l3, destination @ ..] = *info;
        let local = Ipv4Addr::new(l0, l1, l2, l3);
        let local = (!local.is_unspecified()).then_some(local);
        self.interface = index([i0, i1, i2, i3]);
        match self.destination.filter(|_| twice) {
            None => {
                self.destination = Some(Ipv4Addr::from(destination).into());
                self.local = local.map(IpAddr::V4);
            }
            Some(IpAddr::V4(_)) => self.local = local.map(IpAddr::V4),
            Some(IpAddr::V6(ip)) if is_mapped(ip) => {
                self.local = local.map(|ip| IpAddr::V6(ip.to_ipv6_mapped()));
            }
            Some(IpAddr::V6(_)) => {}
        }
    }

    /// Reads a `struct in6_pktinfo`: address in the header, interface (RFC 3542, section 6.1).
    #[inline(always)]
    pub(super) fn read_pktinfo_v6(&mut self, info: &[u8; 20], twice: bool) {
        let [ip @ .., i0, i1, i2, i3] = *info;
        let ip = Ipv6Addr::from(ip);
        self.interface = index([i0, i1, i2, i3]);
        self.destination = Some(ip.into());
        self.local = match self.local.filter(|_| twice) {
            // Of an IPv4 message, `in_pktinfo` alone tells which address is this host's.
            Some(IpAddr::V4(local)) if is_mapped(ip) => Some(local.to_ipv6_mapped().into()),
            _ => Some(ip).filter(|ip| !ip.is_multicast() && !is_mapped(*ip)).map(IpAddr::V6),
        };
    }

    /// Reads one control message of those that [`Told`] leaves to this. One of an
    /// unexpected length is left alone: absent, not guessed.
    pub(super) fn read_rarer(&mut self, message: ControlMessage<'_>) {
        let data = message.data;
        match (message.level, message.kind) {
            kinds::TIMESTAMP_NS => self.timestamp = clock(data, Unit::Nanos).and_then(system_time),
            kinds::TIMESTAMP_US => {
                let unit = Unit::Micros { len: sys::MICROSECONDS_LEN };
                self.timestamp = clock(data, unit).and_then(system_time);
            }
            kinds::TIMESTAMPING => self.read_timestamping(data),
            kinds::DROPPED => self.dropped = exactly(data).map(u32::from_ne_bytes),
            kinds::MARK => self.mark = exactly(data).map(u32::from_ne_bytes),
            kinds::ORIGINAL_DEST_V4 | kinds::ORIGINAL_DEST_V6 => {
                self.original_dest =
                    sys::socket_addr(data).filter(|_| [16, 28].contains(&data.len()));
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

    /// `struct scm_timestamping`: the kernel's stamp, an unused one, the device's; each zero if
    /// there is none (Documentation/networking/timestamping.rst).
    fn read_timestamping(&mut self, data: &[u8]) {
        let (software, hardware) = timestamping(data);
        self.timestamp = software.and_then(system_time).or(self.timestamp);
        self.hardware_timestamp = hardware;
    }
}

/// The index of an interface; 0 is none (if_nametoindex(3)).
#[inline(always)]
fn index(bytes: [u8; 4]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes)).filter(|index| *index > 0)
}

#[inline(always)]
fn is_mapped(ip: Ipv6Addr) -> bool {
    ip.to_ipv4_mapped().is_some()
}

/// The software and hardware stamp of a `struct scm_timestamping`.
pub(crate) fn timestamping(data: &[u8]) -> (Option<Duration>, Option<Duration>) {
    let each = data.len() / 3;
    let stamp =
        |i: usize| clock(data.get(i * each..(i + 1) * each)?, Unit::Nanos).filter(|t| !t.is_zero());
    if data.len() % 3 == 0 { (stamp(0), stamp(2)) } else { (None, None) }
}

/// What the second field of a time counts.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Nanos,
    /// In a field of `len` bytes: of 4 where a `timeval` is padded (macOS, NetBSD).
    Micros {
        len: usize,
    },
}

/// A `struct timespec` or `timeval` with 64-bit or 32-bit seconds.
fn clock(data: &[u8], unit: Unit) -> Option<Duration> {
    let (seconds, rest) = match data.len() {
        16 => data.split_first_chunk().map(|(s, rest)| (i64::from_ne_bytes(*s), rest))?,
        8 => data.split_first_chunk().map(|(s, rest)| (i32::from_ne_bytes(*s).into(), rest))?,
        _ => return None,
    };
    let (len, nanos_each) = match unit {
        Unit::Nanos => (rest.len(), 1),
        Unit::Micros { len } => (len.min(rest.len()), 1000),
    };
    let parts = match rest.get(..len)? {
        field if len == 8 => i64::from_ne_bytes(field.try_into().ok()?),
        field => i32::from_ne_bytes(field.try_into().ok()?).into(),
    };
    let nanos = u32::try_from(parts).ok()?.checked_mul(nanos_each);
    let nanos = nanos.filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds.try_into().ok()?, nanos))
}

/// `None` beyond what the platform's clock can tell.
pub(crate) fn system_time(since_epoch: Duration) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(since_epoch)
}

/// The payload, if it has just this length.
#[inline]
fn exactly<const N: usize>(data: &[u8]) -> Option<[u8; N]> {
    data.try_into().ok()
}

/// For control messages that were received by other means than this crate's.
///
/// ```
/// use mmsg::{ControlBuf, ControlMessages, RecvMeta};
///
/// let received_elsewhere = ControlBuf::new();
/// let meta = RecvMeta::from(ControlMessages::new(received_elsewhere.as_bytes()));
/// assert_eq!(meta.tos, None);
/// ```
impl From<ControlMessages<'_>> for RecvMeta {
    fn from(messages: ControlMessages<'_>) -> Self {
        let mut told = Told::NOTHING;
        told.read(messages.as_bytes());
        *told.meta()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `timeval` whose microseconds take 4 bytes, and one where they take 8, in this machine's byte
    /// order. Padding is whatever the kernel's stack held.
    #[test]
    fn d24_microseconds_are_read_by_their_own_width() {
        let seconds = 1_700_000_000i64.to_ne_bytes();
        let padded = [&seconds[..], &123_456i32.to_ne_bytes(), &[0xEE; 4]].concat();
        let whole = [&seconds[..], &123_456i64.to_ne_bytes()].concat();
        let short = [1_700_000_000i32.to_ne_bytes(), 123_456i32.to_ne_bytes()].concat();
        let expected = Some(Duration::new(1_700_000_000, 123_456_000));
        for (data, len) in [(&padded, 4), (&whole, 8), (&short, 4), (&short, 8)] {
            assert_eq!(clock(data, Unit::Micros { len }), expected, "{data:?} by {len}");
        }
        for len in [4, 8] {
            assert_eq!(clock(&whole[..15], Unit::Micros { len }), None);
        }
    }
}

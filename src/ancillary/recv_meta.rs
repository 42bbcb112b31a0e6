//! Metadata of a received message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use super::sys::{self, ControlMessage, ControlMessages, numbers};
use super::{Ecn, SendMeta};

/// The metadata of a received message: everything but its payload and its source.
///
/// [`Ancillary`](crate::Ancillary) enables each field; `None` means that the kernel did not report
/// it. Each field names the flag that enables it and the platforms that fill it.
///
/// ```
/// use mmsg::{Ancillary, BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// Ancillary::HOP_LIMIT.require(&socket)?;
/// # socket.recv_from(&mut [0; 8])?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// let meta = batch.iter().next().expect("one came").meta();
/// assert!(meta.hop_limit.is_some() && meta.tos.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecvMeta {
    /// The destination address in the message's IP header: this host's, or a multicast or
    /// broadcast address. On an IPv6 socket that receives IPv4 it is IPv4-mapped, as the source is; Windows may
    /// report it as IPv4.
    /// [`DEST`](crate::Ancillary::DEST); Linux, Android, macOS, the BSDs, Windows.
    #[doc(alias("ipi_addr", "ipi6_addr", "IP_PKTINFO", "pktinfo"))]
    pub dest: Option<IpAddr>,
    /// This host's own address for the message: equal to `dest`, or for IPv4 multicast and
    /// broadcast the address to reply from (`ipi_spec_dst`). `None` for IPv6 multicast. In the same form as `dest`.
    /// The address may belong to another interface than `interface` (weak host model).
    /// [`DEST`](crate::Ancillary::DEST); Linux, Android, and for IPv6 macOS, the BSDs and Windows.
    #[doc(alias = "ipi_spec_dst")]
    pub local: Option<IpAddr>,
    /// Index of the interface that received the message.
    /// [`DEST`](crate::Ancillary::DEST); Linux, Android, macOS, NetBSD, Windows, and the other
    /// BSDs for IPv6.
    #[doc(alias = "ipi_ifindex")]
    pub interface: Option<u32>,
    /// The whole TOS byte (IPv4) or traffic class (IPv6); [`ecn`](Self::ecn) is its low bits.
    /// [`TOS`](crate::Ancillary::TOS); Linux, Android, macOS, FreeBSD, Windows, others for IPv6. A Windows without
    /// `IP_RECVTOS` reports the ECN bits alone.
    #[doc(alias("IP_TOS", "IPV6_TCLASS"))]
    pub tos: Option<u8>,
    /// The remaining time to live (IPv4) or hop limit (IPv6).
    /// [`HOP_LIMIT`](crate::Ancillary::HOP_LIMIT); Linux, Android, macOS, the BSDs, Windows.
    #[doc(alias("IP_TTL", "IPV6_HOPLIMIT"))]
    pub hop_limit: Option<u8>,
    /// When the kernel received it, by the system's clock. The datagrams of a coalesced message share the time of the first:
    /// use a plain socket if each needs its own.
    /// [`TIMESTAMP`](crate::Ancillary::TIMESTAMP); Linux, Android, FreeBSD in nanoseconds, macOS and
    /// the other BSDs in microseconds.
    #[doc(alias = "SCM_TIMESTAMPNS")]
    pub timestamp: Option<SystemTime>,
    /// When the network device received it, by the device's clock, whose epoch is unspecified.
    /// [`HARDWARE_TIMESTAMP`](crate::Ancillary::HARDWARE_TIMESTAMP); Linux, Android, with a device
    /// that supports timestamps and has them enabled.
    #[doc(alias("SCM_TIMESTAMPING", "SO_TIMESTAMPING"))]
    pub hardware_timestamp: Option<Duration>,
    /// Length in bytes of each segment of a coalesced message but the last, which may be shorter.
    /// `None` for a single datagram. [`GRO`](crate::Ancillary::GRO); Linux 5.0, Android.
    #[doc(alias("UDP_GRO", "GRO"))]
    pub segment_size: Option<u16>,
    /// How many messages the kernel had dropped on this socket, for lack of buffer space, when it queued this one. Drops
    /// after the last received message show with the next one, or by [`dropped`](crate::options::dropped).
    /// Linux reports the count once it is above 0. [`DROPPED`](crate::Ancillary::DROPPED); Linux, Android.
    #[doc(alias = "SO_RXQ_OVFL")]
    pub dropped: Option<u32>,
    /// The destination before a transparent proxy's rule redirected the message. An IPv4 message has
    /// an IPv4 address here even on an IPv6 socket.
    /// [`ORIGINAL_DEST`](crate::Ancillary::ORIGINAL_DEST); Linux, Android, FreeBSD.
    #[doc(alias("IP_ORIGDSTADDR", "IPV6_ORIGDSTADDR"))]
    pub original_dest: Option<SocketAddr>,
}

impl RecvMeta {
    pub(crate) const NONE: Self = Self {
        dest: None,
        local: None,
        interface: None,
        tos: None,
        hop_limit: None,
        timestamp: None,
        hardware_timestamp: None,
        segment_size: None,
        dropped: None,
        original_dest: None,
    };

    /// Decodes control messages: bytes in this platform's layout (`msg_control`), as a system call or io_uring left them. A
    /// field whose control message is missing or malformed is `None`.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket, RecvBatch, RecvMeta, control::ControlBuf};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// Ancillary::DEST.require(&socket)?;
    /// let mut batch = RecvBatch::new(16, 1500);
    /// socket.recv_into(&mut batch)?;
    /// let message = batch.message(0).expect("one came");
    /// let mut control = ControlBuf::new();
    /// for raw in message.control_messages() {
    ///     control.push(raw.level, raw.ty, raw.data)?;
    /// }
    /// assert_eq!(RecvMeta::from_control(control.as_bytes()), *message.meta());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("cmsghdr", "Parse"))]
    #[must_use]
    pub fn from_control(control: &[u8]) -> Self {
        let mut meta = Self::NONE;
        meta.add(control);
        meta
    }

    /// The ECN bits of `tos`.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket, Ecn, RecvBatch, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # if !cfg!(target_os = "linux") { return Ok(()); }
    /// Ancillary::TOS.require(&socket)?;
    /// socket.send_batch(&[SendMsg::to(socket.local_addr()?, b"hello").with_ecn(Ecn::Ect0)])?;
    /// let mut batch = RecvBatch::new(16, 1500);
    /// socket.recv_into(&mut batch)?;
    /// assert!(batch.iter().all(|datagram| datagram.meta().ecn() == Some(Ecn::Ect0)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn ecn(&self) -> Option<Ecn> {
        self.tos.map(Ecn::from_tos)
    }

    /// Settings of a reply that leaves from the address that the message was sent to.
    ///
    /// The reply's source is [`local`](Self::local), so replies to broadcast and multicast messages
    /// leave from this host's own address. If the system does not report `local`, the source is
    /// [`dest`](Self::dest), unless that is a multicast address or 255.255.255.255. A
    /// network's broadcast address, such as 192.0.2.255, cannot be recognized: a socket that receives
    /// on one must clear the source. A link-local source also sets the interface; for any other,
    /// [`by_interface`](crate::SendMsg::by_interface) does, if you ask for it.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket, RecvBatch, SendMeta, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"question", socket.local_addr()?)?;
    /// Ancillary::DEST.require(&socket)?;
    /// let mut batch = RecvBatch::new(16, 1500);
    /// socket.recv_into(&mut batch)?;
    /// // Kept to answer after the batch has been reused.
    /// let asked: Vec<(_, SendMeta)> =
    ///     batch.iter().filter_map(|d| Some((d.reply_addr()?, d.meta().reply_meta()))).collect();
    /// for (addr, meta) in &asked {
    ///     socket.send_batch(&[SendMsg::to(*addr, b"answer").with_meta(meta)])?;
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn reply_meta(&self) -> SendMeta {
        let source = self.local.or_else(|| {
            self.dest.filter(|ip| {
                let ip = ip.to_canonical();
                !ip.is_multicast() && ip != Ipv4Addr::BROADCAST
            })
        });
        let is_link_local = |ip: IpAddr| match ip.to_canonical() {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        let interface = self.interface.filter(|_| source.is_some_and(is_link_local));
        SendMeta { source, interface, ..SendMeta::new() }
    }

    /// Stores the metadata of a received message, if it has control messages. Ignores those of an unexpected length.
    #[inline]
    pub(crate) fn decode(control: &[u8], meta: &mut Option<Self>) {
        *meta = None;
        if !control.is_empty() {
            meta.insert(Self::NONE).add(control);
        }
    }

    /// Decodes control messages into the fields.
    ///
    /// Not inlined: otherwise the compiler keeps every field in a variable, and one control message takes 300
    /// instructions instead of 40.
    #[allow(unreachable_patterns)] // Several numbers may be `None` on a platform.
    #[inline(never)]
    fn add(&mut self, control: &[u8]) {
        // Decoded after the IPv4 form, which it builds on.
        let mut pktinfo_v6 = None;
        for ControlMessage { level, ty, data } in ControlMessages::new(control) {
            match Some((level, ty)) {
                numbers::PKTINFO_V4 if data.len() == 12 => self.set_pktinfo_v4(data),
                numbers::PKTINFO_V6 if data.len() == 20 => pktinfo_v6 = Some(data),
                numbers::TOS | numbers::TCLASS => self.tos = byte(data).or(self.tos),
                numbers::GRO => {
                    if let Some(size) = segment_size(data) {
                        self.segment_size = Some(size);
                    }
                }
                _ => self.add_rare(level, ty, data),
            }
        }
        if let Some(data) = pktinfo_v6 {
            self.set_pktinfo_v6(data);
        }
    }

    /// Decodes a control message that few sockets enable. Apart, so that the loop over the others stays in registers.
    #[allow(unreachable_patterns)] // As above.
    #[cold]
    #[inline(never)]
    fn add_rare(&mut self, level: i32, ty: i32, data: &[u8]) {
        match Some((level, ty)) {
            // NetBSD and Windows: destination, interface.
            numbers::PKTINFO_V4 => {
                let Some([d0, d1, d2, d3, index @ ..]) = exactly::<8>(data) else { return };
                self.dest = Some(Ipv4Addr::new(d0, d1, d2, d3).into());
                (self.local, self.interface) = (None, interface(index));
            }
            numbers::DSTADDR_V4 => {
                // A `struct in_pktinfo` holds the same address.
                self.dest = self.dest.or_else(|| Some(Ipv4Addr::from(exactly(data)?).into()));
            }
            numbers::ECN_V4 | numbers::ECN_V6 => self.tos = self.tos.or(byte(data)),
            numbers::TTL | numbers::HOP_LIMIT => self.hop_limit = byte(data).or(self.hop_limit),
            numbers::TIMESTAMP_NS => self.timestamp = clock(data, None).and_then(system_time),
            numbers::TIMESTAMP_US => {
                self.timestamp = clock(data, Some(sys::MICROSECONDS_LEN)).and_then(system_time);
            }
            numbers::TIMESTAMPING => {
                let (software, hardware) = timestamping(data);
                self.timestamp = software.and_then(system_time).or(self.timestamp);
                self.hardware_timestamp = hardware;
            }
            numbers::DROPPED => self.dropped = exactly(data).map(u32::from_ne_bytes),
            numbers::ORIGINAL_DEST_V4 | numbers::ORIGINAL_DEST_V6 => {
                let is_whole = [16, 28].contains(&data.len());
                self.original_dest = sys::decode_addr(data).filter(|_| is_whole);
            }
            _ => {}
        }
    }

    /// Sets both addresses and the interface from a `struct in_pktinfo`.
    ///
    /// Linux and macOS: interface, local address, destination (ip(7)). The first two are 0 in a message
    /// queued before the option was set.
    #[inline]
    fn set_pktinfo_v4(&mut self, data: &[u8]) {
        let Some([i0, i1, i2, i3, l0, l1, l2, l3, dest @ ..]) = exactly::<12>(data) else { return };
        let local = Ipv4Addr::new(l0, l1, l2, l3);
        self.dest = Some(Ipv4Addr::from(dest).into());
        self.local = if local.is_unspecified() { None } else { Some(local.into()) };
        self.interface = interface([i0, i1, i2, i3]);
    }

    /// Sets both addresses and the interface from a `struct in6_pktinfo`: destination, interface (RFC 3542, section
    /// 6.1).
    ///
    /// A dual-stack socket reports an IPv4 message in both structs: the destination stays IPv4-mapped, like the
    /// source, and `in_pktinfo` has the local address.
    #[inline(never)]
    fn set_pktinfo_v6(&mut self, data: &[u8]) {
        let Some([ip @ .., i0, i1, i2, i3]) = exactly::<20>(data) else { return };
        let dest = Ipv6Addr::from(ip);
        self.dest = Some(dest.into());
        self.interface = interface([i0, i1, i2, i3]).or(self.interface);
        self.local = match (dest.to_ipv4_mapped(), self.local) {
            (None, _) => (!dest.is_multicast()).then_some(dest.into()),
            (Some(_), Some(IpAddr::V4(local))) => Some(local.to_ipv6_mapped().into()),
            (Some(_), _) => None,
        };
    }
}

/// The index of an interface; 0 is none (if_nametoindex(3)).
fn interface(bytes: [u8; 4]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes)).filter(|index| *index > 0)
}

/// A small number, as one byte or as a C int: Linux's `IP_TOS` has one byte, its `IP_TTL` four.
fn byte(data: &[u8]) -> Option<u8> {
    match data {
        [byte] => Some(*byte),
        _ => u8::try_from(i32::from_ne_bytes(exactly(data)?)).ok(),
    }
}

/// A C int (`udp_cmsg_recv` in the kernel's include/linux/udp.h). 0 and sizes longer than a datagram are invalid.
fn segment_size(data: &[u8]) -> Option<u16> {
    u16::try_from(i32::from_ne_bytes(exactly(data)?)).ok().filter(|size| *size > 0)
}

/// The software and hardware timestamps of a `struct scm_timestamping`.
fn timestamping(data: &[u8]) -> (Option<Duration>, Option<Duration>) {
    let each = data.len() / 3;
    let stamp =
        |i: usize| clock(data.get(i * each..(i + 1) * each)?, None).filter(|t| !t.is_zero());
    if data.len() % 3 == 0 { (stamp(0), stamp(2)) } else { (None, None) }
}

/// A `struct timespec`, or with `micros_len` a `timeval`, each with 64-bit or 32-bit seconds. The microseconds have `micros_len`
/// bytes: 4 where the struct is padded (macOS, NetBSD).
fn clock(data: &[u8], micros_len: Option<usize>) -> Option<Duration> {
    let (seconds, rest) = match data.len() {
        16 => data.split_first_chunk().map(|(s, rest)| (i64::from_ne_bytes(*s), rest))?,
        8 => data.split_first_chunk().map(|(s, rest)| (i32::from_ne_bytes(*s).into(), rest))?,
        _ => return None,
    };
    let (len, nanos_each) = match micros_len {
        None => (rest.len(), 1),
        Some(len) => (len.min(rest.len()), 1000),
    };
    let parts = match rest.get(..len)? {
        field if len == 8 => i64::from_ne_bytes(field.try_into().ok()?),
        field => i32::from_ne_bytes(field.try_into().ok()?).into(),
    };
    let nanos = u32::try_from(parts).ok()?.checked_mul(nanos_each);
    let nanos = nanos.filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds.try_into().ok()?, nanos))
}

/// `None` beyond the range of the platform's clock.
fn system_time(since_epoch: Duration) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(since_epoch)
}

/// The payload, if it has exactly this length.
#[inline]
fn exactly<const N: usize>(data: &[u8]) -> Option<[u8; N]> {
    data.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `timeval` with 4-byte microseconds and one with 8-byte microseconds, in this machine's byte order. Padding may
    /// hold anything.
    #[test]
    fn microseconds_are_read_by_their_own_width() {
        let seconds = 1_700_000_000i64.to_ne_bytes();
        let padded = [&seconds[..], &123_456i32.to_ne_bytes(), &[0xEE; 4]].concat();
        let whole = [&seconds[..], &123_456i64.to_ne_bytes()].concat();
        let short = [1_700_000_000i32.to_ne_bytes(), 123_456i32.to_ne_bytes()].concat();
        let expected = Some(Duration::new(1_700_000_000, 123_456_000));
        for (data, len) in [(&padded, 4), (&whole, 8), (&short, 4), (&short, 8)] {
            assert_eq!(clock(data, Some(len)), expected, "{data:?} by {len}");
        }
        for len in [4, 8] {
            assert_eq!(clock(&whole[..15], Some(len)), None);
        }
    }
}

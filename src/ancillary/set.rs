//! The metadata that a socket can report, and the socket options that enable it.

use std::fmt;
use std::ops::BitOr;

/// A set of metadata that the kernel can report for each message.
///
/// [`require`](Self::require) sets the socket options on IPv4, IPv6 and dual-stack sockets, or fails;
/// [`enable`](Self::enable) returns the subset that is on. [`RecvMeta`](crate::RecvMeta) then holds the metadata. Every
/// receive has space for all of it.
///
/// For multicast groups, buffer sizes, address reuse and the like use
/// [socket2](https://docs.rs/socket2): its `SockRef::from(&socket)` works on every socket that this
/// crate works on.
///
/// ```
/// use mmsg::Ancillary;
/// let socket = std::net::UdpSocket::bind("[::]:0")?;
/// # if cfg!(target_os = "linux") {
/// Ancillary::DEST.require(&socket)?; // An error on a platform without it.
/// # }
/// let taken = (Ancillary::DEST | Ancillary::TOS).enable(&socket)?;
/// if !taken.contains(Ancillary::TOS) {
///     eprintln!("no congestion information on this platform");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a missing member is no error: use `require`, or check the returned set"]
pub struct Ancillary(u16);

impl Ancillary {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Destination address, own address and interface of each message (`IP_PKTINFO`, `IPV6_RECVPKTINFO`,
    /// `IP_RECVDSTADDR`).
    #[doc(alias("IP_PKTINFO", "IPV6_RECVPKTINFO", "IP_RECVDSTADDR", "pktinfo"))]
    pub const DEST: Self = Self(1);
    /// TOS byte or traffic class, ECN bits included (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    #[doc(alias("IP_RECVTOS", "IPV6_RECVTCLASS", "ECN", "DSCP"))]
    pub const TOS: Self = Self(1 << 1);
    /// Remaining time to live or hop limit (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    #[doc(alias("IP_RECVTTL", "IPV6_RECVHOPLIMIT", "TTL"))]
    pub const HOP_LIMIT: Self = Self(1 << 2);
    /// When the kernel received the message (`SO_TIMESTAMPNS`; `SO_TIMESTAMP` on macOS and the
    /// BSDs, on FreeBSD with `SO_TS_CLOCK`).
    #[doc(alias("SO_TIMESTAMPNS", "SO_TIMESTAMP", "SO_TS_CLOCK"))]
    pub const TIMESTAMP: Self = Self(1 << 3);
    /// When the network device received it (`SO_TIMESTAMPING`). Linux accepts the option on every
    /// Internet socket; whether there are timestamps depends on the device and its driver's settings.
    #[doc(alias = "SO_TIMESTAMPING")]
    pub const HARDWARE_TIMESTAMP: Self = Self(1 << 4);
    /// Coalesced messages (`UDP_GRO`). Needs a buffer of 65,535 bytes for each message: a shorter one truncates
    /// coalesced messages. Drain the socket before you turn it off: afterwards the kernel does not report where the
    /// datagrams of queued coalesced messages end.
    #[doc(alias = "UDP_GRO")]
    pub const GRO: Self = Self(1 << 5);
    /// The count of dropped messages (`SO_RXQ_OVFL`).
    #[doc(alias = "SO_RXQ_OVFL")]
    pub const DROPPED: Self = Self(1 << 6);
    /// The destination before a transparent proxy's redirection (`IP_RECVORIGDSTADDR`,
    /// `IPV6_RECVORIGDSTADDR`).
    #[doc(alias("IP_RECVORIGDSTADDR", "IPV6_RECVORIGDSTADDR", "TPROXY"))]
    pub const ORIGINAL_DEST: Self = Self(1 << 7);
    /// Queues ICMP errors in the socket's error queue (`IP_RECVERR`, `IPV6_RECVERR`). Drain the queue
    /// with [`drain_errors`](crate::error_queue::drain_errors): until it is empty, `poll` and epoll report an error
    /// on the socket.
    #[doc(alias("IP_RECVERR", "IPV6_RECVERR", "MSG_ERRQUEUE"))]
    pub const ERRORS: Self = Self(1 << 8);
    /// Reports in the error queue when each datagram was sent (`SO_TIMESTAMPING` with `SOF_TIMESTAMPING_OPT_ID`,
    /// numbered from 0 when turned on). Drain the queue as for [`ERRORS`](Self::ERRORS). Turn it on before
    /// [`Offload::new`](crate::Offload::new), which then sends without GSO, so that each datagram has a time; a GSO batch
    /// has one for all.
    ///
    /// A send that fails uses a number if the kernel had built the datagram: `EPERM` by a firewall, `ENOBUFS` by a full queue
    /// of the device. Before Linux 6.8 so does one that fails with `EMSGSIZE`, `WouldBlock` or the ICMP error of another
    /// datagram. [`with_timestamp_id`](crate::SendMeta::with_timestamp_id) sets a number of your own.
    #[doc(alias = "SO_TIMESTAMPING")]
    pub const SEND_TIMESTAMP: Self = Self(1 << 9);

    /// Each member, with its name.
    pub(super) const MEMBERS: [(Self, &str); 10] = [
        (Self::DEST, "DEST"),
        (Self::TOS, "TOS"),
        (Self::HOP_LIMIT, "HOP_LIMIT"),
        (Self::TIMESTAMP, "TIMESTAMP"),
        (Self::HARDWARE_TIMESTAMP, "HARDWARE_TIMESTAMP"),
        (Self::GRO, "GRO"),
        (Self::DROPPED, "DROPPED"),
        (Self::ORIGINAL_DEST, "ORIGINAL_DEST"),
        (Self::ERRORS, "ERRORS"),
        (Self::SEND_TIMESTAMP, "SEND_TIMESTAMP"),
    ];

    /// Whether all of `other` is in `self`.
    #[must_use]
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The members of `self` that are not in `other`.
    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Ancillary {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Shows the names of the members.
impl fmt::Debug for Ancillary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for (_, name) in Self::MEMBERS.iter().filter(|(member, _)| self.contains(*member)) {
            set.entry(&format_args!("{name}"));
        }
        set.finish()
    }
}

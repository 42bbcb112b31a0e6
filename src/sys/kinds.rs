//! Which control messages and socket options this platform has, by level and number.
//!
//! A platform that lacks one has [`ABSENT`] there, or another pair of its level, which no kernel
//! sends. The numbers are those of the C library; the few that it does not name are the kernel's,
//! from the header that stands beside them.

#![allow(clippy::unnecessary_cast)] // The C library's constants have other types elsewhere.

use crate::Ancillary;

/// The originating protocol and its type (`cmsg_level`, `cmsg_type`), or an option's level and name.
pub(crate) type Kind = (i32, i32);

/// What this platform does not have.
pub(crate) const ABSENT: Kind = absent(0);

/// Pairs that differ, so that each can be matched for on its own.
const fn absent(n: i32) -> Kind {
    (i32::MIN, n)
}

/// Which sockets an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(linux_like), allow(dead_code))] // Not every platform has options for all of them.
pub(crate) enum Family {
    V4,
    V6,
    /// Sockets with an error queue.
    ErrorQueue,
    Any,
}

/// A socket option that asks for something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketOption {
    pub(crate) asks: Ancillary,
    pub(crate) family: Family,
    pub(crate) kind: Kind,
    /// Its value, or the bits of it, when it is on.
    pub(crate) on: i32,
}

impl SocketOption {
    /// Whether it is on or off and has no bits. Some systems read a switch back as another number
    /// than it is set by.
    pub(crate) const fn is_switch(&self) -> bool {
        self.on == 1
    }

    /// Whether it is on where its value is this.
    pub(crate) const fn is_on(&self, value: i32) -> bool {
        if self.is_switch() { value != 0 } else { value & self.on == self.on }
    }
}

#[cfg_attr(windows, allow(dead_code))]
const fn option(asks: Ancillary, family: Family, kind: Kind) -> SocketOption {
    SocketOption { asks, family, kind, on: 1 }
}

pub(crate) use platform::*;

#[cfg(linux_like)]
mod platform {
    use super::*;
    use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};

    pub(crate) const PKTINFO_V4: Kind = (IP, libc::IP_PKTINFO);
    pub(crate) const DSTADDR_V4: Kind = absent(1);
    pub(crate) const PKTINFO_V6: Kind = (IPV6, libc::IPV6_PKTINFO);
    pub(crate) const TOS: Kind = (IP, libc::IP_TOS);
    pub(crate) const TCLASS: Kind = (IPV6, libc::IPV6_TCLASS);
    pub(crate) const TTL: Kind = (IP, libc::IP_TTL);
    pub(crate) const HOP_LIMIT: Kind = (IPV6, libc::IPV6_HOPLIMIT);
    pub(crate) const TIMESTAMP_NS: Kind = (SOCKET, libc::SO_TIMESTAMPNS);
    pub(crate) const TIMESTAMP_US: Kind = absent(2);
    pub(crate) const TIMESTAMPING: Kind = (SOCKET, libc::SO_TIMESTAMPING);
    /// include/uapi/linux/udp.h
    pub(crate) const GRO: Kind = (libc::IPPROTO_UDP, 104);
    pub(crate) const DROPPED: Kind = (SOCKET, libc::SO_RXQ_OVFL);
    pub(crate) const ORIGINAL_DEST_V4: Kind = (IP, libc::IP_ORIGDSTADDR);
    pub(crate) const ORIGINAL_DEST_V6: Kind = (IPV6, libc::IPV6_ORIGDSTADDR);
    pub(crate) const PATH_MTU: Kind = (IPV6, libc::IPV6_PATHMTU);
    pub(crate) const MARK: Kind = (SOCKET, libc::SO_MARK);
    pub(crate) const ERROR_V4: Kind = (IP, libc::IP_RECVERR);
    pub(crate) const ERROR_V6: Kind = (IPV6, libc::IPV6_RECVERR);

    pub(crate) const SEND_TOS: Kind = TOS;
    pub(crate) const SEND_TTL: Kind = TTL;
    pub(crate) const SEND_PKTINFO_V4: Kind = PKTINFO_V4;
    pub(crate) const SEND_SRCADDR_V4: Kind = absent(3);
    /// include/uapi/linux/udp.h
    pub(crate) const SEGMENT: Kind = (libc::IPPROTO_UDP, 103);
    /// include/uapi/linux/udp.h
    pub(crate) const CORK: Kind = (libc::IPPROTO_UDP, 1);
    /// `SCM_TS_OPT_ID`, include/uapi/asm-generic/socket.h
    pub(crate) const STAMP_NUMBER: Kind = (SOCKET, 81);
    /// `SO_TXTIME`, include/uapi/asm-generic/socket.h
    pub(crate) const TXTIME: Kind = (SOCKET, 61);
    pub(crate) const TOS_IS_A_BYTE: bool = false;
    pub(crate) const EMSGSIZE: i32 = libc::EMSGSIZE;
    /// The errors that ICMP and ICMPv6 messages are turned into (`icmp_err_convert` in
    /// net/ipv4/icmp.c, `icmpv6_err_convert` in net/ipv6/icmp.c).
    pub(crate) const REPORTED: &[i32] = &[
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EMSGSIZE,
        libc::EACCES,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::ENOPROTOOPT,
        libc::EOPNOTSUPP,
        libc::EPROTO,
    ];

    pub(crate) const RIGHTS: Kind = (SOCKET, libc::SCM_RIGHTS);
    /// `SCM_PIDFD`, include/linux/socket.h (Linux 6.5)
    pub(crate) const PIDFD: Kind = (SOCKET, 4);
    pub(crate) const PROTOCOL: Kind = (SOCKET, libc::SO_PROTOCOL);
    /// Protocols that read their error queue where `MSG_ERRQUEUE` asks for it; raw sockets do,
    /// too. (ip_recv_error and inet_recv_error in the kernel, by their callers.)
    pub(crate) const WITH_ERROR_QUEUE: &[i32] = &[
        libc::IPPROTO_UDP,
        libc::IPPROTO_UDPLITE,
        libc::IPPROTO_TCP,
        libc::IPPROTO_ICMP,
        libc::IPPROTO_ICMPV6,
    ];
    pub(crate) const PACKET_DOMAIN: i32 = libc::AF_PACKET;

    /// `SO_COOKIE`, include/uapi/asm-generic/socket.h
    pub(crate) const COOKIE: Kind = (SOCKET, 57);
    /// `SO_MEMINFO`, there.
    pub(crate) const MEMINFO: Kind = (SOCKET, 55);
    /// `SO_RCVMARK`, include/uapi/asm-generic/socket.h
    const RCVMARK: Kind = (SOCKET, 75);

    /// include/uapi/linux/net_tstamp.h: the device's stamps alone. Those of the kernel are asked
    /// for by [`TIMESTAMP_NS`], which also makes up for one that was not taken in time.
    const RECEIVE_STAMPS: i32 =
        (libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE) as i32;
    /// Stamp and report by the error queue, with a number for each datagram and no payload.
    const SEND_STAMPS: i32 = (libc::SOF_TIMESTAMPING_TX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        | libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY) as i32;

    /// What makes the kernel stamp each message sent (include/uapi/linux/net_tstamp.h): by the device,
    /// by the driver, when queued, when acknowledged, when completed.
    pub(crate) const ANY_SEND_STAMP: i32 = 1 | 1 << 1 | 1 << 8 | 1 << 9 | 1 << 18;

    pub(crate) const OPTIONS: &[SocketOption] = &[
        option(Ancillary::DEST, Family::V4, PKTINFO_V4),
        option(Ancillary::DEST, Family::V6, (IPV6, libc::IPV6_RECVPKTINFO)),
        option(Ancillary::TOS, Family::V4, (IP, libc::IP_RECVTOS)),
        option(Ancillary::TOS, Family::V6, (IPV6, libc::IPV6_RECVTCLASS)),
        option(Ancillary::HOP_LIMIT, Family::V4, (IP, libc::IP_RECVTTL)),
        option(Ancillary::HOP_LIMIT, Family::V6, (IPV6, libc::IPV6_RECVHOPLIMIT)),
        option(Ancillary::TIMESTAMP, Family::Any, TIMESTAMP_NS),
        SocketOption {
            asks: Ancillary::HARDWARE_TIMESTAMP,
            family: Family::Any,
            kind: TIMESTAMPING,
            on: RECEIVE_STAMPS,
        },
        SocketOption {
            asks: Ancillary::SEND_TIMESTAMP,
            family: Family::ErrorQueue,
            kind: TIMESTAMPING,
            on: SEND_STAMPS,
        },
        option(Ancillary::GRO, Family::Any, GRO),
        option(Ancillary::DROPPED, Family::Any, DROPPED),
        option(Ancillary::ORIGINAL_DEST, Family::V4, ORIGINAL_DEST_V4),
        option(Ancillary::ORIGINAL_DEST, Family::V6, ORIGINAL_DEST_V6),
        option(Ancillary::PATH_MTU, Family::V6, (IPV6, libc::IPV6_RECVPATHMTU)),
        option(Ancillary::MARK, Family::Any, RCVMARK),
        option(Ancillary::ERRORS, Family::V4, ERROR_V4),
        option(Ancillary::ERRORS, Family::V6, ERROR_V6),
    ];
}

#[cfg(all(unix, not(linux_like)))]
mod platform {
    use super::*;
    use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};

    pub(crate) const PKTINFO_V6: Kind = (IPV6, libc::IPV6_PKTINFO);
    pub(crate) const TCLASS: Kind = (IPV6, libc::IPV6_TCLASS);
    /// RFC 3542's number in every BSD and macOS (netinet6/in6.h).
    pub(crate) const HOP_LIMIT: Kind = (IPV6, 47);
    const RECVHOPLIMIT: Kind = (IPV6, 37);
    pub(crate) const TIMESTAMP_NS: Kind = absent(2);
    pub(crate) const TIMESTAMP_US: Kind = (SOCKET, libc::SCM_TIMESTAMP as i32);
    pub(crate) const TIMESTAMPING: Kind = absent(3);
    pub(crate) const GRO: Kind = absent(4);
    pub(crate) const DROPPED: Kind = absent(5);
    pub(crate) const PATH_MTU: Kind = absent(6);
    pub(crate) const MARK: Kind = absent(7);
    pub(crate) const SEGMENT: Kind = absent(8);
    pub(crate) const CORK: Kind = ABSENT;
    pub(crate) const STAMP_NUMBER: Kind = ABSENT;
    pub(crate) const ANY_SEND_STAMP: i32 = 0;
    pub(crate) const TXTIME: Kind = absent(9);
    pub(crate) const ERROR_V4: Kind = ABSENT;
    pub(crate) const ERROR_V6: Kind = absent(15);
    pub(crate) const COOKIE: Kind = absent(16);
    pub(crate) const RIGHTS: Kind = (SOCKET, libc::SCM_RIGHTS);
    pub(crate) const PIDFD: Kind = absent(18);
    pub(crate) const PROTOCOL: Kind = absent(17);
    pub(crate) const WITH_ERROR_QUEUE: &[i32] = &[];
    pub(crate) const PACKET_DOMAIN: i32 = -1;
    pub(crate) const MEMINFO: Kind = absent(19);
    pub(crate) const EMSGSIZE: i32 = libc::EMSGSIZE;
    pub(crate) const REPORTED: &[i32] = &[];

    #[cfg(target_vendor = "apple")]
    mod own {
        use super::*;
        pub(crate) const PKTINFO_V4: Kind = (IP, libc::IP_PKTINFO);
        pub(crate) const DSTADDR_V4: Kind = (IP, libc::IP_RECVDSTADDR);
        pub(crate) const TOS: Kind = (IP, libc::IP_RECVTOS);
        pub(crate) const TTL: Kind = (IP, libc::IP_RECVTTL);
        pub(crate) const ORIGINAL_DEST_V4: Kind = absent(10);
        pub(crate) const ORIGINAL_DEST_V6: Kind = absent(11);
        pub(crate) const SEND_TOS: Kind = (IP, libc::IP_TOS);
        pub(crate) const SEND_TTL: Kind = ABSENT;
        pub(crate) const SEND_PKTINFO_V4: Kind = PKTINFO_V4;
        pub(crate) const SEND_SRCADDR_V4: Kind = ABSENT;
        pub(crate) const TOS_IS_A_BYTE: bool = false;
        pub(super) const OPTIONS_V4: [SocketOption; 3] = [
            option(Ancillary::DEST, Family::V4, PKTINFO_V4),
            option(Ancillary::TOS, Family::V4, TOS),
            option(Ancillary::HOP_LIMIT, Family::V4, TTL),
        ];
    }

    #[cfg(any(target_os = "freebsd", target_os = "dragonfly"))]
    mod own {
        use super::*;
        pub(crate) const PKTINFO_V4: Kind = absent(10);
        pub(crate) const DSTADDR_V4: Kind = (IP, libc::IP_RECVDSTADDR);
        /// sys/netinet/in.h
        pub(crate) const TOS: Kind = (IP, 68);
        pub(crate) const TTL: Kind = (IP, libc::IP_RECVTTL);
        pub(crate) const ORIGINAL_DEST_V4: Kind = (IP, 27);
        pub(crate) const ORIGINAL_DEST_V6: Kind = (IPV6, 72);
        pub(crate) const SEND_TOS: Kind = (IP, libc::IP_TOS);
        pub(crate) const SEND_TTL: Kind = ABSENT;
        pub(crate) const SEND_PKTINFO_V4: Kind = ABSENT;
        pub(crate) const SEND_SRCADDR_V4: Kind = (IP, libc::IP_SENDSRCADDR);
        pub(crate) const TOS_IS_A_BYTE: bool = true;
        pub(super) const OPTIONS_V4: [SocketOption; 5] = [
            option(Ancillary::DEST, Family::V4, DSTADDR_V4),
            option(Ancillary::TOS, Family::V4, TOS),
            option(Ancillary::HOP_LIMIT, Family::V4, TTL),
            option(Ancillary::ORIGINAL_DEST, Family::V4, ORIGINAL_DEST_V4),
            option(Ancillary::ORIGINAL_DEST, Family::V6, ORIGINAL_DEST_V6),
        ];
    }

    #[cfg(not(any(target_vendor = "apple", target_os = "freebsd", target_os = "dragonfly")))]
    mod own {
        use super::*;
        pub(crate) const PKTINFO_V4: Kind = absent(10);
        pub(crate) const DSTADDR_V4: Kind = (IP, libc::IP_RECVDSTADDR);
        pub(crate) const TOS: Kind = absent(11);
        pub(crate) const TTL: Kind = absent(12);
        pub(crate) const ORIGINAL_DEST_V4: Kind = absent(13);
        pub(crate) const ORIGINAL_DEST_V6: Kind = absent(14);
        pub(crate) const SEND_TOS: Kind = ABSENT;
        pub(crate) const SEND_TTL: Kind = ABSENT;
        pub(crate) const SEND_PKTINFO_V4: Kind = ABSENT;
        pub(crate) const SEND_SRCADDR_V4: Kind = (IP, libc::IP_SENDSRCADDR);
        pub(crate) const TOS_IS_A_BYTE: bool = false;
        pub(super) const OPTIONS_V4: [SocketOption; 1] =
            [option(Ancillary::DEST, Family::V4, DSTADDR_V4)];
    }

    pub(crate) use own::*;

    const OPTIONS_V6: [SocketOption; 4] = [
        option(Ancillary::DEST, Family::V6, (IPV6, libc::IPV6_RECVPKTINFO)),
        option(Ancillary::TOS, Family::V6, (IPV6, libc::IPV6_RECVTCLASS)),
        option(Ancillary::HOP_LIMIT, Family::V6, RECVHOPLIMIT),
        option(Ancillary::TIMESTAMP, Family::Any, (SOCKET, libc::SO_TIMESTAMP as i32)),
    ];

    /// The options of this system's IPv4 and those that all have.
    pub(crate) const OPTIONS: &[SocketOption] = &{
        let mut all = [OPTIONS_V6[0]; OPTIONS_V4.len() + OPTIONS_V6.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] =
                if i < OPTIONS_V4.len() { OPTIONS_V4[i] } else { OPTIONS_V6[i - OPTIONS_V4.len()] };
            i += 1;
        }
        all
    };
}

#[cfg(windows)]
mod platform {
    use super::*;

    // No control message is carried on Windows.
    pub(crate) const PKTINFO_V4: Kind = absent(1);
    pub(crate) const DSTADDR_V4: Kind = absent(2);
    pub(crate) const PKTINFO_V6: Kind = absent(3);
    pub(crate) const TOS: Kind = absent(4);
    pub(crate) const TCLASS: Kind = absent(5);
    pub(crate) const TTL: Kind = absent(6);
    pub(crate) const HOP_LIMIT: Kind = absent(7);
    pub(crate) const TIMESTAMP_NS: Kind = absent(8);
    pub(crate) const TIMESTAMP_US: Kind = absent(9);
    pub(crate) const TIMESTAMPING: Kind = absent(10);
    pub(crate) const GRO: Kind = absent(11);
    pub(crate) const DROPPED: Kind = absent(12);
    pub(crate) const ORIGINAL_DEST_V4: Kind = absent(13);
    pub(crate) const ORIGINAL_DEST_V6: Kind = absent(14);
    pub(crate) const PATH_MTU: Kind = absent(15);
    pub(crate) const MARK: Kind = absent(16);
    pub(crate) const SEND_TOS: Kind = ABSENT;
    pub(crate) const SEND_TTL: Kind = ABSENT;
    pub(crate) const SEND_PKTINFO_V4: Kind = ABSENT;
    pub(crate) const SEND_SRCADDR_V4: Kind = ABSENT;
    pub(crate) const SEGMENT: Kind = ABSENT;
    #[allow(dead_code)] // Looked for in runs of messages, and there are none here.
    pub(crate) const STAMP_NUMBER: Kind = ABSENT;
    pub(crate) const TXTIME: Kind = ABSENT;
    pub(crate) const ERROR_V4: Kind = ABSENT;
    pub(crate) const ERROR_V6: Kind = absent(17);
    pub(crate) const RIGHTS: Kind = absent(18);
    /// `WSAEMSGSIZE` (winsock2.h)
    pub(crate) const EMSGSIZE: i32 = 10040;
    pub(crate) const TOS_IS_A_BYTE: bool = false;
    pub(crate) const OPTIONS: &[SocketOption] = &[];
}

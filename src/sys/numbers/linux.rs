//! Linux and Android.

use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, IPPROTO_UDP as UDP, SOL_SOCKET as SOCKET};

pub(crate) use super::defaults::*;
use super::{CmsgType, OptionName};

/// A number of include/uapi/asm-generic/socket.h, and SPARC's (arch/sparc/include/uapi/asm/socket.h).
const fn socket_option(generic: i32, sparc: i32) -> Option<(i32, i32)> {
    let is_sparc = cfg!(any(target_arch = "sparc", target_arch = "sparc64"));
    Some((SOCKET, if is_sparc { sparc } else { generic }))
}

pub(crate) const MSG_ERRQUEUE: i32 = libc::MSG_ERRQUEUE;
/// include/linux/socket.h
pub(crate) const MSG_PROBE: Option<i32> = Some(0x10);
pub(crate) const V6_SOCKETS_TAKE_V4: bool = true;

pub(crate) const PKTINFO_V4: Option<CmsgType> = Some((IP, libc::IP_PKTINFO));
pub(crate) const PKTINFO_V6: Option<CmsgType> = Some((IPV6, libc::IPV6_PKTINFO));
pub(crate) const TOS: Option<CmsgType> = Some((IP, libc::IP_TOS));
pub(crate) const TCLASS: Option<CmsgType> = Some((IPV6, libc::IPV6_TCLASS));
pub(crate) const TTL: Option<CmsgType> = Some((IP, libc::IP_TTL));
pub(crate) const HOP_LIMIT: Option<CmsgType> = Some((IPV6, libc::IPV6_HOPLIMIT));
pub(crate) const TIMESTAMP_NS: Option<CmsgType> = Some((SOCKET, libc::SO_TIMESTAMPNS));
pub(crate) const TIMESTAMPING: Option<CmsgType> = Some((SOCKET, libc::SO_TIMESTAMPING));
/// `UDP_GRO`, include/uapi/linux/udp.h
pub(crate) const GRO: Option<CmsgType> = Some((UDP, 104));
pub(crate) const DROPPED: Option<CmsgType> = Some((SOCKET, libc::SO_RXQ_OVFL));
pub(crate) const ORIGINAL_DEST_V4: Option<CmsgType> = Some((IP, libc::IP_ORIGDSTADDR));
pub(crate) const ORIGINAL_DEST_V6: Option<CmsgType> = Some((IPV6, libc::IPV6_ORIGDSTADDR));
pub(crate) const ERROR_V4: Option<CmsgType> = Some((IP, libc::IP_RECVERR));
pub(crate) const ERROR_V6: Option<CmsgType> = Some((IPV6, libc::IPV6_RECVERR));
/// `SCM_PIDFD`, include/linux/socket.h (Linux 6.5)
pub(crate) const PIDFD: Option<CmsgType> = Some((SOCKET, 4));

pub(crate) const SEND_TOS: Option<CmsgType> = TOS;
pub(crate) const SEND_TTL: Option<CmsgType> = TTL;
/// `UDP_SEGMENT`, include/uapi/linux/udp.h
pub(crate) const SEGMENT: Option<CmsgType> = Some((UDP, 103));
pub(crate) const SEGMENT_MAY_BE_ZERO: bool = true;
/// A send skips control messages of another level than its own (`ip_cmsg_send`, `ip6_datagram_send_ctl`).
pub(crate) const IGNORES_OTHER_FAMILY: bool = true;
/// `UDP_CORK`, include/uapi/linux/udp.h
pub(crate) const CORK: Option<OptionName> = Some((UDP, 1));
/// `SCM_TS_OPT_ID`
pub(crate) const STAMP_NUMBER: Option<CmsgType> = socket_option(81, 0x5a);
/// `SO_TXTIME`
pub(crate) const TXTIME: Option<CmsgType> = socket_option(61, 0x3f);

pub(crate) const RECV_PKTINFO_V4: Option<OptionName> = PKTINFO_V4;
pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = Some((IPV6, libc::IPV6_RECVPKTINFO));
pub(crate) const RECV_TOS: Option<OptionName> = Some((IP, libc::IP_RECVTOS));
pub(crate) const RECV_TCLASS: Option<OptionName> = Some((IPV6, libc::IPV6_RECVTCLASS));
pub(crate) const RECV_TTL: Option<OptionName> = Some((IP, libc::IP_RECVTTL));
pub(crate) const RECV_HOP_LIMIT: Option<OptionName> = Some((IPV6, libc::IPV6_RECVHOPLIMIT));
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = TIMESTAMP_NS;
/// Only the device's timestamps (include/uapi/linux/net_tstamp.h). `RECV_TIMESTAMP` asks for the kernel's, which fills in
/// the current time where it has taken none.
pub(crate) const HARDWARE_STAMPS: i32 =
    (libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE) as i32;
/// Timestamps in the error queue, with a number for each datagram and without payload.
pub(crate) const SEND_STAMPS: i32 = (libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_RAW_HARDWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY) as i32;

/// By the device, by the driver, when queued, when acknowledged, when completed (include/uapi/linux/net_tstamp.h).
pub(crate) const ANY_SEND_STAMP: i32 = 1 | 1 << 1 | 1 << 8 | 1 << 9 | 1 << 18;

/// `icmp_err_convert` in net/ipv4/icmp.c, `icmpv6_err_convert` in net/ipv6/icmp.c.
pub(crate) const ICMP_ERRORS: &[i32] = &[
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
pub(crate) const FILTER: Option<OptionName> = Some((SOCKET, libc::SO_GET_FILTER));
/// `SO_MEMINFO`
pub(crate) const MEMINFO: Option<OptionName> = socket_option(55, 0x39);

pub(crate) const FRAGMENTATION_V4: Option<OptionName> = Some((IP, libc::IP_MTU_DISCOVER));
pub(crate) const FRAGMENTATION_V6: Option<OptionName> = Some((IPV6, libc::IPV6_MTU_DISCOVER));
/// `IP_PMTUDISC_*`, include/uapi/linux/in.h; `IPV6_PMTUDISC_*` of in6.h are the same.
pub(crate) const FRAGMENTATION: [i32; 4] = [0, 1, 2, 3];
/// `IP_MTU`, include/uapi/linux/in.h
pub(crate) const MTU_V4: Option<OptionName> = Some((IP, 14));
/// `IPV6_MTU`, include/uapi/linux/in6.h
pub(crate) const MTU_V6: Option<OptionName> = Some((IPV6, 24));

pub(crate) const RECV_BUFFER_FORCED: Option<OptionName> = Some((SOCKET, libc::SO_RCVBUFFORCE));
pub(crate) const SEND_BUFFER_FORCED: Option<OptionName> = Some((SOCKET, libc::SO_SNDBUFFORCE));
/// `__sock_set_rcvbuf` in net/core/sock.c
pub(crate) const BUFFER_FACTOR: usize = 2;
/// `SO_MAX_PACING_RATE`
pub(crate) const MAX_PACING_RATE: Option<OptionName> = socket_option(47, 0x31);

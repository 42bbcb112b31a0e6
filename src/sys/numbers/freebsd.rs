//! FreeBSD and DragonFly.

use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};

pub(crate) use super::absent::*;
use super::{CmsgType, OptionName};

pub(crate) const DSTADDR_V4: Option<CmsgType> = Some((IP, libc::IP_RECVDSTADDR));
pub(crate) const PKTINFO_V6: Option<CmsgType> = Some((IPV6, libc::IPV6_PKTINFO));
/// `IP_RECVTOS`, sys/netinet/in.h
pub(crate) const TOS: Option<CmsgType> = Some((IP, 68));
pub(crate) const TCLASS: Option<CmsgType> = Some((IPV6, libc::IPV6_TCLASS));
pub(crate) const TTL: Option<CmsgType> = Some((IP, libc::IP_RECVTTL));
/// `IPV6_HOPLIMIT` of RFC 3542, sys/netinet6/in6.h
pub(crate) const HOP_LIMIT: Option<CmsgType> = Some((IPV6, 47));
/// sys/sys/socket.h, FreeBSD 12; DragonFly has none.
#[cfg(target_os = "freebsd")]
pub(crate) const TIMESTAMP_NS: Option<CmsgType> = Some((SOCKET, libc::SCM_REALTIME));
pub(crate) const TIMESTAMP_US: Option<CmsgType> = Some((SOCKET, libc::SCM_TIMESTAMP as i32));
/// `IP_ORIGDSTADDR`, sys/netinet/in.h
pub(crate) const ORIGINAL_DEST_V4: Option<CmsgType> = Some((IP, 27));
/// `IPV6_ORIGDSTADDR`, sys/netinet6/in6.h
pub(crate) const ORIGINAL_DEST_V6: Option<CmsgType> = Some((IPV6, 72));

pub(crate) const SEND_TOS: Option<CmsgType> = Some((IP, libc::IP_TOS));
pub(crate) const SEND_SRCADDR_V4: Option<CmsgType> = Some((IP, libc::IP_SENDSRCADDR));
pub(crate) const SEND_TOS_IS_A_BYTE: bool = true;

pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = DSTADDR_V4;
pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = Some((IPV6, libc::IPV6_RECVPKTINFO));
pub(crate) const RECV_TOS: Option<OptionName> = TOS;
pub(crate) const RECV_TCLASS: Option<OptionName> = Some((IPV6, libc::IPV6_RECVTCLASS));
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `IPV6_RECVHOPLIMIT` of RFC 3542, sys/netinet6/in6.h
pub(crate) const RECV_HOP_LIMIT: Option<OptionName> = Some((IPV6, 37));
/// sys/sys/socket.h, FreeBSD 12; DragonFly has none.
#[cfg(target_os = "freebsd")]
pub(crate) const TIMESTAMP_CLOCK: Option<OptionName> = Some((SOCKET, libc::SO_TS_CLOCK));
#[cfg(target_os = "freebsd")]
pub(crate) const NANOSECONDS: i32 = libc::SO_TS_REALTIME;
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = Some((SOCKET, libc::SO_TIMESTAMP as i32));

/// `IP_DONTFRAG`, sys/netinet/in.h; DragonFly has none.
pub(crate) const FRAGMENTATION_V4: Option<OptionName> =
    if cfg!(target_os = "freebsd") { Some((IP, 67)) } else { None };
/// `IPV6_DONTFRAG` of RFC 3542, sys/netinet6/in6.h
pub(crate) const FRAGMENTATION_V6: Option<OptionName> = Some((IPV6, 62));

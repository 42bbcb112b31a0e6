//! FreeBSD and DragonFly.

use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName, SourceRule, V4Rules};

/// `IP_RECVTOS`, sys/netinet/in.h
pub(crate) const TOS: Option<CmsgType> = Some((IP, 68));
pub(crate) const TTL: Option<CmsgType> = Some((IP, libc::IP_RECVTTL));
/// sys/sys/socket.h, FreeBSD 12; DragonFly has none.
#[cfg(target_os = "freebsd")]
pub(crate) const TIMESTAMP_NS: Option<CmsgType> = Some((SOCKET, libc::SCM_REALTIME));
/// `IP_ORIGDSTADDR`, sys/netinet/in.h
pub(crate) const ORIGINAL_DEST_V4: Option<CmsgType> = Some((IP, 27));
/// `IPV6_ORIGDSTADDR`, sys/netinet6/in6.h
pub(crate) const ORIGINAL_DEST_V6: Option<CmsgType> = Some((IPV6, 72));

pub(crate) const SEND_TOS: Option<CmsgType> = Some((IP, libc::IP_TOS));
pub(crate) const SEND_SRCADDR_V4: Option<CmsgType> = Some((IP, libc::IP_SENDSRCADDR));
pub(crate) const SEND_TOS_IS_A_BYTE: bool = true;

pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = DSTADDR_V4;
pub(crate) const RECV_TOS: Option<OptionName> = TOS;
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `in_pcbbind_setup` in sys/netinet/in_pcb.c; `ip6_savecontrol_v4` in sys/netinet6/ip6_input.c and `udp_append` in
/// sys/netinet/udp_usrreq.c
pub(crate) const V4_RULES: V4Rules = V4Rules {
    source: SourceRule::Rejected,
    reported_by_v6: Some(&[RECV_PKTINFO_V6, RECV_TCLASS, RECV_HOP_LIMIT, ORIGINAL_DEST_V6]),
};
/// sys/sys/socket.h, FreeBSD 12; DragonFly has none.
#[cfg(target_os = "freebsd")]
pub(crate) const TIMESTAMP_CLOCK: Option<OptionName> = Some((SOCKET, libc::SO_TS_CLOCK));
#[cfg(target_os = "freebsd")]
pub(crate) const NANOSECONDS: i32 = libc::SO_TS_REALTIME;

/// `IP_DONTFRAG`, sys/netinet/in.h; DragonFly has none.
pub(crate) const FRAGMENTATION_V4: Option<OptionName> =
    if cfg!(target_os = "freebsd") { Some((IP, 67)) } else { None };

//! FreeBSD and DragonFly: sys/netinet/in.h, sys/netinet6/in6.h, sys/sys/socket.h.

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName, SourceRule, V4Rules};

/// A number that DragonFly lacks.
const fn freebsd(level: i32, number: i32) -> Option<(i32, i32)> {
    if cfg!(target_os = "dragonfly") { None } else { Some((level, number)) }
}

/// `IP_RECVTOS`
pub(crate) const TOS: Option<CmsgType> = Some((IP, 68));
/// `IP_RECVTTL`
pub(crate) const TTL: Option<CmsgType> = Some((IP, 65));
/// `SCM_REALTIME`, FreeBSD 12
pub(crate) const TIMESTAMP_NS: Option<CmsgType> = freebsd(SOCKET, 5);
/// `IP_ORIGDSTADDR`
pub(crate) const ORIGINAL_DEST_V4: Option<CmsgType> = freebsd(IP, 27);
/// `IPV6_ORIGDSTADDR`
pub(crate) const ORIGINAL_DEST_V6: Option<CmsgType> = freebsd(IPV6, 72);

/// `IP_TOS`
pub(crate) const SEND_TOS: Option<CmsgType> = Some((IP, 3));
/// `IP_SENDSRCADDR`
pub(crate) const SEND_SRCADDR_V4: Option<CmsgType> = DSTADDR_V4;
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
/// `SO_TS_CLOCK`, FreeBSD 12
pub(crate) const TIMESTAMP_CLOCK: Option<OptionName> = freebsd(SOCKET, 0x1017);
/// `SO_TS_REALTIME`
pub(crate) const NANOSECONDS: i32 = 2;

/// `IP_DONTFRAG`
pub(crate) const FRAGMENTATION_V4: Option<OptionName> = freebsd(IP, 67);

//! NetBSD 9: sys/netinet/in.h, sys/sys/socket.h.

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName, SourceRule, V4Rules};

/// `IP_PKTINFO`, `struct in_pktinfo`: address, then interface. NetBSD 7 and 8 use another number.
pub(crate) const PKTINFO_V4: Option<CmsgType> = Some((IP, 25));
/// `IP_RECVTTL`; one byte (`ip_savecontrol` in sys/netinet/ip_input.c)
pub(crate) const TTL: Option<CmsgType> = Some((IP, 23));
/// `SCM_TIMESTAMP`
pub(crate) const TIMESTAMP_US: Option<CmsgType> = Some((SOCKET, 8));

pub(crate) const SEND_PKTINFO_V4_IS_SHORT: bool = true;

/// `IP_RECVPKTINFO`
pub(crate) const RECV_PKTINFO_V4: Option<OptionName> = Some((IP, 26));
pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = DSTADDR_V4;
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `SO_TIMESTAMP`
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = Some((SOCKET, 0x2000));
/// `udp6_output` in sys/netinet6/udp6_output.c passes a mapped destination no control data; `ip6_savecontrol` in
/// sys/netinet6/ip6_input.c returns at an IPv4 packet.
pub(crate) const V4_RULES: V4Rules =
    V4Rules { source: SourceRule::IgnoredByV6, reported_by_v6: Some(&[]) };

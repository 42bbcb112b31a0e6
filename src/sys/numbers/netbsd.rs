//! NetBSD.

use libc::IPPROTO_IP as IP;

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName, SourceRule, V4Rules};

/// `struct in_pktinfo`: address, then interface (sys/netinet/in.h). NetBSD 7 uses another number.
pub(crate) const PKTINFO_V4: Option<CmsgType> = Some((IP, libc::IP_PKTINFO));
/// `IP_RECVTTL`, sys/netinet/in.h; one byte (`ip_savecontrol` in sys/netinet/ip_input.c)
pub(crate) const TTL: Option<CmsgType> = Some((IP, 23));

pub(crate) const SEND_PKTINFO_V4_IS_SHORT: bool = true;

pub(crate) const RECV_PKTINFO_V4: Option<OptionName> = Some((IP, libc::IP_RECVPKTINFO));
pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = DSTADDR_V4;
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `ip6_savecontrol` in sys/netinet6/ip6_input.c returns at an IPv4 packet.
pub(crate) const V4_RULES: V4Rules =
    V4Rules { source: SourceRule::Allowed, reported_by_v6: Some(&[]) };

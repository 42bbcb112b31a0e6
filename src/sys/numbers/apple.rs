//! macOS, iOS and Apple's other systems: XNU's bsd/netinet/in.h and bsd/netinet6/in6.h.

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName, SourceRule, V4Rules};

/// `IP_PKTINFO`
pub(crate) const PKTINFO_V4: Option<CmsgType> = Some((IP, 26));
/// `IP_RECVTOS`
pub(crate) const TOS: Option<CmsgType> = Some((IP, 27));
/// `IPV6_TCLASS`
pub(crate) const TCLASS: Option<CmsgType> = Some((IPV6, 36));
/// `IP_RECVTTL`
pub(crate) const TTL: Option<CmsgType> = Some((IP, 24));

/// `IP_TOS`
pub(crate) const SEND_TOS: Option<CmsgType> = Some((IP, 3));

pub(crate) const RECV_PKTINFO_V4: Option<OptionName> = PKTINFO_V4;
/// `IPV6_RECVPKTINFO`
pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = Some((IPV6, 61));
pub(crate) const RECV_TOS: Option<OptionName> = TOS;
/// `IPV6_RECVTCLASS`
pub(crate) const RECV_TCLASS: Option<OptionName> = Some((IPV6, 35));
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `udp_output` in XNU's bsd/netinet/udp_usrreq.c; `ip6_savecontrol_v4` in bsd/netinet6/ip6_input.c (macOS 10.14), which
/// reports no hop limit
pub(crate) const V4_RULES: V4Rules =
    V4Rules { source: SourceRule::Unbinds, reported_by_v6: Some(&[RECV_PKTINFO_V6, RECV_TCLASS]) };

/// `IP_DONTFRAG` (macOS 11)
pub(crate) const FRAGMENTATION_V4: Option<OptionName> = Some((IP, 28));

//! macOS, iOS and Apple's other systems.

use libc::IPPROTO_IP as IP;

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName, SourceRule, V4Rules};

pub(crate) const PKTINFO_V4: Option<CmsgType> = Some((IP, libc::IP_PKTINFO));
pub(crate) const TOS: Option<CmsgType> = Some((IP, libc::IP_RECVTOS));
pub(crate) const TTL: Option<CmsgType> = Some((IP, libc::IP_RECVTTL));

pub(crate) const SEND_TOS: Option<CmsgType> = Some((IP, libc::IP_TOS));

pub(crate) const RECV_PKTINFO_V4: Option<OptionName> = PKTINFO_V4;
pub(crate) const RECV_TOS: Option<OptionName> = TOS;
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `udp_output` in XNU's bsd/netinet/udp_usrreq.c; `ip6_savecontrol_v4` in bsd/netinet6/ip6_input.c (macOS 10.14), which
/// reports no hop limit
pub(crate) const V4_RULES: V4Rules =
    V4Rules { source: SourceRule::Unbinds, reported_by_v6: Some(&[RECV_PKTINFO_V6, RECV_TCLASS]) };

/// `IP_DONTFRAG`, bsd/netinet/in.h (macOS 11)
pub(crate) const FRAGMENTATION_V4: Option<OptionName> = Some((IP, 28));

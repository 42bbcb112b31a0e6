//! macOS, iOS and Apple's other systems.

use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};

pub(crate) use super::absent::*;
use super::{CmsgType, OptionName};

pub(crate) const PKTINFO_V4: Option<CmsgType> = Some((IP, libc::IP_PKTINFO));
pub(crate) const DSTADDR_V4: Option<CmsgType> = Some((IP, libc::IP_RECVDSTADDR));
pub(crate) const PKTINFO_V6: Option<CmsgType> = Some((IPV6, libc::IPV6_PKTINFO));
pub(crate) const TOS: Option<CmsgType> = Some((IP, libc::IP_RECVTOS));
pub(crate) const TCLASS: Option<CmsgType> = Some((IPV6, libc::IPV6_TCLASS));
pub(crate) const TTL: Option<CmsgType> = Some((IP, libc::IP_RECVTTL));
/// `IPV6_HOPLIMIT` of RFC 3542, bsd/netinet6/in6.h
pub(crate) const HOP_LIMIT: Option<CmsgType> = Some((IPV6, 47));
pub(crate) const TIMESTAMP_US: Option<CmsgType> = Some((SOCKET, libc::SCM_TIMESTAMP as i32));

pub(crate) const SEND_TOS: Option<CmsgType> = Some((IP, libc::IP_TOS));

pub(crate) const RECV_PKTINFO_V4: Option<OptionName> = PKTINFO_V4;
pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = Some((IPV6, libc::IPV6_RECVPKTINFO));
pub(crate) const RECV_TOS: Option<OptionName> = TOS;
pub(crate) const RECV_TCLASS: Option<OptionName> = Some((IPV6, libc::IPV6_RECVTCLASS));
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `IPV6_RECVHOPLIMIT` of RFC 3542, bsd/netinet6/in6.h
pub(crate) const RECV_HOP_LIMIT: Option<OptionName> = Some((IPV6, 37));
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = Some((SOCKET, libc::SO_TIMESTAMP as i32));

/// `IP_DONTFRAG`, bsd/netinet/in.h (macOS 11)
pub(crate) const FRAGMENTATION_V4: Option<OptionName> = Some((IP, 28));
/// `IPV6_DONTFRAG` of RFC 3542, bsd/netinet6/in6.h
pub(crate) const FRAGMENTATION_V6: Option<OptionName> = Some((IPV6, 62));

//! What the BSDs and Apple's systems have in common: IPv6 as RFC 3542 and KAME brought it, and BSD's own options.

use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};

pub(crate) use super::defaults::*;
use super::{CmsgType, OptionName};

pub(crate) const DSTADDR_V4: Option<CmsgType> = Some((IP, libc::IP_RECVDSTADDR));
pub(crate) const PKTINFO_V6: Option<CmsgType> = Some((IPV6, libc::IPV6_PKTINFO));
pub(crate) const TCLASS: Option<CmsgType> = Some((IPV6, libc::IPV6_TCLASS));
/// `IPV6_HOPLIMIT` of RFC 3542, netinet6/in6.h
pub(crate) const HOP_LIMIT: Option<CmsgType> = Some((IPV6, 47));
pub(crate) const TIMESTAMP_US: Option<CmsgType> = Some((SOCKET, libc::SCM_TIMESTAMP as i32));

pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = Some((IPV6, libc::IPV6_RECVPKTINFO));
pub(crate) const RECV_TCLASS: Option<OptionName> = Some((IPV6, libc::IPV6_RECVTCLASS));
/// `IPV6_RECVHOPLIMIT` of RFC 3542, netinet6/in6.h
pub(crate) const RECV_HOP_LIMIT: Option<OptionName> = Some((IPV6, 37));
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = Some((SOCKET, libc::SO_TIMESTAMP as i32));

/// `IPV6_DONTFRAG` of RFC 3542, netinet6/in6.h
pub(crate) const FRAGMENTATION_V6: Option<OptionName> = Some((IPV6, 62));

//! OpenBSD.

use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};

pub(crate) use super::absent::*;
use super::{CmsgType, OptionName};

pub(crate) const DSTADDR_V4: Option<CmsgType> = Some((IP, libc::IP_RECVDSTADDR));
pub(crate) const PKTINFO_V6: Option<CmsgType> = Some((IPV6, libc::IPV6_PKTINFO));
pub(crate) const TCLASS: Option<CmsgType> = Some((IPV6, libc::IPV6_TCLASS));
/// `IP_RECVTTL`, sys/netinet/in.h; one byte (`ip_savecontrol` in sys/netinet/ip_input.c)
pub(crate) const TTL: Option<CmsgType> = Some((IP, 31));
/// `IPV6_HOPLIMIT` of RFC 3542, netinet6/in6.h
pub(crate) const HOP_LIMIT: Option<CmsgType> = Some((IPV6, 47));
pub(crate) const TIMESTAMP_US: Option<CmsgType> = Some((SOCKET, libc::SCM_TIMESTAMP as i32));

pub(crate) const SEND_SRCADDR_V4: Option<CmsgType> = Some((IP, libc::IP_SENDSRCADDR));

pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = DSTADDR_V4;
pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = Some((IPV6, libc::IPV6_RECVPKTINFO));
pub(crate) const RECV_TCLASS: Option<OptionName> = Some((IPV6, libc::IPV6_RECVTCLASS));
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `IPV6_RECVHOPLIMIT` of RFC 3542, netinet6/in6.h
pub(crate) const RECV_HOP_LIMIT: Option<OptionName> = Some((IPV6, 37));
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = Some((SOCKET, libc::SO_TIMESTAMP as i32));

/// `IPV6_DONTFRAG` of RFC 3542, sys/netinet6/in6.h
pub(crate) const FRAGMENTATION_V6: Option<OptionName> = Some((IPV6, 62));

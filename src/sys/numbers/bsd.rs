//! What the BSDs and Apple's systems have in common: IPv6 as RFC 3542 and KAME brought it, and BSD's own options.

pub(crate) use super::defaults::*;
use super::{CmsgType, OptionName};

pub(super) const IP: i32 = 0;
pub(super) const IPV6: i32 = 41;
pub(super) const SOCKET: i32 = 0xffff;

/// `IP_RECVDSTADDR`
pub(crate) const DSTADDR_V4: Option<CmsgType> = Some((IP, 7));
/// `IPV6_PKTINFO`
pub(crate) const PKTINFO_V6: Option<CmsgType> = Some((IPV6, 46));
/// `IPV6_TCLASS`
pub(crate) const TCLASS: Option<CmsgType> = Some((IPV6, 61));
/// `IPV6_HOPLIMIT`
pub(crate) const HOP_LIMIT: Option<CmsgType> = Some((IPV6, 47));
/// `SCM_TIMESTAMP`
pub(crate) const TIMESTAMP_US: Option<CmsgType> = Some((SOCKET, 2));

/// `IPV6_RECVPKTINFO`
pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = Some((IPV6, 36));
/// `IPV6_RECVTCLASS`
pub(crate) const RECV_TCLASS: Option<OptionName> = Some((IPV6, 57));
/// `IPV6_RECVHOPLIMIT`
pub(crate) const RECV_HOP_LIMIT: Option<OptionName> = Some((IPV6, 37));
/// `SO_TIMESTAMP`
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = Some((SOCKET, 0x400));

/// `IPV6_DONTFRAG`
pub(crate) const FRAGMENTATION_V6: Option<OptionName> = Some((IPV6, 62));

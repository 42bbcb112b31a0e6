//! OpenBSD: sys/netinet/in.h, sys/sys/socket.h.

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName};

/// `IP_RECVTTL`; one byte (`ip_savecontrol` in sys/netinet/ip_input.c)
pub(crate) const TTL: Option<CmsgType> = Some((IP, 31));
/// `SCM_TIMESTAMP`
pub(crate) const TIMESTAMP_US: Option<CmsgType> = Some((SOCKET, 4));

/// `IP_SENDSRCADDR`
pub(crate) const SEND_SRCADDR_V4: Option<CmsgType> = DSTADDR_V4;

pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = DSTADDR_V4;
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// `SO_TIMESTAMP`
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = Some((SOCKET, 0x800));

//! OpenBSD.

use libc::IPPROTO_IP as IP;

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName};

/// `IP_RECVTTL`, sys/netinet/in.h; one byte (`ip_savecontrol` in sys/netinet/ip_input.c)
pub(crate) const TTL: Option<CmsgType> = Some((IP, 31));

pub(crate) const SEND_SRCADDR_V4: Option<CmsgType> = Some((IP, libc::IP_SENDSRCADDR));

pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = DSTADDR_V4;
pub(crate) const RECV_TTL: Option<OptionName> = TTL;

//! FreeBSD and DragonFly.

use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};

pub(crate) use super::bsd::*;
use super::{CmsgType, OptionName};

/// `IP_RECVTOS`, sys/netinet/in.h
pub(crate) const TOS: Option<CmsgType> = Some((IP, 68));
pub(crate) const TTL: Option<CmsgType> = Some((IP, libc::IP_RECVTTL));
/// sys/sys/socket.h, FreeBSD 12; DragonFly has none.
#[cfg(target_os = "freebsd")]
pub(crate) const TIMESTAMP_NS: Option<CmsgType> = Some((SOCKET, libc::SCM_REALTIME));
/// `IP_ORIGDSTADDR`, sys/netinet/in.h
pub(crate) const ORIGINAL_DEST_V4: Option<CmsgType> = Some((IP, 27));
/// `IPV6_ORIGDSTADDR`, sys/netinet6/in6.h
pub(crate) const ORIGINAL_DEST_V6: Option<CmsgType> = Some((IPV6, 72));

pub(crate) const SEND_TOS: Option<CmsgType> = Some((IP, libc::IP_TOS));
pub(crate) const SEND_SRCADDR_V4: Option<CmsgType> = Some((IP, libc::IP_SENDSRCADDR));
pub(crate) const SEND_TOS_IS_A_BYTE: bool = true;

pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = DSTADDR_V4;
pub(crate) const RECV_TOS: Option<OptionName> = TOS;
pub(crate) const RECV_TTL: Option<OptionName> = TTL;
/// sys/sys/socket.h, FreeBSD 12; DragonFly has none.
#[cfg(target_os = "freebsd")]
pub(crate) const TIMESTAMP_CLOCK: Option<OptionName> = Some((SOCKET, libc::SO_TS_CLOCK));
#[cfg(target_os = "freebsd")]
pub(crate) const NANOSECONDS: i32 = libc::SO_TS_REALTIME;

/// `IP_DONTFRAG`, sys/netinet/in.h; DragonFly has none.
pub(crate) const FRAGMENTATION_V4: Option<OptionName> =
    if cfg!(target_os = "freebsd") { Some((IP, 67)) } else { None };

//! Windows. The names come from ws2ipdef.h (`IP_`, `IPV6_`), ws2def.h (`IPPROTO_`) and winsock2.h (`WSAE`); windows-sys
//! generates them from Microsoft's metadata of these headers.

use windows_sys::Win32::Networking::WinSock::{
    self, IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, IPPROTO_UDP as UDP,
};

pub(crate) use super::defaults::*;
use super::{CmsgType, OptionName};

/// A blocking socket would wait for a second message, and Windows does not tell whether a socket is blocking.
pub(crate) const MAX_RECV: usize = 1;
/// A bit that means nothing to Windows, which has no such flag.
pub(crate) const MSG_DONTWAIT: i32 = 1 << 29;
pub(crate) const MSG_PEEK: i32 = WinSock::MSG_PEEK as i32;
/// A receive into too short a buffer does not tell how much of it was written.
pub(crate) const KNOWS_LENGTHS: bool = false;

/// `IN_PKTINFO`: address, then interface.
pub(crate) const PKTINFO_V4: Option<CmsgType> = Some((IP, WinSock::IP_PKTINFO));
pub(crate) const PKTINFO_V6: Option<CmsgType> = Some((IPV6, WinSock::IPV6_PKTINFO));
pub(crate) const TOS: Option<CmsgType> = Some((IP, WinSock::IP_TOS));
pub(crate) const TCLASS: Option<CmsgType> = Some((IPV6, WinSock::IPV6_TCLASS));
pub(crate) const ECN_V4: Option<CmsgType> = Some((IP, WinSock::IP_ECN));
pub(crate) const ECN_V6: Option<CmsgType> = Some((IPV6, WinSock::IPV6_ECN));
pub(crate) const TTL: Option<CmsgType> = Some((IP, WinSock::IP_TTL));
pub(crate) const HOP_LIMIT: Option<CmsgType> = Some((IPV6, WinSock::IPV6_HOPLIMIT));

pub(crate) const SEND_TOS: Option<CmsgType> = TOS;
pub(crate) const SEND_TTL: Option<CmsgType> = TTL;
pub(crate) const SEND_PKTINFO_V4_IS_SHORT: bool = true;
/// ws2tcpip.h, Windows 10 2004.
pub(crate) const SEGMENT: Option<CmsgType> = Some((UDP, WinSock::UDP_SEND_MSG_SIZE));
pub(crate) const SEGMENT_NAME: &str = "UDP_SEND_MSG_SIZE";
/// A `DWORD` (`WSASetUdpSendMessageSize` in ws2tcpip.h).
pub(crate) const SEGMENT_LEN: usize = 4;
/// quinn-udp found this limit by trial. Windows documents none.
pub(crate) const MAX_SEGMENTS: usize = 512;
pub(crate) const MAX_EXPLICIT_SEGMENTS: usize = MAX_SEGMENTS;

pub(crate) const RECV_PKTINFO_V4: Option<OptionName> = PKTINFO_V4;
pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = PKTINFO_V6;
pub(crate) const RECV_TOS: Option<OptionName> = Some((IP, WinSock::IP_RECVTOS));
pub(crate) const RECV_TCLASS: Option<OptionName> = Some((IPV6, WinSock::IPV6_RECVTCLASS));
pub(crate) const RECV_ECN_V4: Option<OptionName> = Some((IP, WinSock::IP_RECVECN));
pub(crate) const RECV_ECN_V6: Option<OptionName> = Some((IPV6, WinSock::IPV6_RECVECN));
pub(crate) const RECV_TTL: Option<OptionName> = Some((IP, WinSock::IP_RECVTTL));
pub(crate) const RECV_HOP_LIMIT: Option<OptionName> = HOP_LIMIT;

/// winsock2.h: port unreachable, time to live exceeded. Wine returns the host's error.
pub(crate) const ICMP_ERRORS: &[i32] =
    &[WinSock::WSAECONNRESET, WinSock::WSAENETRESET, WinSock::WSAECONNREFUSED];

pub(crate) const FRAGMENTATION_V4: Option<OptionName> = Some((IP, WinSock::IP_MTU_DISCOVER));
pub(crate) const FRAGMENTATION_V6: Option<OptionName> = Some((IPV6, WinSock::IPV6_MTU_DISCOVER));
pub(crate) const FRAGMENTATION: [i32; 4] = [
    WinSock::IP_PMTUDISC_DONT,
    WinSock::IP_PMTUDISC_NOT_SET,
    WinSock::IP_PMTUDISC_DO,
    WinSock::IP_PMTUDISC_PROBE,
];
pub(crate) const MTU_V4: Option<OptionName> = Some((IP, WinSock::IP_MTU));
pub(crate) const MTU_V6: Option<OptionName> = Some((IPV6, WinSock::IPV6_MTU));

pub(crate) const EMSGSIZE: i32 = WinSock::WSAEMSGSIZE;
pub(crate) const EINVAL: i32 = WinSock::WSAEINVAL;

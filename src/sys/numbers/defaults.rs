//! Every number that the crate knows, as on a platform that has none of them.

use super::{CmsgType, MAX_BATCH, OptionName, SourceRule, V4Rules};

/// The maximum number of messages of a receive.
pub(crate) const MAX_RECV: usize = MAX_BATCH;
/// Whether a receive tells how many bytes it wrote.
pub(crate) const KNOWS_LENGTHS: bool = true;
/// The flag that reads the error queue: a bit that means nothing, since nobody reads it elsewhere.
pub(crate) const MSG_ERRQUEUE: i32 = 1 << 30;
/// The flag of a send that only looks for a route.
pub(crate) const MSG_PROBE: Option<i32> = None;
/// Whether an IPv6 socket takes a `sockaddr_in`. If it carries IPv4, it takes the IPv4-mapped address on every system.
pub(crate) const V6_SOCKETS_TAKE_V4: bool = false;

// Control messages of received messages.

/// `struct in_pktinfo`: destination and interface of an IPv4 datagram.
pub(crate) const PKTINFO_V4: Option<CmsgType> = None;
/// `struct in_addr`: destination of an IPv4 datagram.
pub(crate) const DSTADDR_V4: Option<CmsgType> = None;
/// `struct in6_pktinfo` (RFC 3542, section 6).
pub(crate) const PKTINFO_V6: Option<CmsgType> = None;
pub(crate) const TOS: Option<CmsgType> = None;
pub(crate) const TCLASS: Option<CmsgType> = None;
/// Only the ECN bits. A system that has these prefers them for a TOS byte without other bits.
pub(crate) const ECN_V4: Option<CmsgType> = None;
pub(crate) const ECN_V6: Option<CmsgType> = None;
pub(crate) const TTL: Option<CmsgType> = None;
pub(crate) const HOP_LIMIT: Option<CmsgType> = None;
/// `struct timespec`.
pub(crate) const TIMESTAMP_NS: Option<CmsgType> = None;
/// `struct timeval`.
pub(crate) const TIMESTAMP_US: Option<CmsgType> = None;
/// `struct scm_timestamping`.
pub(crate) const TIMESTAMPING: Option<CmsgType> = None;
/// Segment size of a coalesced message, an `int`.
pub(crate) const GRO: Option<CmsgType> = None;
pub(crate) const DROPPED: Option<CmsgType> = None;
pub(crate) const ORIGINAL_DEST_V4: Option<CmsgType> = None;
pub(crate) const ORIGINAL_DEST_V6: Option<CmsgType> = None;
/// `struct sock_extended_err` and an address, on messages in the error queue.
pub(crate) const ERROR_V4: Option<CmsgType> = None;
pub(crate) const ERROR_V6: Option<CmsgType> = None;

/// `int`: a pidfd of the peer's process.
pub(crate) const PIDFD: Option<CmsgType> = None;

// Control messages of sent messages, where their numbers are not those of received ones.

pub(crate) const SEND_TOS: Option<CmsgType> = None;
pub(crate) const SEND_TTL: Option<CmsgType> = None;
/// `struct in_addr`: source of an IPv4 datagram.
pub(crate) const SEND_SRCADDR_V4: Option<CmsgType> = None;
/// Segment size of a GSO batch. As a socket option it shows whether the kernel has GSO.
pub(crate) const SEGMENT: Option<CmsgType> = None;
pub(crate) const SEGMENT_NAME: &str = "UDP_SEGMENT";
/// Bytes of the segment size.
pub(crate) const SEGMENT_LEN: usize = 2;
/// The maximum number of segments that every version of the system with `SEGMENT` takes. Here it is Linux' up to 6.8
/// (`UDP_MAX_SEGMENTS` in include/linux/udp.h); later ones take 128, but a program cannot ask.
pub(crate) const MAX_SEGMENTS: usize = 64;
/// The same of any version: a message with an explicit segment size may have as many segments.
pub(crate) const MAX_EXPLICIT_SEGMENTS: usize = 128;
/// Whether a segment size of 0 overrides the socket's own.
pub(crate) const SEGMENT_MAY_BE_ZERO: bool = false;
pub(crate) const IGNORES_OTHER_FAMILY: bool = false;
/// The option that holds messages back to join them.
pub(crate) const CORK: Option<OptionName> = None;
/// The number for a datagram's timestamp.
pub(crate) const STAMP_NUMBER: Option<CmsgType> = None;
pub(crate) const TXTIME: Option<CmsgType> = None;
/// Whether `PKTINFO_V4` is an address and an interface, instead of Linux's three fields.
pub(crate) const SEND_PKTINFO_V4_IS_SHORT: bool = false;
/// Whether `SEND_TOS` is one byte instead of an `int`.
pub(crate) const SEND_TOS_IS_A_BYTE: bool = false;

// Socket options that ask for control messages, where their numbers are not those of the messages.

pub(crate) const RECV_PKTINFO_V4: Option<OptionName> = None;
pub(crate) const RECV_DSTADDR_V4: Option<OptionName> = None;
pub(crate) const RECV_PKTINFO_V6: Option<OptionName> = None;
pub(crate) const RECV_TOS: Option<OptionName> = None;
pub(crate) const RECV_TCLASS: Option<OptionName> = None;
/// Replace `RECV_TOS` and `RECV_TCLASS` on versions of the system that lack these.
pub(crate) const RECV_ECN_V4: Option<OptionName> = None;
pub(crate) const RECV_ECN_V6: Option<OptionName> = None;
pub(crate) const RECV_TTL: Option<OptionName> = None;
pub(crate) const RECV_HOP_LIMIT: Option<OptionName> = None;
pub(crate) const RECV_TIMESTAMP: Option<OptionName> = None;
/// The option that chooses unit and clock of `RECV_TIMESTAMP`.
pub(crate) const TIMESTAMP_CLOCK: Option<OptionName> = None;
/// The value of `TIMESTAMP_CLOCK` for the time of day in nanoseconds.
pub(crate) const NANOSECONDS: i32 = 1;
/// Bits of `TIMESTAMPING` for the device's timestamps of received messages.
pub(crate) const HARDWARE_STAMPS: i32 = 0;
/// Bits of `TIMESTAMPING` for timestamps of sent messages, in the error queue.
pub(crate) const SEND_STAMPS: i32 = 0;

/// Bits of `TIMESTAMPING` that make the kernel timestamp each sent message. Without the option they are never read.
pub(crate) const ANY_SEND_STAMP: i32 = 1;

// Other options.

pub(crate) const V4_RULES: V4Rules = V4Rules { source: SourceRule::Allowed, reported_by_v6: None };

/// The socket's filter.
pub(crate) const FILTER: Option<OptionName> = None;
/// The used and maximum memory of a socket's buffers.
pub(crate) const MEMINFO: Option<OptionName> = None;

/// Whether datagrams may be fragmented.
pub(crate) const FRAGMENTATION_V4: Option<OptionName> = None;
pub(crate) const FRAGMENTATION_V6: Option<OptionName> = None;
/// Their values: everybody may fragment; only this host may; nobody may; nobody may, and the path MTU is ignored.
pub(crate) const FRAGMENTATION: [i32; 4] = [0, 0, 1, 1];
/// The path MTU to a connected socket's peer.
pub(crate) const MTU_V4: Option<OptionName> = None;
pub(crate) const MTU_V6: Option<OptionName> = None;

/// Set the size of a buffer beyond the system's limit.
pub(crate) const RECV_BUFFER_FORCED: Option<OptionName> = None;
pub(crate) const SEND_BUFFER_FORCED: Option<OptionName> = None;
/// The system reports the size of a buffer multiplied by this.
pub(crate) const BUFFER_FACTOR: usize = 1;
/// Bytes per second, an `unsigned long`.
pub(crate) const MAX_PACING_RATE: Option<OptionName> = None;

/// The errors that the kernel returns for ICMP messages.
pub(crate) const ICMP_ERRORS: &[i32] = &[];

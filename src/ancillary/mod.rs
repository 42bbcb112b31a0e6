//! Ancillary data: what travels beside a datagram, as control messages.
//!
//! [`Ancillary`] asks a socket for it, [`RecvMeta`] holds what the crate understands of a received
//! message, and [`SendMeta`] what a message to be sent asks for. [`ControlMessages`] walks over all
//! control messages as they came, and [`ControlBuf`] is the room they are written into, by the
//! kernel on receive and by [`ControlBuf::push`] and [`ControlBuf::push_fds`] for a send.

mod control_buf;
mod decode;
mod ecn;
mod encode;
mod layout;
mod options;
mod recv_meta;
mod send_meta;
#[cfg(test)]
mod tests;
mod told;

pub use control_buf::ControlBuf;
pub(crate) use control_buf::{ControlRoom, has_fds};
pub use decode::{ControlMessage, ControlMessages};
pub use ecn::Ecn;
pub use options::{Ancillary, TransmitClock};
pub use recv_meta::RecvMeta;
pub use send_meta::SendMeta;

#[cfg_attr(one_by_one, allow(unused_imports))] // No control messages there.
pub(crate) use decode::split_first;
#[cfg(test)]
pub(crate) use encode::append;
pub(crate) use layout::Layout;
pub(crate) use options::{look_for_send_times, reports_send_times};
pub(crate) use recv_meta::{system_time, timestamping};
pub(crate) use send_meta::Refused;
pub(crate) use told::Told;

/// Payload lengths of the control messages that a datagram socket of this platform can be asked
/// to send with one datagram; the room for all of them at once is [`CONTROL_SPACE`].
const PAYLOADS: [usize; 16] = [
    12, // IP_PKTINFO: struct in_pktinfo
    20, // IPV6_PKTINFO: struct in6_pktinfo
    4,  // IP_TOS, one byte on Linux, an int elsewhere
    4,  // IPV6_TCLASS
    4,  // IP_TTL
    4,  // IPV6_HOPLIMIT
    16, // SO_TIMESTAMPNS: struct timespec with 64-bit fields
    48, // SO_TIMESTAMPING: three of them
    4,  // UDP_GRO
    4,  // SO_RXQ_OVFL
    16, // IP_RECVORIGDSTADDR: struct sockaddr_in
    28, // IPV6_RECVORIGDSTADDR: struct sockaddr_in6
    32, // IPV6_PATHMTU: struct ip6_mtuinfo
    4,  // SO_MARK
    44, // IP_RECVERR, IPV6_RECVERR: struct sock_extended_err and a sockaddr_in6
    12, // SCM_CREDENTIALS on a Unix socket: struct ucred
];

/// Bytes of control data that every message has room for on receive: the sum of what can be asked
/// for, computed at compile time.
pub const CONTROL_SPACE: usize = {
    let (mut sum, mut i) = (0, 0);
    while i < PAYLOADS.len() {
        sum += Layout::NATIVE.space(PAYLOADS[i]);
        i += 1;
    }
    sum.next_multiple_of(8)
};

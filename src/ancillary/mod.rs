//! Ancillary data: what travels beside a datagram, as control messages.
//!
//! [`RecvMeta`] holds what the crate understands of a received message, [`ControlMessages`] walks
//! over all of them as they came, and [`ControlBuf`] is the room they are written into, by the
//! kernel on receive and by [`ControlBuf::push`] for a send.

mod control_buf;
mod decode;
mod encode;
mod layout;
#[cfg(test)]
mod tests;

pub use control_buf::ControlBuf;
pub use decode::{ControlMessage, ControlMessages};

pub(crate) use layout::Layout;

use crate::sys::{SOL_UDP, UDP_GRO};

/// What the kernel told about a received message, beyond its bytes and its source.
///
/// A value that the kernel did not send is `None`, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecvMeta {
    /// Length in bytes of each datagram of a received train but its last, which may be shorter
    /// (`UDP_GRO`, Linux 5.0). `None`: the message is one datagram.
    pub segment_size: Option<u16>,
}

impl RecvMeta {
    /// Nothing told.
    pub(crate) const NONE: Self = Self { segment_size: None };

    /// Reads what is known out of the control messages that came with a message.
    pub(crate) fn from_control(control: &[u8]) -> Self {
        let mut meta = Self::NONE;
        for message in ControlMessages::new(control) {
            if (message.level, message.kind) == (SOL_UDP, UDP_GRO) {
                // A C int (udp_cmsg_recv in the kernel's include/linux/udp.h). Nothing longer
                // than a datagram and no zero is a length to split by.
                meta.segment_size = message
                    .int()
                    .and_then(|size| u16::try_from(size).ok())
                    .filter(|size| *size > 0);
            }
        }
        meta
    }
}

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

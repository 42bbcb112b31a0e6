//! Why a message cannot be sent as its options ask.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;

use crate::sys::CONTROL_SPACE;

/// Why a message cannot be encoded: which of its options, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unencodable {
    /// The time to live of an IPv4 datagram is 0.
    NoHops,
    /// The source address is not of the destination's family.
    SourceFamily { source: IpAddr, v4: bool },
    /// Options and control messages together are longer than the space for them.
    TooLong { needed: usize },
    /// The destination is no address of a Unix socket.
    UnixDest,
    /// There is no memory for the destination.
    Memory,
    /// This platform does not have the option, for destinations of this family.
    Unsupported { option: &'static str, v4: bool },
}

impl fmt::Display for Unencodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = |v4| if v4 { "IPv4" } else { "IPv6" };
        match *self {
            Self::NoHops => f.write_str("SendMeta::hop_limit is 0: IPv4 has 1 to 255"),
            Self::SourceFamily { source, v4 } => {
                write!(f, "SendMeta::source is {source}: the destination is {}", family(v4))
            }
            Self::TooLong { needed } => {
                write!(f, "options and control messages take {needed} bytes of {CONTROL_SPACE}")
            }
            Self::UnixDest => {
                f.write_str("SendMsg::unix_dest is no address of a Unix socket on this platform")
            }
            Self::Memory => f.write_str("out of memory"),
            Self::Unsupported { option, v4 } => {
                write!(f, "this platform does not have SendMeta::{option} for {}", family(v4))
            }
        }
    }
}

impl Error for Unencodable {}

impl Unencodable {
    /// The error of a call whose first `sent` messages were sent. Only the error of the first message is
    /// returned to the caller and allocates its text.
    pub(crate) fn after(self, sent: usize) -> io::Error {
        let kind = match self {
            Self::Unsupported { .. } => io::ErrorKind::Unsupported,
            Self::Memory => return io::ErrorKind::OutOfMemory.into(),
            _ => io::ErrorKind::InvalidInput,
        };
        if sent == 0 { io::Error::new(kind, self) } else { kind.into() }
    }
}

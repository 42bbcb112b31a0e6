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
    /// Two sources of options set the same one.
    Twice { option: &'static str },
    /// A raw control message sets what an option sets.
    TwiceByControl { level: i32, ty: i32 },
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
            Self::Twice { option } => {
                write!(f, "SendMeta::{option} is set twice for one message")
            }
            Self::TwiceByControl { level, ty } => {
                write!(f, "a SendMeta and a ControlBuf both set level {level}, type {ty}")
            }
            Self::Unsupported { option, v4 } => {
                write!(f, "this platform does not have SendMeta::{option} for {}", family(v4))
            }
        }
    }
}

impl Error for Unencodable {}

impl From<Unencodable> for io::Error {
    #[cold]
    fn from(error: Unencodable) -> Self {
        let kind = match error {
            Unencodable::Unsupported { .. } => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

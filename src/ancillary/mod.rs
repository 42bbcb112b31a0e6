//! Ancillary data: control messages that travel with a datagram.
//!
//! [`Ancillary`] enables it on a socket, [`RecvMeta`] holds the decoded metadata of a received message,
//! and [`SendMeta`] the settings of a message to be sent. [`ControlBuf`] is a buffer for raw
//! control messages, in both directions.

mod control_buf;
mod ecn;
mod recv_meta;
mod send_meta;
mod set;
mod socket_options;
#[cfg(test)]
mod tests;
mod transmit_clock;

pub use control_buf::ControlBuf;
pub use ecn::Ecn;
pub use recv_meta::RecvMeta;
pub use send_meta::SendMeta;
pub use set::Ancillary;
pub use transmit_clock::TransmitClock;

use std::io;

// The codecs reach it through this module, so that tests put other systems in its place.
use crate::sys;

/// The error of a message whose settings or control messages are invalid.
#[cold]
pub(crate) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.into())
}

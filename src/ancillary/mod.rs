//! Ancillary data: control messages that travel with a datagram.
//!
//! [`Ancillary`] enables it on a socket, [`RecvMeta`] holds the decoded metadata of a received message,
//! and [`SendMeta`] the options of a message to be sent. [`ControlMessages`] iterates over raw control
//! messages, and [`ControlBuf`] is a buffer for them, in both directions.

mod cmsg;
mod control_buf;
mod ecn;
mod options;
mod recv_meta;
mod send_meta;
#[cfg(test)]
mod tests;

pub use cmsg::{ControlMessage, ControlMessages};
pub use control_buf::ControlBuf;
pub(crate) use control_buf::{ControlSpace, has_fds};
pub use ecn::Ecn;
pub use options::{Ancillary, TransmitClock};
pub use recv_meta::RecvMeta;
pub use send_meta::SendMeta;

// For received descriptors.
#[cfg(all(test, unix_sockets))]
pub(crate) use cmsg::append;
#[cfg(unix_sockets)]
pub(crate) use cmsg::split_first;
pub(crate) use options::{look_for_send_times, reports_send_times};
pub(crate) use recv_meta::{system_time, timestamping};
pub(crate) use send_meta::Unencodable;

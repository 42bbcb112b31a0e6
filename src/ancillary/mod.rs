//! Ancillary data: what travels beside a datagram, as control messages.
//!
//! [`Ancillary`] asks a socket for it, [`RecvMeta`] holds what the crate understands of a received
//! message, and [`SendMeta`] what a message to be sent asks for. [`ControlMessages`] walks over all
//! control messages as they came, and [`ControlBuf`] is the room they are written into, by the
//! kernel on receive and by [`ControlBuf::push`] and [`ControlBuf::push_fds`] for a send.

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

#[cfg(test)]
pub(crate) use cmsg::append;
#[cfg_attr(single_message, allow(unused_imports))] // No control messages there.
pub(crate) use cmsg::split_first;
pub(crate) use options::{look_for_send_times, reports_send_times};
pub(crate) use recv_meta::{system_time, timestamping};
pub(crate) use send_meta::Unencodable;

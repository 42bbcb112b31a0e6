//! Socket options that std and socket2 lack, for every socket that this crate works with.
//!
//! - [`Fragmentation`], [`path_mtu`]: what happens to datagrams longer than an MTU on their path
//! - [`set_recv_buffer`], [`set_send_buffer`], [`Drops`]: buffers as large as the system accepts, and drop counts
//! - [`set_max_pacing_rate`]: the pace at which datagrams leave
//! - [`set_busy_poll`], [`set_prefer_busy_poll`], [`set_busy_poll_budget`]: busy polling
//! - [`set_local_port_range`], [`set_bind_without_port`]: which port the system chooses, and when
//!
//! The [guide](crate::guide::real_networks) says which to set. [`Ancillary`](crate::Ancillary) enables metadata.

mod buffers;
mod busy_poll;
mod drops;
mod fragmentation;
mod pacing;
mod ports;

pub use buffers::{set_recv_buffer, set_send_buffer};
pub use busy_poll::{set_busy_poll, set_busy_poll_budget, set_prefer_busy_poll};
pub use drops::Drops;
pub use fragmentation::{Fragmentation, path_mtu};
pub use pacing::set_max_pacing_rate;
pub use ports::{set_bind_without_port, set_local_port_range};

//! Socket options that std and socket2 lack, for every socket that this crate works with.
//!
//! - [`Fragmentation`], [`path_mtu`]: what happens to datagrams longer than an MTU on their path
//! - [`set_recv_buffer`], [`set_send_buffer`]: buffers as large as the system accepts
//! - [`dropped`]: how many datagrams the kernel has dropped
//! - [`set_max_pacing_rate`]: the pace at which datagrams leave
//!
//! The [guide](crate::guide::real_networks) says which to set. [`Ancillary`](crate::Ancillary) enables metadata.

mod buffers;
mod drops;
mod fragmentation;
mod pacing;

pub use buffers::{set_recv_buffer, set_send_buffer};
pub use drops::dropped;
pub use fragmentation::{Fragmentation, path_mtu};
pub use pacing::set_max_pacing_rate;

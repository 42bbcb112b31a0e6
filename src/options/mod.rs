//! Socket options that std and socket2 lack, typed.

mod buffers;
mod drops;
mod fragmentation;
mod pacing;
mod ports;

pub use buffers::{set_recv_buffer, set_send_buffer};
pub use drops::Drops;
pub use fragmentation::{Fragmentation, path_mtu};
pub use pacing::set_max_pacing_rate;
pub use ports::{set_bind_without_port, set_local_port_range};

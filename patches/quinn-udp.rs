//! quinn-udp's API on mmsg's sockets.

pub use mmsg_quinn_udp::*;

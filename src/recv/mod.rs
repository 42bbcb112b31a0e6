//! Receiving: buffers for messages, and the datagrams in them.

pub(crate) mod batch;
pub(crate) mod datagram;
pub(crate) mod in_place;
pub(crate) mod msg;
pub(crate) mod scattered;

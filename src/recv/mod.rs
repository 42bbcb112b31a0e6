//! Receiving: memory for messages, and the datagrams in them.

pub(crate) mod batch;
pub(crate) mod datagram;
pub(crate) mod message;
pub(crate) mod msg;

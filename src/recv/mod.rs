//! Receiving: memory for messages, and the datagrams in them.

pub(crate) mod batch;
pub(crate) mod datagram;
pub(crate) mod envelope;
pub(crate) mod iter;
pub(crate) mod msg;
pub(crate) mod received;
pub(crate) mod scattered;
pub(crate) mod split;

//! Receiving: buffers for messages, and the datagrams in them.

pub(crate) mod batch;
pub(crate) mod datagram;
pub(crate) mod envelope;
pub(crate) mod in_place;
pub(crate) mod message;
pub(crate) mod msg;
pub(crate) mod received;
pub(crate) mod scattered;
mod space;
pub(crate) mod split;

//! Sending: messages, the GSO batches that they form, and a queue of waiting datagrams.

pub(crate) mod chunk;
pub(crate) mod coalesce;
pub(crate) mod msg;
pub(crate) mod prepare;
pub(crate) mod queue;

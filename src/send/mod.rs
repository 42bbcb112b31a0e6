//! Sending: messages, the GSO batches that they form, and a queue of waiting datagrams.

pub(crate) mod coalesce;
pub(crate) mod msg;
pub(crate) mod queue;
pub(crate) mod row;
pub(crate) mod wire;

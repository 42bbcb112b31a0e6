//! Sending: messages, the batches that they form, and a queue for those that wait.

pub(crate) mod coalesce;
pub(crate) mod msg;
pub(crate) mod queue;
pub(crate) mod row;
pub(crate) mod wire;

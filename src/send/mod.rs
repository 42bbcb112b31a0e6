//! Sending: one message, a queue of them, the trait through which a send reads either, and what turns
//! them into headers.

pub(crate) mod coalesce;
pub(crate) mod content;
mod joined;
pub(crate) mod msg;
pub(crate) mod outgoing;
pub(crate) mod queue;
pub(crate) mod single;
pub(crate) mod wire;

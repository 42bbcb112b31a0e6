//! Sending: one message, a queue of them, and the trait through which a send reads either.

pub(crate) mod msg;
pub(crate) mod outgoing;
pub(crate) mod queue;

//! The loop over system calls that moves one batch, and the memory it uses.

pub(crate) mod arena;
pub(crate) mod batch;
pub(crate) mod deferred_error;
pub(crate) mod pool;
pub(crate) mod progress;
pub(crate) mod single;

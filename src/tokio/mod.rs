//! The batch calls as futures, for tokio's sockets.

mod implementations;
mod readiness;
mod socket;
#[cfg(all(test, mmsg_calls))]
mod tests;
mod wait;

pub use readiness::TokioSocket;
pub use socket::AsyncBatchSocket;

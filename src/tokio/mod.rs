//! Batches as futures, on the sockets of tokio.

mod implementations;
mod readiness;
mod socket;
#[cfg(all(test, mmsg_calls))]
mod tests;
mod wait;

pub use readiness::TokioSocket;
pub use socket::AsyncBatchSocket;

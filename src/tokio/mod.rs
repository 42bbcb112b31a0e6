//! Batches as futures, on the sockets of tokio.

mod readiness;
mod socket;
mod sockets;
#[cfg(all(test, mmsg_calls))]
mod tests;
mod wait;

pub use readiness::TokioSocket;
pub use socket::AsyncBatchSocket;

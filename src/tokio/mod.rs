//! Batches as futures, on the sockets of tokio.

mod readiness;
#[cfg(linux_like)]
mod second;
#[cfg(not(linux_like))]
#[path = "no_second.rs"]
mod second;
mod send;
mod socket;
mod sockets;
mod taken;
#[cfg(all(test, mmsg_calls))]
mod tests;
mod wait;

pub use readiness::TokioSocket;
pub use socket::AsyncBatchSocket;
pub use taken::AsSendMsg;

//! The batch calls as futures, for tokio's sockets.

mod budget;
mod implementations;
mod readiness;
mod send;
mod socket;
#[cfg(all(test, mmsg_calls))]
mod tests;
mod wait;
mod waiter;

pub use readiness::TokioSocket;
pub use socket::AsyncBatchSocket;
pub use waiter::SendWaiter;

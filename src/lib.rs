//! UDP datagrams in batches: one safe call, many datagrams, no allocation.
#![deny(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]

mod ancillary;
mod arena;
mod flags;
mod message;
mod parts;
mod pending;
mod pool;
mod progress;
mod recv_batch;
mod recv_msg;
mod send_msg;
mod send_queue;
mod socket;
mod sys;

pub use ancillary::{CONTROL_SPACE, ControlBuf, ControlMessage, ControlMessages, RecvMeta};
pub use arena::MmsgBuf;
pub use flags::RecvFlags;
pub use message::{Datagram, Datagrams, Message};
pub use parts::Slices;
pub use pool::clear_pool;
pub use recv_batch::{Iter, Messages, RecvBatch};
pub use recv_msg::RecvMsg;
pub use send_msg::SendMsg;
pub use send_queue::{QueueFull, SendQueue};
pub use socket::BatchSocket;
pub use sys::Backend;

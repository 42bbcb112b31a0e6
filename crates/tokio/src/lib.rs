//! tokio's [`UdpSocket`](tokio::net::UdpSocket) with batches underneath: one changed import.
//!
//! ```
//! use mmsg_tokio::UdpSocket; // Before: use tokio::net::UdpSocket;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let socket = UdpSocket::bind("127.0.0.1:0").await?; // On a multi_thread runtime in a task: tokio::spawn.
//! # let client = UdpSocket::bind("127.0.0.1:0").await?;
//! # client.send_to(b"hello", socket.local_addr()?).await?;
//! let mut buf = [0; 1500];
//! loop {
//!     let (len, peer) = socket.recv_from(&mut buf).await?;
//!     if let Err(error) = socket.send_to(&buf[..len], peer).await {
//!         eprintln!("to {peer}: {error}"); // A forged source may be one that nobody can send to.
//!     }
//! #   break;
//! }
//! # assert_eq!(client.recv(&mut buf).await?, 5);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! A socket begins quiet: its calls are those of tokio's socket. After eight receives in a row that found a datagram at once, it
//! receives once as a batch, to see how many more there are. More than four before the kernel has none are a burst: it turns GRO
//! on and receives batches of up to 32 messages from then on, whose datagrams its calls hand out one by one. After more than four
//! datagrams without a pause, sends are queued, and a task of the runtime, the flusher, sends what was queued in its turn, as GSO
//! batches by destination. After a turn, or a flush, of four or fewer, sends leave at once again.
//!
//! - On a `current_thread` runtime all its tasks queue their datagrams; other threads send at once. Outside of tasks, in
//!   `block_on`, datagrams are queued while some of the batch are left, and the next send takes them with it.
//! - On a `multi_thread` runtime the task that received the last batch queues its datagrams. Other tasks, and `block_on`, send at once,
//!   or behind what is queued: run the loop that receives and answers in a task (`tokio::spawn`).
//!
//! The datagrams to one destination leave in the order of their sends. Receives cost a unit of tokio's budget for each datagram.
//! Queued datagrams cost none: a task that only sends yields when the queue is full, after 256 KiB. A flush costs one.
//!
//! # What differs from tokio's socket
//!
//! - A queued datagram leaves when its task waits or yields, not before: after a long computation, for one.
//! - The errors of a queued datagram come later: from the next send to its destination, whose own datagram is then not sent, or
//!   from [`take_error`](UdpSocket::take_error). The last error of each of 64 destinations is kept, and
//!   [`failed`](UdpSocket::failed) counts the datagrams. A payload over 32,000 bytes is never queued.
//!   [`set_queue_bytes(0)`](UdpSocket::set_queue_bytes) turns the queue off.
//! - Nothing of a `current_thread` runtime runs after its `block_on`: before it ends, [`flush`](UdpSocket::flush), also for what
//!   another runtime of the thread will send. Dropping the socket sends what the kernel takes without waiting.
//! - What is left of a batch is lost with the socket, even if the descriptor has been duplicated: receive it before by
//!   `try_recv_from`, until `WouldBlock`. [`into_std`](UdpSocket::into_std) fails while some are left. While the socket lives, a
//!   duplicate of its descriptor may receive coalesced messages.
//! - On Windows, a short buffer truncates a datagram of a batch, without the error of tokio's receives.
//! - `try_io`, `async_io` and `Borrow` of tokio's socket are missing: the kernel may have no datagram while the socket is readable.
//! - A socket that has met a burst keeps 0.1 to 2 MB for batches.
//! - With [`Ancillary::ERRORS`](mmsg::Ancillary::ERRORS) receives return ICMP errors, and
//!   `ready(Interest::ERROR)` is ready until one does. To wait for reports alone, use
//!   [`recv_errors`](mmsg::AsyncBatchSocket::recv_errors) on a tokio socket that has a duplicate of the descriptor.
//! - The runtime needs time enabled (`enable_all`): after an error, a sender sleeps until a full socket has space, which
//!   panics without.
//! - The environment's `MMSG_OFFLOAD=0` keeps each socket of the process quiet, [`stay_quiet`](UdpSocket::stay_quiet) one.
//!
//! Do not take it for a client with a socket for each query, which gains nothing; for a protocol that measures round trips to
//! pace itself, as KCP does; for probing the path's MTU, which needs the error of each datagram.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod received;
mod sends;
mod shared;
mod socket;
mod sys;

pub use socket::UdpSocket;

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

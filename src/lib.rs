//! UDP datagrams in batches: one safe call, many datagrams, no allocation.
//!
//! [`BatchSocket`] adds batch calls to every datagram socket there is: those of std, socket2, mio
//! and tokio, and Unix datagram sockets. Underneath are `recvmmsg` and `sendmmsg` where the system
//! has them, and `recvmsg` and `sendmsg` where it has not.
//!
//! ```no_run
//! use mmsg::{Ancillary, BatchSocket, BatchSocketExt, RecvBatch};
//! use std::{io, net::UdpSocket};
//!
//! fn echo(socket: &UdpSocket) -> io::Result<()> {
//!     Ancillary::DEST.require(socket)?; // Replies leave from the address that was asked.
//!     let mut batch = RecvBatch::new(64, 1500);
//!     loop {
//!         if let Err(error) = socket.recv_into(&mut batch) {
//!             eprintln!("receive: {error}"); // The batch is empty, the socket as good as before.
//!         }
//!         let whole = batch.iter().filter(|d| !d.truncated());
//!         let replies = whole.filter_map(|d| d.reply(d.data()));
//!         socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
//!     }
//! }
//!
//! fn main() -> io::Result<()> {
//!     echo(&UdpSocket::bind("[::]:7")?)
//! }
//! ```
//!
//! No error ends this server: [`send_each`](BatchSocketExt::send_each) continues past a reply that fails,
//! [`reply`](Datagram::reply) is `None` if nobody can be answered, and the loop repeats a receive that
//! fails. The [`guide`] lists [the errors](guide::errors).
//!
//! # Which type for what
//!
//! | to | take |
//! |---|---|
//! | receive in a server's loop | [`RecvBatch`] and [`recv_into`](BatchSocket::recv_into): memory and headers are in place |
//! | receive into memory of your own | [`RecvMsg`]s and [`recv_batch`](BatchSocket::recv_batch) |
//! | answer what was received | [`Datagram::reply`] and [`send_each`](BatchSocketExt::send_each) |
//! | send what is at hand | [`SendMsg`]s and [`send_batch`](BatchSocket::send_batch), or an iterator of them and [`send_iter`](BatchSocketExt::send_iter) |
//! | send all that can be sent, whatever fails | [`send_each`](BatchSocketExt::send_each) |
//! | send what may have to wait | [`SendQueue`] and [`flush`](BatchSocket::flush) |
//! | send with GSO and receive with GRO | [`Offload`] around the socket |
//! | read per-datagram metadata: ECN, destination, timestamps | [`Ancillary`], [`RecvMeta`], [`SendMeta`] |
//! | learn of ICMP errors and times of sending | [`drain_errors`](error_queue::drain_errors) |
//! | wait in a task instead of a thread | `AsyncBatchSocket`, with the feature `tokio` |
//! | manage the memory of headers yourself | [`MmsgBuf`] |
//!
//! The [`guide`] has more on the choice, on sizes, cores, back-pressure, errors and real networks.
//!
//! # Memory
//!
//! Payload memory belongs to the caller, a `RecvBatch` or a `SendQueue`. Headers are in arenas of the
//! thread, which grow only when a batch is larger than any before it; otherwise no call allocates.
//! [`clear_pool`] frees the arenas.
//!
//! # Waiting
//!
//! A call on a non-blocking socket returns `WouldBlock` instead of waiting. In an event loop, mio's for
//! example, keep calling until `WouldBlock`: readiness is edge-triggered.
//!
//! ```
//! use mmsg::{BatchSocket, RecvBatch};
//! # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
//! # client.send_to(b"hello", socket.local_addr()?)?;
//! let (mut poll, mut events) = (mio::Poll::new()?, mio::Events::with_capacity(64));
//! poll.registry().register(&mut socket, mio::Token(0), mio::Interest::READABLE)?;
//! let mut batch = RecvBatch::new(64, 1500);
//!
//! poll.poll(&mut events, None)?;
//! loop {
//!     match socket.recv_into(&mut batch) {
//!         Ok(_) => batch.iter().for_each(|datagram| println!("{} bytes", datagram.len())),
//!         Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! tokio's sockets have futures for all of this, with the feature `tokio`: see `AsyncBatchSocket`.
//!
//! # Errors
//!
//! Every error of the system reaches the caller as an [`io::Error`](std::io::Error) with its error
//! number, and is about the first message of the call that returns it (see [`BatchSocket`]). Nothing
//! that a peer sends makes a call panic.

#![deny(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]

mod ancillary;
mod engine;
pub mod error_queue;
pub mod errors;
pub mod guide;
mod offload;
mod options;
mod recv;
mod send;
mod socket;
mod socket_ext;
mod sys;
#[cfg(all(test, any(mmsg_calls, not(unix_sockets))))]
mod tests;
#[cfg(feature = "tokio")]
mod tokio;

#[cfg(feature = "tokio")]
pub use self::tokio::AsyncBatchSocket;
pub use ancillary::{
    Ancillary, ControlBuf, ControlMessage, ControlMessages, Ecn, RecvMeta, SendMeta, TransmitClock,
};
pub use engine::arena::MmsgBuf;
pub use engine::pool::clear_pool;
pub use offload::{Counters, GsoStatus, Offload, OffloadBuilder};
pub use options::{
    Drops, Fragmentation, path_mtu, set_bind_without_port, set_local_port_range,
    set_max_pacing_rate, set_recv_buffer, set_send_buffer,
};
pub use recv::batch::{Iter, IterMut, Messages, MessagesMut, RecvBatch};
pub use recv::datagram::{Datagram, Datagrams, Message};
pub use recv::in_place::{DatagramMut, DatagramsMut, MessageMut};
pub use recv::msg::RecvMsg;
pub use recv::scattered::Slices;
pub use send::msg::SendMsg;
pub use send::queue::SendQueue;
pub use socket::BatchSocket;
pub use socket_ext::BatchSocketExt;
pub use sys::{Backend, CONTROL_SPACE, RecvFlags, SendFlags, UnixAddr, UnixAddrBuf};

/// The README's code, compiled; some of it is for the feature.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;

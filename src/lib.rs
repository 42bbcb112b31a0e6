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
//!     Ancillary::DEST.enable(socket)?; // Replies leave from the address that was asked.
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
//! No error ends this server: [`send_each`](BatchSocketExt::send_each) goes on past a reply that fails,
//! [`reply`](Datagram::reply) is `None` where there is nobody to answer, and a receive that fails is made
//! again. The [`guide`] says [which errors there are](guide::errors).
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
//! | let the kernel carry many datagrams at once | [`Offload`] around the socket |
//! | ask for ECN, destinations, timestamps ... | [`Ancillary`], [`RecvMeta`], [`SendMeta`] |
//! | learn of ICMP errors and times of sending | [`drain_errors`] |
//! | wait in a task instead of a thread | `AsyncBatchSocket`, with the feature `tokio` |
//! | keep the headers' memory yourself | [`MmsgBuf`] |
//!
//! The [`guide`] has more on the choice, on sizes, cores, back-pressure and errors.
//!
//! # Memory
//!
//! Payload is the caller's, a `RecvBatch`'s or a `SendQueue`'s. Headers are in arenas that the
//! thread keeps and that grow only when a batch is larger than any before it: after that, no call
//! allocates. [`clear_pool`] frees them.
//!
//! # Waiting
//!
//! A call on a non-blocking socket says `WouldBlock` where it would wait. With an event loop of one's
//! own, mio's for example, one goes on until it does: an event comes when something is new.
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
//! Every error of the system reaches the caller as an [`io::Error`](std::io::Error) with its
//! number, and is about the first message of the call that returns it (see [`BatchSocket`]). What
//! a peer sends cannot make a call panic.

#![deny(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]

mod ancillary;
mod engine;
mod error_queue;
#[cfg(all(test, mmsg_calls))]
mod fault_tests;
pub mod guide;
mod offload;
mod recv;
mod send;
mod socket;
mod socket_ext;
mod sys;
#[cfg(feature = "tokio")]
mod tokio;

#[cfg(feature = "tokio")]
pub use self::tokio::AsyncBatchSocket;
pub use ancillary::{
    Ancillary, ControlBuf, ControlMessage, ControlMessages, Ecn, RecvMeta, SendMeta, TransmitClock,
};
pub use engine::arena::MmsgBuf;
pub use engine::pool::clear_pool;
pub use error_queue::{Event, Report, drain_errors};
pub use offload::{Counters, Offload, OffloadBuilder};
pub use recv::batch::{Iter, Messages, RecvBatch};
pub use recv::datagram::{Datagram, Datagrams, Message};
pub use recv::flags::RecvFlags;
pub use recv::msg::RecvMsg;
pub use recv::scattered::Slices;
pub use send::msg::SendMsg;
pub use send::queue::{PushError, SendQueue};
pub use socket::BatchSocket;
pub use socket_ext::BatchSocketExt;
pub use sys::{Backend, CONTROL_SPACE};

/// The README's code, compiled; some of it is for the feature.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;

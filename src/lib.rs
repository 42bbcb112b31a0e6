//! UDP datagrams in batches: one safe call, many datagrams, no allocation.
//!
//! [`BatchSocket`] adds batch calls to datagram sockets: those of std, socket2 and mio, Unix datagram sockets,
//! and any other by its descriptor. `AsyncBatchSocket` adds them to tokio's sockets, as futures. The calls use
//! `recvmmsg` and `sendmmsg` where the system has them, and `recvmsg` and `sendmsg` elsewhere.
//!
//! ```no_run
//! use mmsg::{Ancillary, RecvBatch, prelude::*};
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
//! [`reply`](Datagram::reply) is `None` for a source that takes no replies, and the loop repeats a receive that
//! fails. The [`guide`] lists [the errors](guide::errors).
//!
//! # Which type for what
//!
//! | to | take |
//! |---|---|
//! | receive in a server's loop | [`RecvBatch`] and [`recv_into`](BatchSocket::recv_into): memory and headers are in place |
//! | receive into memory of your own | [`RecvMsg`]s and [`recv_batch`](BatchSocket::recv_batch) |
//! | receive into buffers lent for each call, as QUIC stacks do | [`recv_slices`](BatchSocketExt::recv_slices) |
//! | change payload in place: decrypt, rewrite headers | [`RecvBatch::iter_mut`] |
//! | answer what was received | [`Datagram::reply`] and [`send_each`](BatchSocketExt::send_each) |
//! | send what is at hand | [`SendMsg`]s and [`send_batch`](BatchSocket::send_batch), or an iterator of them and [`send_iter`](BatchSocketExt::send_iter) |
//! | send all that can be sent, whatever fails | [`send_each`](BatchSocketExt::send_each) |
//! | send what may have to wait | [`SendQueue`] and [`flush`](BatchSocket::flush) or [`flush_each`](BatchSocketExt::flush_each) |
//! | send one payload to many destinations | [`SendQueue::push_to_all`] |
//! | send with GSO and receive with GRO | [`Offload`] around the socket; [`OffloadState`](offload::OffloadState) for a socket that is lent for each call |
//! | read per-datagram metadata: ECN, destination, timestamps | [`Ancillary`], [`RecvMeta`], [`SendMeta`] |
//! | learn of ICMP errors and times of sending | [`drain_errors`](error_queue::drain_errors) |
//! | set what std lacks: fragmentation, buffers, ports, pacing, busy polling | [`options`] |
//! | wait in a task instead of a thread | `AsyncBatchSocket`, with the feature `tokio` |
//! | speak QUIC by [quinn](https://docs.rs/quinn) | `quinn::TokioRuntime`, with the feature `quinn` |
//! | serve one port by several threads | [`ReusePortGroup`]: a socket for each |
//! | manage the memory of headers yourself | [`MmsgBuf`] |
//!
//! `examples/` has a program of each kind: a DNS forwarder, a game server, a tunnel, a selective forwarding unit and
//! more. The [`guide`] has more on the choice, on sizes, cores, back-pressure, errors and real networks.
//!
//! # Memory
//!
//! Payload memory belongs to the caller, a `RecvBatch` or a `SendQueue`. Headers are in arenas of the
//! thread, which grow only when a batch is larger than any before it; otherwise no call allocates.
//! [`clear_pool`] frees the arenas.
//!
//! # Waiting
//!
//! A call on a non-blocking socket returns `WouldBlock` instead of waiting. In an event loop whose readiness is
//! edge-triggered, mio's for example (feature `mio`), keep calling until `WouldBlock`. An [`Offload`] around one of
//! mio's sockets is registered like the socket itself.
//!
//! ```
//! # #[cfg(feature = "mio")] {
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
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! tokio's sockets have futures for all of this, with the feature `tokio`: see `AsyncBatchSocket`.
//! [`prelude`] has the traits to import.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | the calls as futures on tokio's sockets |
//! | `mio` | the calls on mio's sockets |
//! | `quinn` | a runtime for quinn's endpoints |
//! | `tracing` | events (below) |
//! | `apple-private-api` | many messages a system call on [macOS and iOS](#macos-and-ios) |
//!
//! No feature is on by default. If rustc reports "no method named `recv_into` found" for a socket of tokio or mio, its
//! feature is off, or the [`prelude`] is not imported.
//!
//! # Errors
//!
//! Every error of the system reaches the caller as an [`io::Error`](std::io::Error) with its error
//! number, and is about the first message of the call that returns it (see [`BatchSocket`]). Nothing
//! that a peer sends makes a call panic.
//!
//! # What happens inside
//!
//! [`Offload::counters`] says what was sent and received, by how many calls and in which batches. With the
//! feature `tracing`, events with the target `mmsg` report what makes a program slower and shows nowhere else:
//!
//! | event | level |
//! |---|---|
//! | GSO is off for a socket, and why (`status`) | warn |
//! | the kernel rejected a GSO batch, and GSO is off for a minute (`error`, `segment_size`, `off_for`) | warn |
//! | a batch was rejected for its segment size, and sent as its datagrams (`error`, `segment_size`) | debug |
//! | a buffer is smaller than asked for (`buffer`, `asked`, `in_force`) | warn |
//! | one message a call: the multi-message calls are not available (`error`) | warn |
//!
//! # macOS and iOS
//!
//! Each system call moves one message. With the feature `apple-private-api`, which is off by default, a
//! system call moves up to 64 messages on macOS 15.6, iOS 18.6 and later: a receive on a UDP socket
//! by `recvmsg_x`, and a send to the peer of a connected UDP socket by `sendmsg_x`. Messages with a destination,
//! with other options than the message before or with [`SendFlags`], and those of a socket without `SO_NOSIGPIPE`
//! (std, mio and socket2 set it) still go one by one, and so does everything on older systems, whose kernel may
//! stop the machine's loopback interface in these calls.
//!
//! Apple documents neither function, may change both, and rejects programs that use such functions from the App
//! Store. This crate's tests run them against a stand-in that was written from the kernel's source;
//! they have never run on macOS. The kernel has faults that break promises of this crate:
//!
//! - If a send fails after some messages of a system call, by another error than a full buffer, a message that is too
//!   long or a signal, the kernel does not return how many it sent. The error is returned as the first message's, so
//!   that a program which sends the others again sends some of them twice. A route that goes away is such an error.
//! - A send may count messages that were dropped: when the kernel had no memory for packets, when a signal came while
//!   another thread was sending on the socket, or when a content filter rejected one.
//! - A receive that fails because the kernel has no memory loses the messages that it took off the socket.
//!
//! Metadata of a system call's messages is dropped, and reported as truncated, if only some of them have any: the
//! kernel may then return that of another message. Turn `Ancillary` on before the socket is bound, so that every
//! message has it.
//!
//! [`Backend::Msg`] makes a call for each message; [`Backend::current`] says which calls are in use.

#![deny(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]

mod ancillary;
mod engine;
pub mod error_queue;
pub mod errors;
mod events;
pub mod group;
pub mod guide;
pub mod offload;
pub mod options;
#[cfg(feature = "quinn")]
pub mod quinn;
mod recv;
mod send;
mod socket;
mod sys;
#[cfg(all(any(test, fuzzing), any(mmsg_calls, not(has_descriptors))))]
mod tests;
#[cfg(feature = "tokio")]
mod tokio;

/// Entry points of the fuzz targets, built for these alone.
#[cfg(all(fuzzing, mmsg_calls))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::tests::fuzzing::{coalesce, fallback, model};
}

/// The traits with the calls, to import together: `use mmsg::prelude::*`.
///
/// ```
/// use mmsg::{RecvBatch, prelude::*};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(64, 1500);
/// socket.recv_into(&mut batch)?;
/// socket.send_each(batch.iter().filter_map(|d| d.reply(d.data())), |_, error| println!("{error}"))?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub mod prelude {
    pub use crate::socket::{BatchSocket, BatchSocketExt};
    #[cfg(feature = "tokio")]
    pub use crate::tokio::AsyncBatchSocket;
}

#[cfg(feature = "tokio")]
pub use self::tokio::{AsSendMsg, AsyncBatchSocket, TokioSocket};
pub use ancillary::{Ancillary, Ecn, RecvMeta, SendMeta, TransmitClock};
pub use engine::arena::MmsgBuf;
pub use engine::pool::clear_pool;
pub use group::{ReusePortGroup, Spread};
pub use offload::Offload;
pub use recv::batch::RecvBatch;
pub use recv::datagram::Datagram;
pub use recv::in_place::{DatagramMut, MessageMut};
pub use recv::message::Message;
pub use recv::msg::RecvMsg;
pub use send::msg::SendMsg;
pub use send::queue::SendQueue;
pub use socket::{BatchSocket, BatchSocketExt};
/// Lends a socket, under one name on all platforms: the standard library's
/// [`AsFd`](std::os::fd::AsFd) on Unix, and its `AsSocket` on Windows.
///
/// Socket options ([`Ancillary::enable`]), [`drain_errors`](error_queue::drain_errors), [`MmsgBuf`] and [`Offload`] take any type that
/// implements it: every socket of std, socket2, mio and tokio, `Offload` itself, and references, `Box`, `Rc`
/// and `Arc` of these.
///
/// ```
/// use mmsg::{Ancillary, AsSocket};
///
/// /// For sockets of std as well as for those of tokio.
/// fn prepare(socket: &impl AsSocket) -> std::io::Result<Ancillary> {
///     (Ancillary::DEST | Ancillary::TOS).enable(socket)
/// }
/// # let taken = prepare(&std::net::UdpSocket::bind("127.0.0.1:0")?)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub use sys::AsSocket;
pub use sys::{Backend, RecvFlags, SendFlags, UnixAddr, UnixAddrBuf};

/// Raw control messages, in both directions: for what [`RecvMeta`] and [`SendMeta`] do not have.
pub mod control {
    pub use crate::ancillary::ControlBuf;
    pub use crate::sys::{CONTROL_SPACE, ControlMessage, ControlMessages};
}

/// Iterators over received messages, their datagrams and their bytes.
pub mod iter {
    pub use crate::recv::batch::iter::{Iter, IterMut, Messages, MessagesMut};
    pub use crate::recv::in_place::DatagramsMut;
    pub use crate::recv::scattered::Slices;
    pub use crate::recv::split::Datagrams;
}

/// The README's code, compiled; some of it is for the feature.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! UDP datagrams in batches: one safe call, many datagrams, no allocation.
//!
//! New here? The [`guide`] has a cookbook by kind of program and says what to choose. The [`prelude`] has the traits to import.
//!
//! [`BatchSocket`] adds batch calls to the UDP and Unix datagram sockets of std and mio, and to others, such as socket2's, through their
//! descriptor. [`AsyncBatchSocket`] adds them to tokio's sockets, as futures. The calls use `recvmmsg` and `sendmmsg` where
//! the system has them. On macOS, iOS, NetBSD and Windows each system call moves one; [`Backend::current`] says which calls
//! are in use.
//!
//! ```no_run
//! use mmsg::{Ancillary, RecvBatch, prelude::*};
//! use std::{io, net::UdpSocket, thread, time::Duration};
//!
//! fn echo(socket: &UdpSocket) -> io::Result<()> {
//!     Ancillary::DEST.require(socket)?; // Replies leave from the address that was asked.
//!     let port = socket.local_addr()?.port();
//!     let mut batch = RecvBatch::new(64, 65_535); // Slots as long as any datagram.
//!     loop {
//!         if let Err(error) = socket.recv_into(&mut batch) {
//!             eprintln!("receive: {error}"); // The batch is empty, the socket still usable.
//!             thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
//!         }
//!         // Another echo server would answer the reply, and so on for ever.
//!         let clients = batch.iter().filter(|d| d.addr().is_some_and(|from| from.port() != port));
//!         let replies = clients.filter_map(|d| d.reply(d.data()));
//!         socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
//!     }
//! }
//!
//! fn main() -> io::Result<()> {
//!     echo(&UdpSocket::bind("[::]:7777")?)
//! }
//! ```
//!
//! No error of a datagram ends this server: [`send_each`](BatchSocketExt::send_each) continues past a reply that fails, and
//! its `?` is for sockets that have a timeout or do not wait. [`reply`](Datagram::reply) is `None` for a source that nobody
//! can answer, and the loop receives again after an error. [`guide::errors`] lists the errors.
//!
//! # Choosing a type
//!
//! | task | use |
//! |---|---|
//! | receive in a server's loop | [`RecvBatch`] and [`recv_into`](BatchSocket::recv_into) |
//! | collect a number of datagrams, or what comes until a deadline | [`recv_more_until`](BatchSocketExt::recv_more_until) |
//! | receive into your own memory | [`RecvMsg`]s and [`recv_batch`](BatchSocket::recv_batch) |
//! | receive into buffers lent for each call, as QUIC stacks do | [`recv_slices`](BatchSocket::recv_slices) |
//! | change payload in place: decrypt, rewrite headers | [`RecvBatch::iter_mut`] |
//! | answer what was received | [`Datagram::reply`] and [`send_each`](BatchSocketExt::send_each) |
//! | answer later, from another task or thread | [`Datagram::reply_addr`] and [`RecvMeta::reply_meta`], kept |
//! | send a slice | [`SendMsg`]s and [`send_batch`](BatchSocket::send_batch) |
//! | send from an iterator, past each failure | [`send_each`](BatchSocketExt::send_each) |
//! | send what may have to wait | [`SendQueue`] and [`flush`](BatchSocket::flush) or [`flush_each`](BatchSocketExt::flush_each) |
//! | encrypt or encode into the queue itself | [`SendQueue::push_with`] |
//! | send one payload to many destinations | [`SendQueue::push_to_all`] |
//! | send with GSO and receive with GRO | [`Offload`] around the socket; [`OffloadState`](offload::OffloadState) for a socket that is lent for each call |
//! | read per-datagram metadata: ECN, destination, timestamps | [`Ancillary`], [`RecvMeta`], [`SendMeta`] |
//! | count what the kernel drops | [`options::dropped`]; with each datagram [`Ancillary::DROPPED`] |
//! | read ICMP errors and transmit timestamps | [`drain_errors`](error_queue::drain_errors) |
//! | pass flags with a call, keep header memory yourself | [`MmsgBuf`] |
//! | set fragmentation, buffers, pacing | [`options`] |
//! | wait in a task instead of a thread | [`AsyncBatchSocket`], with the feature `tokio` |
//! | tokio's own calls, one datagram each | the socket of the crate [mmsg-tokio](https://docs.rs/mmsg-tokio) |
//! | QUIC with [quinn](https://docs.rs/quinn) | `mmsg_quinn::TokioRuntime`, in the crate [mmsg-quinn](https://docs.rs/mmsg-quinn) |
//! | QUIC with [noq](https://docs.rs/noq), iroh's | `mmsg_noq::TokioRuntime`, in the crate [mmsg-noq](https://docs.rs/mmsg-noq) |
//! | quinn-udp's API | the crate [mmsg-quinn-udp](https://docs.rs/mmsg-quinn-udp) |
//! | serve one port by several threads | a socket for each, by the crate [mmsg-reuseport](https://docs.rs/mmsg-reuseport) |
//!
//! `examples/` has a DNS forwarder, a game server, a tunnel, a selective forwarding unit and more.
//!
//! # Contracts
//!
//! - A call is one system call of up to 1,024 messages; `send_each` and a flush make one for each 256. `Ok(n)`: the first
//!   `n` messages were sent or received. `Err`: none was, and the error is the kernel's for the first message. [`BatchSocket`]
//!   has the details.
//! - Payload memory belongs to the caller, a `RecvBatch` or a `SendQueue`. Each thread keeps memory for headers, which grows
//!   with its largest batch. After that a successful call does not allocate, unless it is nested in two others.
//! - Nothing that a peer sends makes a call panic, allocate, leak or loop.
//!
//! # Waiting
//!
//! A call on a non-blocking socket returns `WouldBlock` instead of waiting. With edge-triggered readiness, such as mio's
//! (feature `mio`), call until `WouldBlock`, or until the batch is [`drained`](RecvBatch::drained). Register an [`Offload`]
//! around a mio socket like the socket itself.
//!
//! ```
//! # #[cfg(feature = "mio")] {
//! use mmsg::{BatchSocket, RecvBatch};
//! use std::{io::ErrorKind, thread, time::Duration};
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
//!         Err(error) if error.kind() == ErrorKind::WouldBlock => break,
//!         Err(error) => {
//!             eprintln!("receive: {error}");
//!             thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
//!         }
//!     }
//!     if batch.drained() {
//!         break;
//!     }
//! }
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! tokio's sockets have futures instead, with the feature `tokio`: see [`AsyncBatchSocket`].
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | the calls as futures on tokio's sockets |
//! | `mio` | the calls on mio's sockets |
//! | `tracing` | events (below) |
//!
//! No feature is on by default. If rustc does not find `recv_into` for a socket of tokio or mio ("no method named
//! `recv_into` found", "its trait bounds were not satisfied"), turn on the feature and import the [`prelude`].
//!
//! # Counters and events
//!
//! The [`counters`](offload::OffloadState::counters) of an [`Offload`] count datagrams, messages and calls in both
//! directions. With the feature `tracing`, events with the target `mmsg` report what slows a program down:
//!
//! | event | level |
//! |---|---|
//! | GSO is off for a socket, and why (`status`) | warn |
//! | the kernel rejected a GSO batch: GSO is off for a minute (`error`, `segment_size`, `off_for`) | warn |
//! | the kernel rejected a segment size: the datagrams went one by one (`error`, `segment_size`) | debug |
//! | a buffer is smaller than requested (`buffer`, `asked`, `in_force`) | warn |
//! | the system has no multi-message calls: one message per call (`error`) | warn |

#![cfg_attr(
    not(feature = "tokio"),
    doc = "",
    doc = "[`AsyncBatchSocket`]: https://docs.rs/mmsg/latest/mmsg/trait.AsyncBatchSocket.html"
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]

mod ancillary;
mod arena;
pub mod error_queue;
pub mod errors;
mod events;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod offload;
pub mod options;
mod recv;
mod send;
mod socket;
mod sys;
#[cfg(all(any(test, fuzzing), any(mmsg_calls, not(has_descriptors))))]
mod tests;
#[cfg(feature = "tokio")]
mod tokio;

/// Entry points of the fuzz targets.
#[cfg(all(fuzzing, mmsg_calls))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::tests::fuzzing::{coalesce, control, fallback, model};
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
    #[doc(hidden)]
    pub use crate::socket::DatagramSocketWithItsFeatureOn as _;
    pub use crate::socket::{BatchSocket, BatchSocketExt};
    #[cfg(feature = "tokio")]
    pub use crate::tokio::AsyncBatchSocket;
}

#[cfg(feature = "tokio")]
pub use self::tokio::{AsyncBatchSocket, SendWaiter, TokioSocket};
pub use ancillary::{Ancillary, Ecn, RecvMeta, SendMeta, TransmitClock};
pub use arena::MmsgBuf;
pub use offload::Offload;
pub use recv::batch::RecvBatch;
pub use recv::datagram::{Datagram, DatagramMut};
pub use recv::message::Message;
pub use recv::msg::RecvMsg;
pub use send::msg::SendMsg;
pub use send::queue::SendQueue;
pub use socket::{BatchSocket, BatchSocketExt};
/// Borrows a socket: std's [`AsFd`](std::os::fd::AsFd) on Unix, std's `AsSocket` on Windows.
///
/// Socket options ([`Ancillary::enable`]), [`drain_errors`](error_queue::drain_errors) and [`Offload`] accept
/// every type that implements it: the sockets of std, socket2, mio and tokio, `Offload` itself, and references, `Box`, `Rc`
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
pub use sys::{Backend, Flags, UnixAddr};

/// Raw control messages in both directions, for everything that [`RecvMeta`] and [`SendMeta`] lack.
pub mod control {
    pub use crate::ancillary::ControlBuf;
    pub use crate::sys::{CONTROL_SPACE, ControlMessage, ControlMessages};
}

/// Iterators over received messages, their datagrams and their bytes.
pub mod iter {
    pub use crate::recv::batch::Iter;
    pub use crate::recv::message::Datagrams;
}

/// Compiles the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

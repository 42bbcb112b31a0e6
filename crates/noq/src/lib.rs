//! The endpoints of [noq](https://docs.rs/noq), iroh's QUIC, on [mmsg]'s sockets: datagrams in batches, with GSO and GRO.
//!
//! noq asks its [`Runtime`](noq::Runtime) for sockets: pass this crate's [`TokioRuntime`] instead of noq's own.
//!
//! ```
//! use noq::{Endpoint, ServerConfig};
//! use std::{io, net::{SocketAddr, UdpSocket}, sync::Arc};
//!
//! fn listen(config: ServerConfig, addr: SocketAddr) -> io::Result<Endpoint> {
//!     // Before: Endpoint::server(config, addr)
//!     let runtime = Arc::new(mmsg_noq::TokioRuntime::default());
//!     Endpoint::new(Default::default(), Some(config), UdpSocket::bind(addr)?, runtime)
//! }
//! ```
//!
//! A client passes `None` instead of a `ServerConfig`. [`Endpoint::rebind`](noq::Endpoint::rebind) needs no change,
//! since it asks the runtime. `Endpoint::server` makes an IPv6 socket dual-stack; with `Endpoint::new` you do.
//!
//! # What it does
//!
//! A send is one system call, made at once, with up to ten datagrams of one connection as a GSO batch. No datagram
//! waits outside the kernel. Each connection has its own sender, and each is woken when a full socket has space.
//!
//! - If the system rejects a GSO batch, its datagrams are sent one by one in the same call. If the device cannot
//!   segment at all, noq makes no batches for a minute, and then tries again.
//! - GSO is off on the kernel releases that [damage batches](mmsg::offload::GsoStatus).
//! - QUIC treats a datagram that the system rejects as lost. [`Socket::failed`] counts such datagrams, and `tracing`
//!   logs the error, at most once a minute.
//! - A receive that fails ends no endpoint. While receives fail for long (`ENOMEM`), the endpoint tries again every 10 ms,
//!   and `tracing` logs the error, at most once a minute.
//! - Received datagrams have their ECN bits and destination address, if the system reports them. Sent datagrams have
//!   the ECN bits and source address that noq asks for.
//! - No datagram is fragmented ([`Fragmentation::Probe`](mmsg::options::Fragmentation)), so that noq finds
//!   the path's MTU.
//!
//! To turn GSO or GRO off, or to send batches shorter than noq's ten datagrams, pass mmsg's
//! [`OffloadBuilder`](mmsg::offload::OffloadBuilder):
//!
//! ```
//! use mmsg::Offload;
//! let runtime = mmsg_noq::TokioRuntime::new(Offload::builder().max_segments(4));
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod convert;
mod endpoint;
mod runtime;
mod socket;

extern crate noq as quinn; // For the files that mmsg-quinn has too.

use std::boxed::Box as Pointer; // noq's runtimes return their sockets in it.

use noq::udp;
/// Tokio as noq's runtime, with mmsg's sockets.
///
/// ```
/// use noq::Runtime;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let runtime = mmsg_noq::TokioRuntime::default();
/// // What `Endpoint::new` and `Endpoint::rebind` do:
/// let socket = runtime.wrap_udp_socket(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
/// println!("up to {} datagrams in each message", socket.max_receive_segments());
/// # Ok(())
/// # }
/// ```
pub use runtime::TokioRuntime;
/// The socket of noq's [`Endpoint`](noq::Endpoint), which [`TokioRuntime`] makes.
///
/// Make one by hand to read its counters, with
/// [`Endpoint::new_with_abstract_socket`](noq::Endpoint::new_with_abstract_socket) and
/// [`Endpoint::rebind_abstract`](noq::Endpoint::rebind_abstract).
///
/// ```
/// use mmsg::Offload;
/// use mmsg_noq::Socket;
/// use noq::AsyncUdpSocket;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let socket = Socket::new(socket, Offload::builder())?;
/// println!("{}, may fragment: {}", socket.local_addr()?, socket.may_fragment());
/// let runtime = std::sync::Arc::new(mmsg_noq::TokioRuntime::default()); // For a rebind.
/// let (config, for_noq) = (Default::default(), Box::new(socket.clone()));
/// let client = noq::Endpoint::new_with_abstract_socket(config, None, for_noq, runtime)?;
/// println!("{:?}, {} failed", socket.offload().state().counters(), socket.failed());
/// # Ok(())
/// # }
/// ```
pub use socket::Socket;

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

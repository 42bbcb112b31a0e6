//! [quinn](https://docs.rs/quinn)'s endpoints on [mmsg]'s sockets: datagrams in batches, with GSO and GRO.
//!
//! quinn asks its [`Runtime`](quinn::Runtime) for sockets: pass this crate's [`TokioRuntime`] instead of quinn's own.
//!
//! ```
//! use quinn::{Endpoint, ServerConfig};
//! use std::{io, net::{SocketAddr, UdpSocket}, sync::Arc};
//!
//! fn listen(config: ServerConfig, addr: SocketAddr) -> io::Result<Endpoint> {
//!     // Before: Endpoint::server(config, addr)
//!     let runtime = Arc::new(mmsg_quinn::TokioRuntime::default());
//!     Endpoint::new(Default::default(), Some(config), UdpSocket::bind(addr)?, runtime)
//! }
//! ```
//!
//! A client passes `None` instead of a `ServerConfig`. [`Endpoint::rebind`](quinn::Endpoint::rebind) needs no change,
//! since it asks the runtime.
//!
//! # What it does
//!
//! A send is one system call, made at once, with up to ten datagrams of one connection as a GSO batch. No datagram
//! waits outside the kernel, so quinn learns at once when the socket's buffer is full, as with its own sockets.
//! Connections on several threads send at the same time.
//!
//! - If the system rejects a GSO batch, its datagrams are sent one by one in the same call. If the device cannot
//!   segment at all, quinn makes no batches for a minute, and then tries again.
//! - GSO is off on the kernel releases that [damage batches](mmsg::offload::GsoStatus).
//! - QUIC treats a datagram that the system rejects as lost: it sends the contents again, or learns that the path does
//!   not carry datagrams of this size. [`Socket::failed`] counts such datagrams, and `tracing` logs the error, at most
//!   once a minute.
//! - A receive that fails ends no endpoint. While receives fail for long (`ENOMEM`), the endpoint tries again every 10 ms,
//!   and `tracing` logs the error, at most once a minute.
//! - Received datagrams have their ECN bits and destination address, if the system reports them. Sent datagrams have
//!   the ECN bits and source address that quinn asks for.
//! - No datagram is fragmented ([`Fragmentation::Probe`](mmsg::options::Fragmentation)), so that quinn finds
//!   the path's MTU.
//!
//! To turn GSO or GRO off, or to send batches shorter than quinn's ten datagrams, pass mmsg's
//! [`OffloadBuilder`](mmsg::offload::OffloadBuilder).
//! quinn's own `TransportConfig::enable_segmentation_offload(false)` turns GSO off for its connections; the socket's
//! [`gso_status`](mmsg::offload::OffloadState) then still says `On`.
//!
//! ```
//! use mmsg::Offload;
//! let runtime = mmsg_quinn::TokioRuntime::new(Offload::builder().max_segments(4));
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod convert;
mod endpoint;
mod runtime;
mod socket;

use std::sync::Arc as Pointer; // quinn's runtimes return their sockets in it.

use quinn::udp;
/// Tokio as quinn's runtime, with mmsg's sockets.
///
/// ```
/// use quinn::Runtime;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let runtime = mmsg_quinn::TokioRuntime::default();
/// // What `Endpoint::new` and `Endpoint::rebind` do:
/// let socket = runtime.wrap_udp_socket(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
/// println!("up to {} datagrams for each system call", socket.max_transmit_segments());
/// # Ok(())
/// # }
/// ```
pub use runtime::TokioRuntime;
/// The socket of quinn's [`Endpoint`](quinn::Endpoint), which [`TokioRuntime`] makes.
///
/// Make one by hand to read its counters, with
/// [`Endpoint::new_with_abstract_socket`](quinn::Endpoint::new_with_abstract_socket) and
/// [`Endpoint::rebind_abstract`](quinn::Endpoint::rebind_abstract).
///
/// ```
/// use mmsg::Offload;
/// use mmsg_quinn::Socket;
/// use quinn::AsyncUdpSocket;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let socket = std::sync::Arc::new(Socket::new(socket, Offload::builder())?);
/// println!("{}, may fragment: {}", socket.local_addr()?, socket.may_fragment());
/// let runtime = std::sync::Arc::new(mmsg_quinn::TokioRuntime::default()); // For a rebind.
/// let (config, for_quinn) = (Default::default(), socket.clone());
/// let client = quinn::Endpoint::new_with_abstract_socket(config, None, for_quinn, runtime)?;
/// println!("{:?}, {} failed", socket.offload().state().counters(), socket.failed());
/// # Ok(())
/// # }
/// ```
pub use socket::Socket;

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

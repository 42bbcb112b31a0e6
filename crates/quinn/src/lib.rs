//! [quinn](https://docs.rs/quinn)'s endpoints on [mmsg]'s sockets: datagrams in batches, with GSO and GRO.
//!
//! quinn asks its [`Runtime`] for sockets: pass this crate's [`TokioRuntime`] in place of quinn's own.
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
//! A client passes `None` in place of a `ServerConfig`. [`Endpoint::rebind`](quinn::Endpoint::rebind) needs
//! no change, since it asks the runtime.
//!
//! # What it does
//!
//! quinn sends ten datagrams at a time. Here they wait for a task of the socket's own, and those of one connection are
//! joined into a GSO batch of up to 64 datagrams. The task sends the datagrams of all connections. It runs after the
//! tasks that were ready before it. While less than a batch waits and the connections add datagrams, the task waits
//! another turn; on an idle runtime no datagram waits.
//!
//! - While the system's socket buffer is full, up to 1 MiB waits; then quinn's connections wait.
//! - A datagram that the system does not accept is lost to QUIC, which sends its contents again, or learns
//!   that the path does not carry a datagram of this size. [`Socket::failed`] counts such datagrams.
//! - Received datagrams have their ECN bits and destination address, if the system has the options. Sent
//!   datagrams have the ECN bits and source address that quinn asks for.
//! - No datagram is fragmented ([`Fragmentation::Probe`](mmsg::options::Fragmentation::Probe)), so that quinn finds
//!   the path's MTU.
//!
//! Networks with short queues drop the end of a long burst:
//! [`max_segments`](mmsg::offload::OffloadBuilder::max_segments) limits it.
//!
//! ```
//! use mmsg::Offload;
//! let runtime = mmsg_quinn::TokioRuntime::new(Offload::builder().max_segments(10));
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod batches;
mod outbox;
mod socket;

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use mmsg::Offload;
use mmsg::offload::OffloadBuilder;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};
pub use socket::Socket;

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
#[derive(Clone, Copy, Debug)]
pub struct TokioRuntime {
    offload: OffloadBuilder,
}

impl TokioRuntime {
    /// A runtime whose sockets have these offloads. `default()` has all of them.
    ///
    /// ```
    /// use mmsg::Offload;
    /// use mmsg_quinn::TokioRuntime;
    /// let runtime = TokioRuntime::new(Offload::builder().gso(false));
    /// ```
    #[must_use]
    pub const fn new(offload: OffloadBuilder) -> Self {
        Self { offload }
    }
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self::new(Offload::builder())
    }
}

impl Runtime for TokioRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        quinn::TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        quinn::TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Socket::new(socket, self.offload)?))
    }

    fn now(&self) -> Instant {
        quinn::TokioRuntime.now()
    }
}

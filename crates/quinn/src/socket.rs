//! The socket of a quinn endpoint.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mmsg::offload::OffloadBuilder;
use mmsg::{AsyncBatchSocket, BatchSocket, Offload, SendMsg, SendWaiter};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::convert::send_meta;
use crate::shared::Shared;

/// The socket of quinn's [`Endpoint`](quinn::Endpoint), which [`TokioRuntime`](crate::TokioRuntime) makes.
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
/// println!("{:?}, {} failed", socket.offload().counters(), socket.failed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Socket(Shared);

impl Socket {
    /// Wraps a bound socket for quinn, with these offloads.
    ///
    /// Turns on ECN bits, destination addresses and don't-fragment where the system supports them.
    ///
    /// # Errors
    ///
    /// An error outside of a tokio runtime; the errors of [`OffloadBuilder::build`]; else the system's error.
    ///
    /// # Panics
    ///
    /// If the runtime has no I/O driver, as [`UdpSocket::from_std`] does.
    pub fn new(socket: std::net::UdpSocket, offload: OffloadBuilder) -> io::Result<Self> {
        Shared::new(socket, offload).map(Self)
    }

    /// The socket underneath, with its counters and its [`GsoStatus`](mmsg::offload::GsoStatus).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let socket = mmsg_quinn::Socket::new(socket, mmsg::Offload::builder())?;
    /// assert_eq!(socket.offload().counters().sent, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn offload(&self) -> &Offload<UdpSocket> {
        &self.0.socket
    }

    /// The number of datagrams that the system did not accept, MTU probes included. QUIC treats them as lost.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let socket = mmsg_quinn::Socket::new(socket, mmsg::Offload::builder())?;
    /// assert_eq!(socket.failed(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.0.failed()
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller { socket: Arc::clone(&self.0.socket), waiter: SendWaiter::new() })
    }

    /// Sends at once, with one system call unless the system rejects a GSO batch. The only error is `WouldBlock`.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let meta = send_meta(transmit);
        let msg = SendMsg::to(transmit.destination, transmit.contents).with_meta(&meta);
        let (offload, udp) = (&self.0.socket, self.0.socket.get_ref());
        match udp.try_io(Interest::WRITABLE, || offload.on(udp).send_batch(&[msg])) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(error) => self.0.note_failure(&error, transmit),
            Ok(_) => {}
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(cx, bufs, metas)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.0.socket.max_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.0.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment
    }
}

/// Waits until the socket is writable, for one connection. quinn asks before every send, and usually the socket is
/// writable.
#[derive(Debug)]
struct Poller {
    socket: Arc<Offload<UdpSocket>>,
    waiter: SendWaiter,
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, waiter } = self.get_mut();
        // No system call: tokio remembers that the socket is writable.
        socket.poll_send_batch(cx, waiter, &[]).map_ok(drop)
    }
}

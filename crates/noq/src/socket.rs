//! The socket of a noq endpoint.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mmsg::offload::OffloadBuilder;
use mmsg::{AsyncBatchSocket, Offload, SendMsg, SendWaiter};
use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};
use tokio::net::UdpSocket;

use crate::convert::send_meta;
use crate::shared::Shared;

/// The socket of noq's [`Endpoint`](noq::Endpoint), which [`TokioRuntime`](crate::TokioRuntime) makes.
///
/// Make one by hand to read its counters, with
/// [`Endpoint::new_with_abstract_socket`](noq::Endpoint::new_with_abstract_socket) and
/// [`Endpoint::rebind_abstract`](noq::Endpoint::rebind_abstract). A clone is the same socket.
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
/// println!("{:?}, {} failed", socket.offload().counters(), socket.failed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Socket(Arc<Shared>);

impl Socket {
    /// Wraps a bound socket for noq, with these offloads.
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
        Ok(Self(Arc::new(Shared::new(socket, offload)?)))
    }

    /// The socket underneath, with its counters and its [`GsoStatus`](mmsg::offload::GsoStatus).
    #[must_use]
    pub fn offload(&self) -> &Offload<UdpSocket> {
        &self.0.socket
    }

    /// The number of datagrams that the system did not accept, MTU probes included. QUIC treats them as lost.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.0.failed()
    }
}

impl AsyncUdpSocket for Socket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(Sender { socket: Arc::clone(&self.0), waiter: SendWaiter::new() })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(cx, bufs, metas)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.get_ref().local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.0.max_receive_segments()).unwrap_or(NonZeroUsize::MIN)
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment
    }
}

/// Sends for one connection, and waits while the socket is full.
#[derive(Debug)]
struct Sender {
    socket: Arc<Shared>,
    waiter: SendWaiter,
}

impl UdpSender for Sender {
    /// Sends at once, with one system call unless the system rejects a GSO batch.
    fn poll_send(
        self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, waiter } = self.get_mut();
        let meta = send_meta(transmit);
        let msg = SendMsg::to(transmit.destination, transmit.contents).with_meta(&meta);
        if let Err(error) = ready!(socket.socket.poll_send_batch(cx, waiter, &[msg])) {
            socket.note_failure(&error, transmit);
        }
        Poll::Ready(Ok(()))
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.socket.socket.max_segments()).unwrap_or(NonZeroUsize::MIN)
    }
}

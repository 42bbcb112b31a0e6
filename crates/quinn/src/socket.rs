//! The socket of a quinn endpoint.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use mmsg::errors::is_too_big;
use mmsg::offload::OffloadBuilder;
use mmsg::options::Fragmentation;
use mmsg::{Ancillary, BatchSocket, Message, Offload, SendMeta, SendMsg};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::Handle;

/// The maximum number of datagrams in a coalesced message on Linux.
const MAX_COALESCED: usize = 64;
/// The longest UDP payload, and so the longest coalesced message.
const MAX_PAYLOAD: usize = 65_535 - 8;
/// How many receive errors in a row are skipped, because quinn ends an endpoint at the first error that it gets.
const MAX_ERRORS: usize = 16;
/// The minimum time between two logged send errors, as in quinn.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

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
pub struct Socket {
    socket: Offload<UdpSocket>,
    may_fragment: bool,
    failed: AtomicU64,
    last_logged: Mutex<Option<Instant>>,
}

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
        Handle::try_current().map_err(io::Error::other)?;
        let may_fragment = Fragmentation::Probe.set(&socket).is_err();
        let _ = (Ancillary::TOS | Ancillary::DEST).enable(&socket)?;
        socket.set_nonblocking(true)?;
        let socket = offload.build(UdpSocket::from_std(socket)?)?;
        let (failed, last_logged) = (AtomicU64::new(0), Mutex::new(None));
        Ok(Self { socket, may_fragment, failed, last_logged })
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
        &self.socket
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
        // `dropped` has the datagrams of rejected GSO batches that could not be sent.
        self.failed.load(Ordering::Relaxed) + self.socket.counters().dropped
    }

    /// Counts the datagrams of a transmit that failed, and logs the error as quinn does.
    #[cold]
    fn note_failure(&self, error: &io::Error, transmit: &Transmit<'_>) {
        let len = transmit.contents.len();
        let size = transmit.segment_size.filter(|size| *size > 0);
        let datagrams = size.map_or(1, |size| len.div_ceil(size).max(1));
        self.failed.fetch_add(datagrams as u64, Ordering::Relaxed);
        // MTU probes end with this error.
        if is_too_big(error) {
            return;
        }
        let mut last = self.last_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() > LOG_INTERVAL) {
            *last = Some(Instant::now());
            let Transmit { destination, src_ip, ecn, .. } = transmit;
            tracing::warn!(%error, %destination, ?src_ip, ?ecn, datagrams, "a send failed");
        }
    }

    /// Turns GRO off if coalesced messages do not fit the buffers. An endpoint makes its buffers for its first
    /// socket: if that socket had no GRO, each buffer holds one datagram. Messages that are coalesced already are
    /// lost, and QUIC sends their contents again.
    fn fit_gro(&self, bufs: &[IoSliceMut<'_>]) {
        if self.socket.gro() && bufs.iter().any(|buf| buf.len() < MAX_PAYLOAD) {
            // The receive reports any error.
            let _ = self.socket.disable_gro(self.socket.get_ref());
        }
    }

    /// Whether the socket was shut down. tokio then reports it as readable for ever.
    fn is_shut_down(&self) -> bool {
        let ready = pin!(self.socket.get_ref().ready(Interest::READABLE));
        let ready = ready.poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller { socket: self, wait: None })
    }

    /// Sends at once, with one system call unless the system rejects a GSO batch. The only error is `WouldBlock`.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let meta = send_meta(transmit);
        let msg = SendMsg::to(transmit.destination, transmit.contents).with_meta(&meta);
        let send = || self.socket.on(self.socket.get_ref()).send_batch(&[msg]);
        match self.socket.get_ref().try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(error) => self.note_failure(&error, transmit),
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
        let count = bufs.len().min(metas.len());
        let bufs = &mut bufs[..count];
        self.fit_gro(bufs);
        let (socket, offload) = (self.socket.get_ref(), self.socket.on(self.socket.get_ref()));
        let mut errors = 0;
        loop {
            ready!(socket.poll_recv_ready(cx))?;
            let mut each = |i: usize, message: Message<'_>| metas[i] = recv_meta(message);
            match socket.try_io(Interest::READABLE, || offload.recv_slices(bufs, &mut each)) {
                // A socket that was shut down never receives again.
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                Ok(received) => return Poll::Ready(Ok(received)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.is_shut_down() {
                        return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
                    }
                }
                // The error is about an earlier datagram, and is reported once.
                Err(_) if errors < MAX_ERRORS => errors += 1,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_segments()
    }

    fn max_receive_segments(&self) -> usize {
        if self.socket.gro() { MAX_COALESCED } else { 1 }
    }

    fn may_fragment(&self) -> bool {
        self.may_fragment
    }
}

/// The per-message options of a transmit.
fn send_meta(transmit: &Transmit<'_>) -> SendMeta {
    let mut meta = SendMeta::new();
    meta.tos = transmit.ecn.map(|ecn| ecn as u8);
    meta.source = transmit.src_ip;
    meta.segment_size = transmit.segment_size.and_then(|size| size.try_into().ok());
    meta
}

/// Converts a message's metadata for quinn. A truncated message becomes empty: its datagrams would not decrypt, or
/// their boundaries are unknown.
fn recv_meta(message: Message<'_>) -> RecvMeta {
    let Some(addr) = message.addr().filter(|_| !message.truncated()) else {
        return RecvMeta::default();
    };
    let (len, meta) = (message.len(), message.meta());
    RecvMeta {
        addr,
        len,
        stride: meta.segment_size.map_or(len, usize::from),
        ecn: meta.tos.and_then(EcnCodepoint::from_bits),
        dst_ip: meta.destination,
    }
}

type Wait = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

/// Waits until the socket is writable, for one connection. quinn asks before every send, and usually the socket is
/// writable.
struct Poller {
    socket: Arc<Socket>,
    wait: Option<Wait>,
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, wait } = self.get_mut();
        let udp = socket.socket.get_ref();
        // No system call: tokio remembers that the socket is writable.
        if wait.is_none() && udp.try_io(Interest::WRITABLE, || Ok(())).is_ok() {
            return Poll::Ready(Ok(()));
        }
        let waiting = wait.get_or_insert_with(|| {
            let socket = Arc::clone(socket);
            Box::pin(async move { socket.socket.get_ref().writable().await })
        });
        let result = ready!(waiting.as_mut().poll(cx));
        *wait = None;
        Poll::Ready(result)
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("waiting", &self.wait.is_some()).finish_non_exhaustive()
    }
}

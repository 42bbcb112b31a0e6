//! The socket of quinn's and noq's endpoints, without their traits. mmsg-quinn and mmsg-noq each have a copy of this file.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use mmsg::errors::is_too_big;
use mmsg::offload::OffloadBuilder;
use mmsg::options::Fragmentation;
use mmsg::{Ancillary, AsyncBatchSocket, Message, Offload};
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep};

use crate::convert::recv_meta;
use crate::udp::{RecvMeta, Transmit};

/// The maximum number of datagrams in a coalesced message on Linux.
pub(crate) const MAX_COALESCED: usize = 64;
/// The longest UDP payload, and so the longest coalesced message.
const MAX_PAYLOAD: usize = 65_535 - 8;
/// How many receive errors in a row are skipped at once, because an endpoint ends at the first error that it gets.
const MAX_ERRORS: usize = 16;
/// The pause after so many: the error may last, as `ENOMEM` does.
const PAUSE: Duration = Duration::from_millis(10);
/// The minimum time between two logged errors of sends, and of receives, as in quinn and noq.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A clone is the same socket.
#[derive(Clone, Debug)]
pub struct Socket {
    pub(crate) socket: Arc<Offload<UdpSocket>>,
    failures: Arc<Failures>,
    receives: Arc<Mutex<Receives>>,
    pub(crate) may_fragment: bool,
}

/// The datagrams that the system did not accept, and when an error was last logged.
#[derive(Debug, Default)]
struct Failures {
    count: AtomicU64,
    logged: Mutex<Option<Instant>>,
}

/// The pause after receives that failed, and when their error was last logged.
#[derive(Debug, Default)]
struct Receives {
    pause: Option<Pin<Box<Sleep>>>,
    logged: Option<Instant>,
}

/// Whether to log, at most once in each interval.
fn is_due(logged: &mut Option<Instant>) -> bool {
    let due = logged.is_none_or(|logged| logged.elapsed() > LOG_INTERVAL);
    if due {
        *logged = Some(Instant::now());
    }
    due
}

impl Socket {
    /// Wraps a bound socket, with these offloads.
    ///
    /// Turns on ECN bits, destination addresses and don't-fragment where the system supports them.
    ///
    /// # Errors
    ///
    /// An error outside of a tokio runtime; the errors of [`OffloadBuilder`]; else the system's error.
    ///
    /// # Panics
    ///
    /// If the runtime has no I/O driver, as [`UdpSocket::from_std`] does.
    pub fn new(socket: std::net::UdpSocket, offload: OffloadBuilder) -> io::Result<Self> {
        Handle::try_current().map_err(io::Error::other)?;
        let may_fragment = Fragmentation::Probe.set(&socket).is_err();
        let _ = (Ancillary::TOS | Ancillary::DEST).enable(&socket)?;
        socket.set_nonblocking(true)?;
        let socket = Arc::new(offload.build(UdpSocket::from_std(socket)?)?);
        Ok(Self { socket, failures: Arc::default(), receives: Arc::default(), may_fragment })
    }

    /// The socket underneath, with its counters and its [`GsoStatus`](mmsg::offload::GsoStatus).
    #[must_use]
    pub fn offload(&self) -> &Offload<UdpSocket> {
        &self.socket
    }

    /// The number of datagrams that the system did not accept, MTU probes included. QUIC treats them as lost.
    #[must_use]
    pub fn failed(&self) -> u64 {
        // `unsent` has the datagrams of rejected GSO batches that could not be sent.
        self.failures.count.load(Ordering::Relaxed) + self.socket.state().counters().unsent
    }

    /// Counts the datagrams of a transmit that failed, and logs the error as quinn and noq do.
    #[cold]
    pub(crate) fn note_failure(&self, error: &io::Error, transmit: &Transmit<'_>) {
        let len = transmit.contents.len();
        let size = transmit.segment_size.filter(|size| *size > 0);
        let datagrams = size.map_or(1, |size| len.div_ceil(size).max(1));
        self.failures.count.fetch_add(datagrams as u64, Ordering::Relaxed);
        let mut last = self.failures.logged.lock().unwrap_or_else(PoisonError::into_inner);
        // MTU probes end with "too big".
        if !is_too_big(error) && is_due(&mut last) {
            let Transmit { destination, src_ip, ecn, .. } = transmit;
            tracing::warn!(%error, %destination, ?src_ip, ?ecn, datagrams, "a send failed");
        }
    }

    /// Receives messages. Skips errors about earlier datagrams, and pauses while the system has no memory for more.
    pub(crate) fn receive(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = bufs.len().min(metas.len());
        let bufs = &mut bufs[..count];
        // An endpoint makes its buffers for its first socket: if that one had no GRO, each holds one datagram.
        if self.socket.state().gro() && bufs.iter().any(|buf| buf.len() < MAX_PAYLOAD) {
            // The receive returns any error.
            let _ = self.socket.state().disable_gro(self.socket.get_ref());
        }
        let mut receives = self.receives.lock().unwrap_or_else(PoisonError::into_inner);
        let mut errors = 0;
        loop {
            if let Some(pause) = &mut receives.pause {
                ready!(pause.as_mut().poll(cx));
                (receives.pause, errors) = (None, 0);
            }
            let each = |i: usize, message: Message<'_>| metas[i] = recv_meta(message);
            match ready!(self.socket.poll_recv_slices(cx, bufs, each)) {
                // A socket that was shut down never receives again.
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                // The error is about an earlier datagram, and is reported once.
                Err(_) if errors < MAX_ERRORS => errors += 1,
                Err(error) => {
                    if is_due(&mut receives.logged) {
                        tracing::warn!(%error, "receives fail");
                    }
                    receives.pause = Some(Box::pin(sleep(PAUSE)));
                }
                Ok(count) => return Poll::Ready(Ok(count)),
            }
        }
    }
}

//! A quinn socket, whosever, with counters: the same for both, so that they can be compared.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use mmsg::quinn::Socket;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// What went one way.
#[derive(Debug, Default)]
struct Direction {
    datagrams: AtomicU64,
    bytes: AtomicU64,
    /// Messages: a datagram or several segments each.
    messages: AtomicU64,
    /// Those of two datagrams and more.
    segmented: AtomicU64,
    /// Datagrams with an ECN mark.
    ecn: AtomicU64,
    /// Quinn's calls of the socket that moved something.
    calls: AtomicU64,
}

#[derive(Debug, Default)]
pub struct Counters {
    sent: Direction,
    received: Direction,
    /// Those of this crate's sockets, which have counters of their own.
    sockets: Mutex<Vec<Weak<Socket>>>,
}

impl Counters {
    /// Counts the messages that this socket hands to the kernel, too, while it exists.
    pub fn include(&self, socket: &Arc<Socket>) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.push(Arc::downgrade(socket));
    }
}

impl Direction {
    fn message(&self, bytes: usize, segment: usize, ecn: bool) {
        let datagrams = if segment == 0 { 1 } else { bytes.div_ceil(segment).max(1) } as u64;
        self.datagrams.fetch_add(datagrams, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.messages.fetch_add(1, Ordering::Relaxed);
        if datagrams > 1 {
            self.segmented.fetch_add(1, Ordering::Relaxed);
        }
        if ecn {
            self.ecn.fetch_add(datagrams, Ordering::Relaxed);
        }
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { datagrams, bytes, messages, segmented, ecn, calls } = self;
        let [datagrams, bytes, messages, segmented, ecn, calls] =
            [datagrams, bytes, messages, segmented, ecn, calls].map(|n| n.load(Ordering::Relaxed));
        write!(
            f,
            "datagrams {datagrams}, bytes {bytes}, messages {messages}, segmented {segmented}, with ECN \
             {ecn}, calls {calls}"
        )
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sent: {}\nreceived: {}", self.sent, self.received)?;
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        for socket in sockets.iter().filter_map(Weak::upgrade) {
            let counted = socket.offload().counters();
            write!(
                f,
                "\nto the kernel: datagrams {}, of these in GSO batches {}, GSO batches {}, rejected {}, \
                 system calls {}",
                counted.sent,
                counted.sent_segments,
                counted.sent_batches,
                counted.rejected_unsupported + counted.rejected_size,
                counted.send_calls
            )?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct Counted {
    socket: Arc<dyn AsyncUdpSocket>,
    counters: Arc<Counters>,
}

impl Counted {
    pub fn new(socket: Arc<dyn AsyncUdpSocket>, counters: Arc<Counters>) -> Self {
        Self { socket, counters }
    }
}

impl AsyncUdpSocket for Counted {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)?;
        let segment = transmit.segment_size.unwrap_or(0);
        self.counters.sent.message(transmit.contents.len(), segment, transmit.ecn.is_some());
        self.counters.sent.call();
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let result = self.socket.poll_recv(cx, bufs, metas);
        if let Poll::Ready(Ok(count)) = result {
            for meta in &metas[..count] {
                self.counters.received.message(meta.len, meta.stride, meta.ecn.is_some());
            }
            self.counters.received.call();
        }
        result
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

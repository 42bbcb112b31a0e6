//! Counts the datagrams of quinn's sockets, of either kind, to compare the two.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use mmsg_quinn::Socket;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// Counters of one direction.
#[derive(Debug, Default)]
struct Direction {
    datagrams: usize,
    bytes: usize,
    /// Messages, of one or more segments.
    messages: usize,
    /// Messages of two or more segments.
    segmented: usize,
    /// Datagrams with an ECN mark.
    ecn: usize,
    /// quinn's calls that moved at least one message.
    calls: usize,
}

#[derive(Debug, Default)]
pub struct Counters {
    sent: Mutex<Direction>,
    received: Mutex<Direction>,
    /// This crate's sockets, which have counters of their own.
    sockets: Mutex<Vec<Weak<Socket>>>,
}

impl Counters {
    /// Also reports the socket's own counters of its calls to the kernel, as long as it exists.
    pub fn include(&self, socket: &Arc<Socket>) {
        lock(&self.sockets).push(Arc::downgrade(socket));
    }
}

fn lock<T>(counters: &Mutex<T>) -> MutexGuard<'_, T> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Direction {
    fn message(&mut self, bytes: usize, segment: usize, ecn: bool) {
        let datagrams = if segment == 0 { 1 } else { bytes.div_ceil(segment).max(1) };
        self.datagrams += datagrams;
        self.bytes += bytes;
        self.messages += 1;
        self.segmented += usize::from(datagrams > 1);
        self.ecn += if ecn { datagrams } else { 0 };
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { datagrams, bytes, messages, segmented, ecn, calls } = self;
        write!(
            f,
            "datagrams {datagrams}, bytes {bytes}, messages {messages}, segmented {segmented}, with ECN \
             {ecn}, calls {calls}"
        )
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sent: {}\nreceived: {}", lock(&self.sent), lock(&self.received))?;
        for socket in lock(&self.sockets).iter().filter_map(Weak::upgrade) {
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
    pub fn new(socket: Arc<dyn AsyncUdpSocket>, counters: &Arc<Counters>) -> Self {
        Self { socket, counters: Arc::clone(counters) }
    }
}

impl AsyncUdpSocket for Counted {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)?;
        let mut sent = lock(&self.counters.sent);
        let segment = transmit.segment_size.unwrap_or(0);
        sent.message(transmit.contents.len(), segment, transmit.ecn.is_some());
        sent.calls += 1;
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
            let mut received = lock(&self.counters.received);
            for meta in &metas[..count] {
                received.message(meta.len, meta.stride, meta.ecn.is_some());
            }
            received.calls += 1;
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

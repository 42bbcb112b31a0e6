//! A quinn socket on this crate.

use std::array;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use mmsg::options::Fragmentation;
use mmsg::{Ancillary, BatchSocket, Ecn, Offload, RecvMsg, SendMeta};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::outbox::Outbox;

/// Segments of a GSO batch, at most: what every kernel with segmentation takes.
const SEGMENTS: usize = 64;
/// Errors of receiving that are passed over, one after another, before the endpoint gets one.
const ERRORS: usize = 16;

#[derive(Debug)]
pub struct MmsgSocket {
    outbox: Arc<Outbox>,
    may_fragment: bool,
    /// Messages that the last receive brought.
    last_received: AtomicUsize,
}

impl MmsgSocket {
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        // Quinn finds out which size the path takes.
        let may_fragment = Fragmentation::Probe.set(&socket).is_err();
        socket.set_nonblocking(true)?;
        let socket = Offload::new(UdpSocket::from_std(socket)?)?;
        (Ancillary::TOS | Ancillary::DEST).require(socket.get_ref())?;
        Ok(Self { outbox: Outbox::new(socket), may_fragment, last_received: AtomicUsize::new(0) })
    }

    /// What its datagrams leave by.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Receives up to `N` messages, or what there are buffers for.
    fn receive<const N: usize>(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let most = N.min(bufs.len()).min(metas.len());
        let mut bufs = bufs.iter_mut();
        let mut msgs: [_; N] =
            array::from_fn(|_| RecvMsg::new(bufs.next().map_or(&mut [], |buf| &mut buf[..])));
        let count = self.outbox.socket().lend().recv_batch(&mut msgs[..most])?;
        for (meta, msg) in metas.iter_mut().zip(&msgs[..count]) {
            *meta = received(msg);
        }
        Ok(count)
    }
}

/// The metadata for quinn. It gets nothing of a truncated message.
fn received(msg: &RecvMsg<'_>) -> RecvMeta {
    let Some(addr) = msg.addr().filter(|_| !msg.truncated()) else { return RecvMeta::default() };
    let (len, meta) = (msg.len(), msg.meta());
    RecvMeta {
        addr,
        len,
        stride: meta.segment_size.map_or(len, usize::from),
        ecn: meta.tos.and_then(EcnCodepoint::from_bits),
        dst_ip: meta.destination,
    }
}

/// The per-message options of a transmit.
fn send_meta(transmit: &Transmit<'_>) -> SendMeta {
    let mut meta = SendMeta::new();
    if let Some(ecn) = transmit.ecn {
        meta = meta.with_ecn(match ecn {
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        });
    }
    meta.source = transmit.src_ip;
    meta
}

impl AsyncUdpSocket for MmsgSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller { socket: self, wait: None })
    }

    /// A transmit is a datagram, or several with their segment size: which of them go
    /// together is not for quinn to say here.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let data = transmit.contents;
        let segment = transmit.segment_size.unwrap_or(data.len());
        self.outbox.push(transmit.destination, send_meta(transmit), data, segment)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut errors = 0;
        loop {
            ready!(self.outbox.socket().get_ref().poll_recv_ready(cx))?;
            let mut count = 0;
            let result = self.outbox.socket().get_ref().try_io(Interest::READABLE, || {
                // Preparing a buffer takes time, and mostly few messages wait.
                let capacity = if self.last_received.load(Ordering::Relaxed) < 4 { 4 } else { 32 };
                count = match capacity {
                    4 => self.receive::<4>(bufs, metas)?,
                    _ => self.receive::<32>(bufs, metas)?,
                };
                self.last_received.store(count, Ordering::Relaxed);
                let capacity = capacity.min(bufs.len()).min(metas.len());
                match count {
                    // It was shut down, and gives nothing for ever.
                    0 => Err(io::ErrorKind::NotConnected.into()),
                    // A batch that is not full ended where nothing was left. What has come since
                    // is a new event, so readiness can be cleared without another call.
                    n if n < capacity => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            });
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            // At "would block" readiness is cleared, and the next look waits. Any other error is
            // about an earlier datagram, and comes once; quinn would end the endpoint.
            if let Some(error) = result.err().filter(|e| e.kind() != io::ErrorKind::WouldBlock) {
                errors += 1;
                if errors == ERRORS {
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.outbox.socket().get_ref().local_addr()
    }

    /// Fewer from the moment at which the kernel says that the way has no segmentation.
    fn max_transmit_segments(&self) -> usize {
        if self.outbox.socket().gso() { SEGMENTS } else { 1 }
    }

    fn max_receive_segments(&self) -> usize {
        if self.outbox.socket().gro() { SEGMENTS } else { 1 }
    }

    fn may_fragment(&self) -> bool {
        self.may_fragment
    }
}

impl Drop for MmsgSocket {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

type Wait = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Waits for space, for one connection. Quinn asks before every send, and mostly there is.
struct Poller {
    socket: Arc<MmsgSocket>,
    wait: Option<Wait>,
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, wait } = self.get_mut();
        if wait.is_none() && !socket.outbox.is_full() {
            return Poll::Ready(Ok(()));
        }
        let waiting = wait.get_or_insert_with(|| {
            let socket = Arc::clone(socket);
            Box::pin(async move { socket.outbox.wait_for_space().await })
        });
        ready!(waiting.as_mut().poll(cx));
        *wait = None;
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("waiting", &self.wait.is_some()).finish_non_exhaustive()
    }
}

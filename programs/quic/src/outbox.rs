//! Datagrams on their way out, those of all connections: sent together, a moment after they were
//! made.
//!
//! Quinn hands over ten datagrams at a time, at most, and does so twice before it lets another task
//! have its turn. Here they wait in a `SendQueue` until it is the turn of a task of the socket's
//! own, which sends all of them in one call, the neighbours of one connection as one GSO batch. The
//! kernel has about as much work with a long GSO batch as with a short one.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mmsg::{BatchSocket, Offload, SendMeta, SendMsg, SendQueue};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

/// Bytes that may wait while the socket takes no more: a dozen of the longest GSO batches.
const BOUND: usize = 1 << 20;
/// What a datagram counts in the queue beside its payload, at most.
const OVERHEAD: usize = SendQueue::OVERHEAD + size_of::<SendMeta>();

#[derive(Debug)]
pub struct Outbox {
    socket: Offload<UdpSocket>,
    waiting: Mutex<SendQueue>,
    /// Something waits, or the outbox is closed.
    filled: Notify,
    /// There was no space for what was to be pushed. Changed under the queue's lock.
    full: AtomicBool,
    /// There is space again.
    emptied: Notify,
    closed: AtomicBool,
}

impl Outbox {
    /// An outbox of this socket, which sends until it is closed. Needs a runtime to do so in.
    pub fn new(socket: Offload<UdpSocket>) -> Arc<Self> {
        let outbox = Arc::new(Self {
            socket,
            waiting: Mutex::new(SendQueue::new(BOUND)),
            filled: Notify::new(),
            full: AtomicBool::new(false),
            emptied: Notify::new(),
            closed: AtomicBool::new(false),
        });
        tokio::spawn(Arc::clone(&outbox).send());
        outbox
    }

    pub fn socket(&self) -> &Offload<UdpSocket> {
        &self.socket
    }

    /// Takes the datagrams that lie one after another in `data`, each of `segment` bytes but the
    /// last: all of them, or none, by `WouldBlock`, if there is no space.
    pub fn push(
        &self,
        dest: SocketAddr,
        meta: SendMeta,
        data: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        let parts = data.chunks(segment.max(1));
        let mut waiting = self.waiting();
        let idle = waiting.is_empty();
        if waiting.bytes() + data.len() + parts.len() * OVERHEAD > BOUND {
            self.full.store(true, Ordering::Relaxed);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for part in parts {
            waiting.push(&SendMsg::to(dest, part).with_meta(&meta))?;
        }
        drop(waiting);
        if idle {
            self.filled.notify_one();
        }
        Ok(())
    }

    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Waits until there is space.
    pub async fn wait_for_space(&self) {
        let mut emptied = std::pin::pin!(self.emptied.notified());
        // From here on it is woken: looking before would be to miss it.
        emptied.as_mut().enable();
        if self.is_full() {
            emptied.await;
        }
    }

    /// Sends what waits, as far as the socket takes it, and nothing from then on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let _ = self.flush();
        self.filled.notify_one();
    }

    /// The task.
    async fn send(self: Arc<Self>) {
        while !self.closed.load(Ordering::Relaxed) {
            self.filled.notified().await;
            while self.flush().is_err() {
                // An error here is one of the runtime's end.
                if self.socket.get_ref().writable().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Sends all that waits; `WouldBlock` if the socket does not take it now.
    fn flush(&self) -> io::Result<()> {
        let mut waiting = self.waiting();
        while !waiting.is_empty() {
            let flush = || self.socket.lend().flush(&mut waiting);
            match self.socket.get_ref().try_io(Interest::WRITABLE, flush) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // A datagram that cannot be sent is a lost one to QUIC: it is sent again, or it was
                // a probe for a size that the path does not take.
                Err(_) => {
                    waiting.discard_front();
                }
            }
            if self.full.swap(false, Ordering::Relaxed) {
                self.emptied.notify_waiters();
            }
        }
        Ok(())
    }

    fn waiting(&self) -> MutexGuard<'_, SendQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

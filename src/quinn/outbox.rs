//! Datagrams of all connections on their way out, sent together by a task of the socket's own.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::tokio::net::UdpSocket;
use ::tokio::runtime::Handle;
use ::tokio::sync::Notify;

use crate::ancillary::SendMeta;
use crate::offload::Offload;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::tokio::AsyncBatchSocket;

/// Bytes that may wait while the socket accepts no more.
const BOUND: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Outbox {
    socket: Offload<UdpSocket>,
    /// The task takes it as a whole, so that nobody waits for a system call.
    waiting: Mutex<SendQueue>,
    /// Something waits, or the outbox is closed.
    filled: Notify,
    /// A push did not fit. Changed under the queue's lock.
    full: AtomicBool,
    /// There is space again.
    emptied: Notify,
    closed: AtomicBool,
    failed: AtomicU64,
}

impl Outbox {
    /// An outbox whose task sends until it is closed.
    pub(super) fn new(socket: Offload<UdpSocket>, runtime: &Handle) -> Arc<Self> {
        let outbox = Arc::new(Self {
            socket,
            waiting: Mutex::new(SendQueue::new(BOUND)),
            filled: Notify::new(),
            full: AtomicBool::new(false),
            emptied: Notify::new(),
            closed: AtomicBool::new(false),
            failed: AtomicU64::new(0),
        });
        runtime.spawn(Arc::clone(&outbox).send());
        outbox
    }

    pub(super) fn socket(&self) -> &Offload<UdpSocket> {
        &self.socket
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Takes the datagrams that lie one after another in `data`, each of `segment` bytes but the last: all
    /// of them, or none and `WouldBlock`.
    pub(super) fn push(
        &self,
        dest: SocketAddr,
        meta: &SendMeta,
        data: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        let datagrams = data.chunks(segment.max(1));
        let mut waiting = self.waiting();
        let was_empty = waiting.is_empty();
        let pushed =
            waiting.push_all(datagrams.map(|data| SendMsg::to(dest, data).with_meta(meta)));
        let pushed = pushed.map_err(io::Error::from);
        if pushed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.full.store(true, Ordering::Release);
        }
        drop(waiting);
        if was_empty {
            self.filled.notify_one();
        }
        pushed
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Waits until there is space.
    pub(super) async fn wait_for_space(&self) {
        let mut emptied = std::pin::pin!(self.emptied.notified());
        // From here on it is woken: a look before could miss the moment.
        emptied.as_mut().enable();
        if self.is_full() {
            emptied.await;
        }
    }

    /// Ends the task once it has sent what waits.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.filled.notify_one();
    }

    /// The task.
    async fn send(self: Arc<Self>) {
        let mut leaving = SendQueue::new(BOUND);
        while self.take(&mut leaving).await {
            let failed = |_: &SendMsg<'_>, _| _ = self.failed.fetch_add(1, Ordering::Relaxed);
            if self.socket.flush_each(&mut leaving, failed).await.is_err() {
                // There is no waiting for the socket, for lack of a descriptor for example.
                self.failed.fetch_add(leaving.len() as u64, Ordering::Relaxed);
                leaving.clear();
            }
        }
    }

    /// Exchanges the empty queue for what waits. False if the outbox is closed and nothing does.
    async fn take(&self, empty: &mut SendQueue) -> bool {
        loop {
            {
                let mut waiting = self.waiting();
                if !waiting.is_empty() {
                    mem::swap(&mut *waiting, empty);
                    if self.full.swap(false, Ordering::AcqRel) {
                        self.emptied.notify_waiters();
                    }
                    return true;
                }
            }
            if self.closed.load(Ordering::Acquire) {
                return false;
            }
            self.filled.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, SendQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

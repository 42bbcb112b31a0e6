//! Datagrams of all connections on their way out, sent together by a task of the socket's own.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use mmsg::{AsyncBatchSocket, Offload, SendMeta};
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::batches::{Batches, MAX_SEGMENTS};

/// Bytes that may wait while the socket accepts no more.
const BOUND: usize = 1 << 20;
/// As many bytes are sent at once. Fewer wait for another turn of the connections, as long as the connections add
/// bytes.
const ENOUGH: usize = 48 << 10;

#[derive(Debug)]
pub(crate) struct Outbox {
    socket: Offload<UdpSocket>,
    /// The task takes all batches at once, so that no connection waits for a system call.
    waiting: Mutex<Batches>,
    /// Notified when datagrams wait, or the outbox is closed.
    filled: Notify,
    /// A push did not fit. Changed under the queue's lock.
    full: AtomicBool,
    /// Notified when there is space again.
    emptied: Notify,
    closed: AtomicBool,
    failed: AtomicU64,
}

impl Outbox {
    /// An outbox whose task sends until it is closed.
    pub(crate) fn new(socket: Offload<UdpSocket>, runtime: &Handle) -> Arc<Self> {
        let outbox = Arc::new(Self {
            socket,
            waiting: Mutex::new(Batches::default()),
            filled: Notify::new(),
            full: AtomicBool::new(false),
            emptied: Notify::new(),
            closed: AtomicBool::new(false),
            failed: AtomicU64::new(0),
        });
        runtime.spawn(Arc::clone(&outbox).send());
        outbox
    }

    pub(crate) fn socket(&self) -> &Offload<UdpSocket> {
        &self.socket
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Takes the datagrams of `data`, each of the segment size in `meta` but the last: all of them, or none and
    /// `WouldBlock`.
    pub(crate) fn push(&self, dest: SocketAddr, meta: SendMeta, data: &[u8]) -> io::Result<()> {
        // With GSO off, datagrams are sent one by one, and a batch may describe any number of them.
        let most = match self.socket.max_segments() {
            1 => MAX_SEGMENTS,
            most => most,
        };
        let mut waiting = self.waiting();
        let was_empty = waiting.is_empty();
        if !was_empty && waiting.bytes() + data.len() > BOUND {
            self.full.store(true, Ordering::Release);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        waiting.push(dest, meta, data, most);
        drop(waiting);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Waits until there is space.
    pub(crate) async fn wait_for_space(&self) {
        let mut emptied = std::pin::pin!(self.emptied.notified());
        // Enabled before `full` is checked: otherwise a wake-up in between would be missed.
        emptied.as_mut().enable();
        if self.is_full() {
            emptied.await;
        }
    }

    /// Ends the task once it has sent all that waits.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.filled.notify_one();
    }

    /// The task: sends until the outbox is closed.
    async fn send(self: Arc<Self>) {
        let mut leaving = Batches::default();
        while self.take(&mut leaving).await {
            let failed = |batch| {
                self.failed.fetch_add(leaving.datagrams(batch) as u64, Ordering::Relaxed);
            };
            // An error means that the task cannot wait for the socket, for lack of a descriptor for example.
            // The rest is lost then, as by a full buffer on the way.
            let _ = self.socket.send_each(leaving.msgs(), |batch, _| failed(batch)).await;
            leaving.clear();
        }
    }

    /// Exchanges the empty batches for those that wait. False if the outbox is closed and none wait.
    async fn take(&self, empty: &mut Batches) -> bool {
        let mut seen = 0;
        loop {
            let closed = self.closed.load(Ordering::Acquire);
            {
                let mut waiting = self.waiting();
                let bytes = waiting.bytes();
                if bytes > 0 && (bytes >= ENOUGH || bytes == seen || closed) {
                    mem::swap(&mut *waiting, empty);
                    if self.full.swap(false, Ordering::AcqRel) {
                        self.emptied.notify_waiters();
                    }
                    return true;
                }
                seen = bytes;
            }
            match seen {
                0 if closed => return false,
                0 => self.filled.notified().await,
                _ => yield_to_others().await,
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Batches> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the tasks that are ready have their turn. tokio's `yield_now` would look for events of sockets in between,
/// which is a system call.
async fn yield_to_others() {
    let mut given = false;
    poll_fn(|cx| {
        if mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

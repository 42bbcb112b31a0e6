//! The socket that its handle and its flusher share. It is quiet, tokio's own, until a burst begins the batches.

use std::future::poll_fn;
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;

use mmsg::errors::PushError;
use mmsg::offload::OffloadState;
use mmsg::{Message, SendMsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::{self, AbortHandle, coop};
use tokio::time;

use crate::receive::Received;
use crate::send::{MAX_QUEUED, Sends, is_would_block, lock};
use crate::sys;

/// The answers to a batch of this many datagrams or fewer are sent at once: for them, waking the flusher costs more than a
/// GSO batch saves.
const FEW: usize = 4;
/// The default bound of the queue in bytes.
const QUEUE: usize = 1 << 20;
/// How long to sleep where tokio does not report when the socket has space.
const SLEEP: Duration = Duration::from_millis(4);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) socket: UdpSocket,
    received: Mutex<Received>,
    /// The bound of the queue in bytes.
    pub(crate) bound: AtomicUsize,
    /// Set by the first burst, under the lock of `received`.
    busy: OnceLock<Box<Busy>>,
}

/// What a socket has that has met a burst.
#[derive(Debug)]
pub(crate) struct Busy {
    pub(crate) offload: OffloadState,
    pub(crate) sends: Sends,
    /// Whether more than [`FEW`] datagrams came since the kernel had none.
    has_many: AtomicBool,
    /// The task that received last.
    receiver: Mutex<Option<task::Id>>,
    flusher: Mutex<Option<Flusher>>,
    /// A forked child must not send what its parent queued.
    process: u32,
}

/// The task that sends what was queued, in the runtime of the last sender.
#[derive(Debug)]
struct Flusher {
    runtime: runtime::Id,
    task: AbortHandle,
    /// Notified of queued datagrams.
    queued: Arc<Notify>,
}

/// A receive: tokio's call for a quiet socket, and what takes the next datagram of a batch.
pub(crate) struct Call<B, R> {
    pub(crate) plain: fn(&UdpSocket, &mut B) -> io::Result<R>,
    pub(crate) take: fn(&mut B, &[u8], &Message<'_>) -> io::Result<R>,
    pub(crate) peeks: bool,
}

impl Shared {
    pub(crate) fn new(socket: UdpSocket) -> Self {
        let bound = AtomicUsize::new(QUEUE);
        Self { socket, received: Mutex::default(), bound, busy: OnceLock::new() }
    }

    /// `None` while the socket is quiet.
    pub(crate) fn busy(&self) -> Option<&Busy> {
        self.busy.get().map(|busy| &**busy)
    }

    /// Keeps the socket quiet. Returns whether it has met no burst yet.
    pub(crate) fn stay_quiet(&self) -> bool {
        lock(&self.received).stay_quiet();
        self.busy().is_none()
    }

    /// Whether datagrams of a batch are left.
    pub(crate) fn has_left(&self) -> bool {
        lock(&self.received).next().is_some()
    }

    /// Whether a datagram is left, or waits where the kernel may have coalesced it.
    pub(crate) fn has_more(&self) -> bool {
        let offload = self.busy().map(|busy| &busy.offload);
        lock(&self.received).has_more(&self.socket, offload)
    }

    /// Receives without waiting.
    pub(crate) fn try_receive<B, R>(&self, buf: &mut B, call: &Call<B, R>) -> io::Result<R> {
        let mut received = lock(&self.received);
        let mut busy = self.busy();
        if received.next().is_none() {
            if busy.is_none() && !received.may_be_burst() {
                let result = (call.plain)(&self.socket, buf);
                if result.is_err() || !call.peeks {
                    received.count(result.is_ok());
                }
                return result;
            }
            let takes = busy.is_some() && !call.peeks;
            let offload = busy.map(|busy| &busy.offload);
            let has_many = received.fill(&self.socket, offload, takes)? > FEW;
            if has_many && busy.is_none() {
                match OffloadState::new(&self.socket) {
                    Ok(offload) => _ = self.busy.set(Box::new(Busy::new(offload))),
                    Err(_) => received.stay_quiet(),
                }
                busy = self.busy();
            }
            if let Some(busy) = busy {
                busy.has_many.store(received.in_turn() > FEW, Ordering::Relaxed);
            }
        }
        let (data, message) = received.next().ok_or(io::ErrorKind::WouldBlock)?;
        let (result, len) = ((call.take)(buf, data, &message), data.len());
        if !call.peeks {
            received.advance(len);
            if let Some(busy) = busy {
                *lock(&busy.receiver) = task::try_id();
            }
        }
        result
    }

    /// Waits for a datagram like tokio's futures: any number of tasks may wait, and an error of the socket wakes them.
    pub(crate) async fn receive<B, R>(&self, buf: &mut B, call: &Call<B, R>) -> io::Result<R> {
        loop {
            self.socket.ready(Interest::READABLE.add(Interest::ERROR)).await?;
            let unit = poll_fn(coop::poll_proceed).await;
            let mut result = self.try_receive(buf, call);
            if result.as_ref().is_err_and(is_would_block) {
                let no_error = || io::ErrorKind::WouldBlock.into();
                let error = || Err(self.socket.take_error()?.unwrap_or_else(no_error));
                result = self.socket.try_io(Interest::ERROR, error);
            }
            if !result.as_ref().is_err_and(is_would_block) {
                unit.made_progress();
                return result;
            }
        }
    }

    /// Waits for a datagram like tokio's `poll_` functions: the task of the last call is woken.
    pub(crate) fn poll_receive<B, R>(
        &self,
        cx: &mut Context<'_>,
        buf: &mut B,
        call: &Call<B, R>,
    ) -> Poll<io::Result<R>> {
        loop {
            ready!(self.socket.poll_recv_ready(cx))?;
            match self.try_receive(buf, call) {
                Err(error) if is_would_block(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Queues a message. `None`: it is to be sent at once. `WouldBlock`: the queue is full, and has been flushed as far as
    /// the socket takes it.
    pub(crate) fn queue(self: &Arc<Self>, msg: &SendMsg<'_>) -> Option<io::Result<usize>> {
        let Busy { sends, .. } = self.busy()?;
        if let Some(error) = sends.take_error(|dest| dest == msg.dest()) {
            return Some(Err(error));
        }
        let bound = self.bound.load(Ordering::Relaxed);
        let waits = bound > 0 && msg.len() <= MAX_QUEUED && self.waits_for_more();
        if sends.is_empty() && !waits {
            return None;
        }
        match sends.push(msg, bound) {
            Ok(()) => {
                if waits || self.flush_now().is_pending() {
                    self.wake_flusher();
                }
                Some(Ok(msg.len()))
            }
            // It must not overtake the others.
            Err(error) if self.flush_now().is_ready() && error != PushError::Full => None,
            Err(_) => Some(Err(io::ErrorKind::WouldBlock.into())),
        }
    }

    /// Whether more datagrams will probably be sent in this turn of the runtime, at whose end the flusher runs.
    ///
    /// Outside of tasks nothing runs after a `block_on`. On several threads another one may run the flusher, at once, and
    /// waking it costs more than a batch saves, unless a loop receives and answers.
    fn waits_for_more(&self) -> bool {
        let Some(busy) = self.busy() else { return false };
        if !busy.has_many.load(Ordering::Relaxed) && busy.sends.is_empty() {
            return false;
        }
        let Ok(runtime) = Handle::try_current() else { return false };
        let has_one_thread = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        match task::try_id() {
            Some(_) if has_one_thread => true,
            None => has_one_thread && self.has_left(),
            task => task == *lock(&busy.receiver),
        }
    }

    /// Like [`queue`](Self::queue), and waits while the queue is full.
    pub(crate) async fn queue_later(
        self: &Arc<Self>,
        msg: &SendMsg<'_>,
    ) -> Option<io::Result<usize>> {
        loop {
            match self.queue(msg)? {
                Err(error) if is_would_block(&error) => match self.space().await {
                    // Queueing costs no unit of the budget. A task that only sends yields here.
                    Ok(()) => task::yield_now().await,
                    Err(error) => return Some(Err(error)),
                },
                result => return Some(result),
            }
        }
    }

    /// The result of [`queue`](Self::queue) for a `poll_` function: waits for space if it is `WouldBlock`.
    pub(crate) fn poll_queued(
        &self,
        cx: &mut Context<'_>,
        queued: io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if queued.as_ref().is_err_and(is_would_block) {
            ready!(self.socket.poll_send_ready(cx))?;
            // There is space. A task that only sends yields here.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(queued)
    }

    /// Sends what is queued, as far as the kernel takes it without waiting.
    pub(crate) fn flush_now(&self) -> Poll<()> {
        self.flush(false)
    }

    /// The same, even if tokio remembers no space: its runtime may have ended, or not yet have seen the event.
    pub(crate) fn flush_last(&self) -> Poll<()> {
        self.flush(true)
    }

    fn flush(&self, asks: bool) -> Poll<()> {
        match self.busy() {
            Some(Busy { sends, offload, .. }) if !sends.is_empty() => {
                sends.flush(&self.socket, offload, asks)
            }
            _ => Poll::Ready(()),
        }
    }

    /// Waits until the socket may have space.
    pub(crate) async fn space(&self) -> io::Result<()> {
        let ready = self.socket.ready(Interest::WRITABLE).await?;
        // After an error tokio reports a socket as writable (write closed) for ever.
        if ready.is_write_closed() || sys::STAYS_WRITABLE {
            time::sleep(SLEEP).await;
        }
        Ok(())
    }

    /// Ends what the handle began: its last datagrams are sent, as far as the kernel takes them without waiting, and the
    /// descriptor is the handle's alone. A duplicate of it gets datagrams as they come again.
    pub(crate) fn end(self: &Arc<Self>, owners: usize) {
        let Some(busy) = self.busy().filter(|busy| busy.process == process::id()) else { return };
        let _ = self.flush_last();
        let _ = busy.offload.disable_gro(&self.socket);
        let Some(flusher) = lock(&busy.flusher).take() else { return };
        flusher.task.abort();
        // On another thread it may be sending, which does not wait.
        while Arc::strong_count(self) > owners {
            thread::yield_now();
        }
    }

    /// Wakes the flusher. Starts it if none runs in this runtime: another one may not be driven now.
    fn wake_flusher(self: &Arc<Self>) {
        let (Some(busy), Ok(current)) = (self.busy(), Handle::try_current()) else { return };
        let (mut flusher, id) = (lock(&busy.flusher), current.id());
        if let Some(Flusher { runtime, task, queued }) = &*flusher {
            if *runtime == id && !task.is_finished() {
                return queued.notify_one();
            }
            task.abort();
        }
        let queued = Arc::<Notify>::default();
        let task = current.spawn(flush(Arc::downgrade(self), Arc::clone(&queued))).abort_handle();
        *flusher = Some(Flusher { runtime: id, task, queued });
    }
}

impl Busy {
    fn new(offload: OffloadState) -> Self {
        Self {
            offload,
            sends: Sends::new(),
            has_many: AtomicBool::new(false),
            receiver: Mutex::default(),
            flusher: Mutex::default(),
            process: process::id(),
        }
    }
}

/// The flusher: sends what was queued, whenever it has its turn. An ended runtime drops it at once, under the lock. It does not
/// wait for readiness, which would keep the descriptor open.
async fn flush(shared: Weak<Shared>, queued: Arc<Notify>) {
    while let Some(flushed) = shared.upgrade().map(|shared| shared.flush_now()) {
        match flushed {
            Poll::Pending => time::sleep(SLEEP).await,
            Poll::Ready(()) => queued.notified().await,
        }
    }
}

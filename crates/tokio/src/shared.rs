//! The socket that its handle and its flusher share. It is quiet, tokio's own, until a burst begins the batches.

use std::future::{Future, poll_fn};
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mmsg::errors::PushError;
use mmsg::offload::OffloadState;
use mmsg::{Message, SendMsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::{self, AbortHandle, coop};
use tokio::time;

use crate::receive::Received;
use crate::send::{Sends, is_would_block, lock};
use crate::sys;

/// The answers to a batch of this many datagrams or fewer are sent at once: for them, waking the flusher costs more than a
/// GSO batch saves.
const FEW: usize = 4;
/// How long to sleep where tokio does not report when the socket has space.
const SLEEP: Duration = Duration::from_millis(4);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) socket: UdpSocket,
    received: Mutex<Received>,
    /// Set by the first burst, under the lock of `received`.
    offload: OnceLock<OffloadState>,
    /// Whether the last batch had more than [`FEW`] datagrams.
    has_many: AtomicBool,
    /// The task that received last.
    receiver: Mutex<Option<task::Id>>,
    pub(crate) sends: Sends,
    flusher: Mutex<Option<AbortHandle>>,
    /// Notified of queued datagrams.
    queued: Arc<Notify>,
    /// A forked child must not send what its parent queued.
    process: u32,
}

/// A receive: tokio's call for a quiet socket, and what takes the next datagram of a batch.
pub(crate) struct Call<B, R> {
    pub(crate) plain: fn(&UdpSocket, &mut B) -> io::Result<R>,
    pub(crate) take: fn(&mut B, &[u8], &Message<'_>) -> io::Result<R>,
    pub(crate) peeks: bool,
}

impl Shared {
    pub(crate) fn new(socket: UdpSocket) -> Self {
        Self {
            socket,
            received: Mutex::default(),
            offload: OnceLock::new(),
            has_many: AtomicBool::new(false),
            receiver: Mutex::default(),
            sends: Sends::new(),
            flusher: Mutex::default(),
            queued: Arc::default(),
            process: process::id(),
        }
    }

    /// `None` while the socket is quiet.
    pub(crate) fn offload(&self) -> Option<&OffloadState> {
        self.offload.get()
    }

    /// Keeps the socket quiet. Returns whether it has met no burst yet.
    pub(crate) fn stay_quiet(&self) -> bool {
        lock(&self.received).stay_quiet();
        self.offload().is_none()
    }

    /// Whether datagrams of a batch are left.
    pub(crate) fn has_left(&self) -> bool {
        lock(&self.received).next().is_some()
    }

    /// Receives without waiting.
    pub(crate) fn try_receive<B, R>(&self, buf: &mut B, call: &Call<B, R>) -> io::Result<R> {
        let mut received = lock(&self.received);
        if received.next().is_none() {
            let offload = self.offload();
            if offload.is_none() && !received.may_be_burst() {
                let result = (call.plain)(&self.socket, buf);
                if result.is_err() || !call.peeks {
                    received.count(result.is_ok());
                }
                return result;
            }
            let takes = offload.is_some() && !call.peeks;
            let has_many = received.fill(&self.socket, offload, takes)? > FEW;
            self.has_many.store(has_many, Ordering::Relaxed);
            if has_many && offload.is_none() {
                match OffloadState::new(&self.socket) {
                    Ok(offload) => _ = self.offload.set(offload),
                    Err(_) => received.stay_quiet(),
                }
            }
        }
        let (data, message) = received.next().ok_or(io::ErrorKind::WouldBlock)?;
        let (result, len) = ((call.take)(buf, data, &message), data.len());
        if !call.peeks {
            received.advance(len);
            *lock(&self.receiver) = task::try_id();
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
        self.offload()?;
        if let Some(error) = self.sends.take_error(|dest| dest == msg.dest()) {
            return Some(Err(error));
        }
        let (may_queue, waits) = (self.sends.may_queue(msg), self.waits_for_more());
        if self.sends.is_empty() && !(may_queue && waits) {
            return None;
        }
        match if may_queue { self.sends.push(msg) } else { Err(PushError::TooLong) } {
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
        if !self.has_many.load(Ordering::Relaxed) && self.sends.is_empty() {
            return false;
        }
        let Ok(runtime) = Handle::try_current() else { return false };
        let has_one_thread = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        match task::try_id() {
            Some(_) if has_one_thread => true,
            None => has_one_thread && self.has_left(),
            task => task == *lock(&self.receiver),
        }
    }

    /// Sends a message by the queue, or by `plain`.
    pub(crate) async fn send(
        self: &Arc<Self>,
        msg: &SendMsg<'_>,
        plain: impl Future<Output = io::Result<usize>>,
    ) -> io::Result<usize> {
        loop {
            match self.queue(msg) {
                None => return plain.await,
                Some(Err(error)) if is_would_block(&error) => self.space().await?,
                Some(result) => return result,
            }
            // Queueing costs no unit of the budget. A task that only sends yields here.
            task::yield_now().await;
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
        match self.offload() {
            Some(offload) if !self.sends.is_empty() => self.sends.flush(&self.socket, offload),
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

    /// Ends what the handle began: its last datagrams are sent, as far as the kernel takes them without waiting.
    pub(crate) fn end(&self) {
        if self.offload().is_some() && self.process == process::id() {
            let _ = self.flush_now();
            lock(&self.flusher).take().inspect(AbortHandle::abort);
        }
    }

    /// Starts the flusher if it does not run.
    fn wake_flusher(self: &Arc<Self>) {
        let mut flusher = lock(&self.flusher);
        if flusher.as_ref().is_none_or(AbortHandle::is_finished) {
            let Ok(runtime) = Handle::try_current() else { return };
            let flush = flush(Arc::downgrade(self), Arc::clone(&self.queued));
            *flusher = Some(runtime.spawn(flush).abort_handle());
        }
        self.queued.notify_one();
    }
}

/// The flusher: sends what was queued, whenever it has its turn. An ended runtime drops it at once, under the lock.
async fn flush(shared: Weak<Shared>, queued: Arc<Notify>) {
    while let Some(shared) = shared.upgrade() {
        match shared.flush_now() {
            Poll::Pending if shared.space().await.is_err() => return,
            Poll::Pending => {}
            Poll::Ready(()) => {
                drop(shared);
                queued.notified().await;
            }
        }
    }
}

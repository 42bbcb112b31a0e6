//! The socket that its handle and its flusher share. It is quiet, tokio's own, until a burst begins the batches.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
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
use tokio::task::{self, coop};
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
    stays_quiet: AtomicBool,
    /// Whether the last batch had more than [`FEW`] datagrams.
    has_many: AtomicBool,
    /// Whether datagrams of it are left.
    has_left: AtomicBool,
    /// The task that received last.
    receiver: Mutex<Option<task::Id>>,
    pub(crate) sends: Sends,
    flusher: Arc<Flusher>,
    /// A forked child must not send what its parent queued.
    process: u32,
}

/// Copies the next datagram of a batch, and says what the receive returns.
pub(crate) type Take<B, R> = fn(&mut B, &[u8], &Message<'_>) -> io::Result<R>;

impl Shared {
    pub(crate) fn new(socket: UdpSocket, stays_quiet: bool) -> Self {
        Self {
            socket,
            received: Mutex::default(),
            offload: OnceLock::new(),
            stays_quiet: AtomicBool::new(stays_quiet),
            has_many: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            receiver: Mutex::new(None),
            sends: Sends::new(),
            flusher: Arc::default(),
            process: process::id(),
        }
    }

    /// `None` while the socket is quiet.
    pub(crate) fn offload(&self) -> Option<&OffloadState> {
        self.offload.get()
    }

    /// Keeps the socket quiet. Returns whether it has met no burst yet.
    pub(crate) fn stay_quiet(&self) -> bool {
        let _received = lock(&self.received);
        self.stays_quiet.store(true, Ordering::Relaxed);
        self.offload().is_none()
    }

    /// Whether datagrams of a batch are left.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Receives without waiting: by tokio's call `plain`, or from a batch.
    pub(crate) fn try_receive<B, R>(
        &self,
        buf: &mut B,
        plain: impl Fn(&UdpSocket, &mut B) -> io::Result<R>,
        take: Take<B, R>,
        peeks: bool,
    ) -> io::Result<R> {
        let mut received = lock(&self.received);
        let Some(offload) = self.offload() else {
            let result = plain(&self.socket, buf);
            self.count(&mut received, result.is_ok() && !peeks);
            return result;
        };
        self.take(&mut received, offload, buf, take, peeks)
    }

    /// Waits for a datagram like tokio's futures: any number of tasks may wait, and an error of the socket wakes them.
    pub(crate) async fn receive<B, R>(
        &self,
        buf: &mut B,
        plain: impl Fn(&UdpSocket, &mut B) -> io::Result<R>,
        take: Take<B, R>,
        peeks: bool,
    ) -> io::Result<R> {
        loop {
            self.socket.ready(Interest::READABLE.add(Interest::ERROR)).await?;
            let unit = poll_fn(coop::poll_proceed).await;
            let mut result = self.try_receive(buf, &plain, take, peeks);
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
        plain: impl FnOnce(&UdpSocket, &mut Context<'_>, &mut B) -> Poll<io::Result<R>>,
        take: Take<B, R>,
        peeks: bool,
    ) -> Poll<io::Result<R>> {
        let mut received = lock(&self.received);
        let Some(offload) = self.offload() else {
            let result = plain(&self.socket, cx, buf);
            self.count(&mut received, matches!(result, Poll::Ready(Ok(_))) && !peeks);
            return result;
        };
        loop {
            ready!(self.socket.poll_recv_ready(cx))?;
            match self.take(&mut received, offload, buf, take, peeks) {
                Err(error) if is_would_block(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Counts a plain receive, and begins the batches at a burst. A socket that cannot have them remains quiet.
    fn count(&self, received: &mut Received, found: bool) {
        if received.is_burst(found) && !self.stays_quiet.load(Ordering::Relaxed) {
            match received.begin(&self.socket) {
                Ok(offload) => _ = self.offload.set(offload),
                Err(_) => self.stays_quiet.store(true, Ordering::Relaxed),
            }
        }
    }

    /// Hands out the next datagram. Receives a batch if none is left.
    fn take<B, R>(
        &self,
        received: &mut Received,
        offload: &OffloadState,
        buf: &mut B,
        take: Take<B, R>,
        peeks: bool,
    ) -> io::Result<R> {
        if received.next().is_none() {
            let datagrams = received.fill(&self.socket, offload, !peeks)?;
            self.has_many.store(datagrams > FEW, Ordering::Relaxed);
        }
        let (data, message) = received.next().ok_or(io::ErrorKind::WouldBlock)?;
        let (result, len) = (take(buf, data, &message), data.len());
        if !peeks {
            received.advance(len);
            *lock(&self.receiver) = task::try_id();
        }
        self.has_left.store(received.next().is_some(), Ordering::Relaxed);
        result
    }

    /// Queues a message. `None`: it is to be sent at once. `WouldBlock`: the queue is full, and has been flushed as far as
    /// the socket takes it.
    fn queue(self: &Arc<Self>, msg: &SendMsg<'_>) -> Option<io::Result<usize>> {
        self.offload()?;
        if let Some(error) = self.sends.take_error(|dest| dest == msg.dest()) {
            return Some(Err(error));
        }
        let (may_queue, waits) = (self.sends.may_queue(msg), self.waits_for_more());
        if self.sends.is_empty() && !(may_queue && waits) {
            return None;
        }
        match if may_queue { self.sends.push(msg) } else { Err(PushError::TooLong) } {
            Ok(is_first) => {
                let is_left = if waits { is_first } else { self.flush_now().is_pending() };
                if is_left || waits && !self.flusher.runs.load(Ordering::Acquire) {
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

    pub(crate) fn try_queue(self: &Arc<Self>, msg: &SendMsg<'_>) -> Option<io::Result<usize>> {
        match self.queue(msg)? {
            Err(error) if is_would_block(&error) => self.queue(msg),
            result => Some(result),
        }
    }

    pub(crate) fn poll_queue(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        msg: &SendMsg<'_>,
    ) -> Option<Poll<io::Result<usize>>> {
        match self.queue(msg)? {
            Err(error) if is_would_block(&error) => match self.socket.poll_send_ready(cx) {
                Poll::Ready(Err(error)) => Some(Poll::Ready(Err(error))),
                // There is space. A task that only sends yields here.
                Poll::Ready(Ok(())) => Some(yield_now(cx)),
                Poll::Pending => Some(Poll::Pending),
            },
            result => Some(Poll::Ready(result)),
        }
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
            self.flusher.pushed.notify_one();
        }
    }

    /// Starts the flusher if it does not run.
    fn wake_flusher(self: &Arc<Self>) {
        if let Ok(runtime) = Handle::try_current() {
            if !self.flusher.runs.swap(true, Ordering::AcqRel) {
                // An ended runtime drops it at once.
                let running = Running(Arc::clone(&self.flusher));
                runtime.spawn(flush(Arc::downgrade(self), running));
            }
        }
        self.flusher.pushed.notify_one();
    }
}

fn yield_now<T>(cx: &Context<'_>) -> Poll<T> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

#[derive(Debug, Default)]
struct Flusher {
    /// Notified of the first datagram in the queue, and of the end.
    pushed: Notify,
    runs: AtomicBool,
}

/// The flusher runs while this exists.
struct Running(Arc<Flusher>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Release);
    }
}

/// Sends what was queued, whenever it has its turn, until the socket is dropped.
async fn flush(shared: Weak<Shared>, running: Running) {
    let pushed = &running.0.pushed;
    while let Some(shared) = shared.upgrade() {
        if shared.flush_now().is_ready() {
            drop(shared);
            pushed.notified().await;
            continue;
        }
        let (mut space, mut pushed) = (pin!(shared.space()), pin!(pushed.notified()));
        let waited = poll_fn(|cx| match space.as_mut().poll(cx) {
            Poll::Pending => pushed.as_mut().poll(cx).map(Ok),
            ready => ready,
        });
        if waited.await.is_err() {
            return;
        }
    }
}

//! The socket that its handle and its flusher share. It is quiet, tokio's own, until a burst begins the batches.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;

use bytes::BufMut;
use mmsg::errors::PushError;
use mmsg::offload::OffloadState;
use mmsg::{Message, SendMsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{self, AbortHandle};
use tokio::time;

use crate::received::Received;
use crate::sends::{Sends, is_would_block, lock};
use crate::sys;

/// The answers to this many datagrams or fewer are sent at once: for them, waking the flusher costs more than a GSO batch saves.
const FEW: usize = 4;
/// The default bound of the queue in bytes.
const QUEUE: usize = 1 << 18;
/// How long to sleep where tokio does not report when the socket has space.
const SLEEP: Duration = Duration::from_millis(4);

#[derive(Debug)]
pub(crate) struct Shared {
    me: Weak<Self>,
    pub(crate) socket: UdpSocket,
    /// Locked before `sends`.
    pub(crate) received: Mutex<Received>,
    /// The bound of the queue in bytes.
    pub(crate) bound: AtomicUsize,
    /// Set by the first burst, under the lock of `received`.
    pub(crate) busy: OnceLock<Busy>,
}

/// What a socket has that has met a burst.
#[derive(Debug)]
pub(crate) struct Busy {
    pub(crate) offload: OffloadState,
    pub(crate) sends: Mutex<Sends>,
}

/// A receive: tokio's call for a quiet socket, and what makes its result of a datagram of a batch.
pub(crate) struct Call<B, R> {
    pub(crate) plain: fn(&UdpSocket, &mut B) -> io::Result<R>,
    /// Gets the length that the buffer took.
    pub(crate) make: fn(usize, &Message<'_>) -> io::Result<R>,
    pub(crate) peeks: bool,
}

impl Shared {
    pub(crate) fn new(socket: UdpSocket) -> Arc<Self> {
        let (received, bound) = (Mutex::default(), AtomicUsize::new(QUEUE));
        let busy = OnceLock::new();
        Arc::new_cyclic(|me| Self { me: me.clone(), socket, received, bound, busy })
    }

    /// Whether datagrams of a batch are left.
    pub(crate) fn has_left(&self) -> bool {
        lock(&self.received).next().is_some()
    }

    /// Receives without waiting.
    pub(crate) fn try_receive<B: BufMut, R>(
        &self,
        buf: &mut B,
        call: &Call<B, R>,
    ) -> io::Result<R> {
        let mut received = lock(&self.received);
        while received.next().is_none() {
            if self.busy.get().is_none() && !received.may_be_burst() {
                let result = (call.plain)(&self.socket, buf);
                received.count(result.is_ok());
                return result;
            }
            self.fill(&mut received, !call.peeks)?;
        }
        let (data, message) = received.next().ok_or(io::ErrorKind::WouldBlock)?;
        // Without growing the buffer: like a receive, it drops the rest.
        let (len, taken) = (data.len(), data.len().min(buf.chunk_mut().len()));
        buf.put_slice(&data[..taken]);
        let result = (call.make)(taken, &message);
        if !call.peeks {
            received.advance(len);
        }
        result
    }

    /// Receives a batch. Many datagrams are a burst.
    fn fill(&self, received: &mut Received, takes: bool) -> io::Result<()> {
        let offload = self.busy.get().map(|busy| &busy.offload);
        let has_many = received.fill(&self.socket, offload, takes)? > FEW;
        let is_new = has_many && offload.is_none();
        if let Some(Ok(offload)) = is_new.then(|| OffloadState::new(&self.socket)) {
            let _ = self.busy.set(Busy { offload, sends: Mutex::new(Sends::new()) });
        }
        let Some(busy) = self.busy.get() else { return Ok(()) };
        let mut sends = lock(&busy.sends);
        let runtime = has_many.then(Handle::try_current).and_then(Result::ok);
        sends.receiver = runtime.map(|runtime| {
            let has_one_thread = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
            (has_one_thread.then(|| thread::current().id()), task::try_id())
        });
        // The runtime of the last flusher may not be driven now.
        if !sends.queue.is_empty() {
            self.start_flusher(&mut sends);
        }
        Ok(())
    }

    /// Waits for a datagram like tokio's futures: any number of tasks may wait, and an error of the socket wakes them.
    pub(crate) async fn receive<B: BufMut, R>(
        &self,
        buf: &mut B,
        call: &Call<B, R>,
    ) -> io::Result<R> {
        let receive = || match self.try_receive(buf, call) {
            Err(error) if is_would_block(&error) => {
                let pending = || Err(self.socket.take_error()?.unwrap_or(error));
                self.socket.try_io(Interest::ERROR, pending)
            }
            result => result,
        };
        self.socket.async_io(Interest::READABLE.add(Interest::ERROR), receive).await
    }

    /// Waits for a datagram like tokio's `poll_` functions: the task of the last call is woken.
    pub(crate) fn poll_receive<B: BufMut, R>(
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

    /// Queues a message. `None`: it is to be sent at once. `WouldBlock`: the queue has been flushed as far as the socket takes
    /// it, because it was full; with `yields` also if all was sent.
    pub(crate) fn queue(&self, msg: &SendMsg<'_>, yields: bool) -> Option<io::Result<usize>> {
        let busy = self.busy.get()?;
        let (task, bound) = (task::try_id(), self.bound.load(Ordering::Relaxed));
        // Nothing runs after a `block_on`: the answer to the last datagram of a batch takes the others with it.
        let may_wait = bound > 0 && (task.is_some() || self.has_left());
        let mut sends = lock(&busy.sends);
        if let Some(error) = sends.errors.remove(&msg.dest()) {
            return Some(Err(error));
        }
        let waits = may_wait && sends.will_follow(task);
        if sends.queue.is_empty() && !waits {
            return None;
        }
        let pushed = sends.push(msg, bound);
        if waits && pushed.is_ok() && (sends.has_flusher() || self.start_flusher(&mut sends)) {
            return Some(Ok(msg.len()));
        }
        let flushed = sends.flush(&self.socket, &busy.offload);
        if flushed.is_pending() && !sends.has_flusher() {
            self.start_flusher(&mut sends);
        }
        match pushed {
            Ok(()) => Some(Ok(msg.len())),
            // It must not overtake the others.
            Err(error) if flushed.is_ready() && !(yields && error == PushError::Full) => None,
            Err(_) => Some(Err(io::ErrorKind::WouldBlock.into())),
        }
    }

    /// Like [`queue`](Self::queue), and waits while the queue is full.
    pub(crate) async fn queue_later(&self, msg: &SendMsg<'_>) -> Option<io::Result<usize>> {
        loop {
            match self.queue(msg, true)? {
                Err(error) if is_would_block(&error) => match self.flush_all().await {
                    // Queueing costs no unit of the budget. A task that only sends yields here.
                    Ok(()) => task::yield_now().await,
                    Err(error) => return Some(Err(error)),
                },
                result => return Some(result),
            }
        }
    }

    /// Queues a message for a `poll_` function, or sends it by `plain`.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        msg: &SendMsg<'_>,
        plain: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match self.queue(msg, true) {
            None => plain(cx),
            Some(Err(error)) if is_would_block(&error) => {
                if self.flush().is_pending() {
                    ready!(self.socket.poll_send_ready(cx))?;
                }
                // There is space. A task that only sends yields here.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(result) => Poll::Ready(result),
        }
    }

    /// Sends what is queued, as far as the kernel takes it without waiting.
    pub(crate) fn flush(&self) -> Poll<()> {
        let Some(busy) = self.busy.get() else { return Poll::Ready(()) };
        lock(&busy.sends).flush(&self.socket, &busy.offload)
    }

    /// Sends what is queued, and waits while the socket is full.
    pub(crate) async fn flush_all(&self) -> io::Result<()> {
        while self.flush().is_pending() {
            let ready = self.socket.ready(Interest::WRITABLE).await?;
            // After an error tokio reports a socket as writable (write closed) for ever.
            if ready.is_write_closed() || sys::STAYS_WRITABLE {
                time::sleep(SLEEP).await;
            }
        }
        Ok(())
    }

    /// Starts a flusher, if this is a runtime. An ended one drops it at once, under the lock.
    fn start_flusher(&self, sends: &mut Sends) -> bool {
        let Ok(runtime) = Handle::try_current() else { return false };
        let flusher = runtime.spawn(flush(self.me.clone()));
        sends.flusher = Some(flusher.abort_handle());
        true
    }

    /// The flusher's turn. `Pending`: it needs another one.
    fn flush_in_turn(&self) -> Poll<()> {
        let Some(busy) = self.busy.get() else { return Poll::Ready(()) };
        let mut sends = lock(&busy.sends);
        // The tasks of a turn sent few: they would send as fast at once.
        if sends.queue.len() <= FEW && sends.receiver.is_some_and(|(thread, _)| thread.is_some()) {
            sends.receiver = None;
        }
        let flushed = sends.flush(&self.socket, &busy.offload);
        let is_another = |flusher: &AbortHandle| Some(flusher.id()) != task::try_id();
        if sends.has_flusher() && sends.flusher.as_ref().is_some_and(is_another) {
            return Poll::Ready(()); // A later one goes on.
        }
        flushed
    }
}

/// The flusher: sends what was queued, in its turn of the runtime. It does not wait for readiness, which would keep the
/// descriptor open.
async fn flush(shared: Weak<Shared>) {
    let mut sleep = SLEEP;
    while shared.upgrade().is_some_and(|shared| shared.flush_in_turn().is_pending()) {
        time::sleep(sleep).await;
        sleep = (2 * sleep).min(25 * SLEEP);
    }
}

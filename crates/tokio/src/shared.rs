//! The socket that its handle and its flusher share. It is quiet, tokio's own, until a burst begins the batches.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;
use std::{env, io, process};

use mmsg::errors::PushError;
use mmsg::offload::OffloadState;
use mmsg::{Message, SendMsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{self, JoinHandle};
use tokio::time;

use crate::received::Received;
use crate::sends::{Burst, FEW, Sends, is_would_block, lock};
use crate::sys;

/// How long to sleep where tokio does not report when the socket has space.
const SLEEP: Duration = Duration::from_millis(4);

#[derive(Debug)]
pub(crate) struct Shared {
    me: Weak<Self>,
    pub(crate) socket: UdpSocket,
    /// Locked before `sends`.
    pub(crate) received: Mutex<Received>,
    pub(crate) sends: Mutex<Sends>,
    /// Set by the first burst, under the lock of `received`.
    pub(crate) burst: OnceLock<Burst>,
}

/// A receive: tokio's call for a quiet socket, and what makes its result of a datagram of a batch.
pub(crate) struct Call<B, R> {
    pub(crate) plain: fn(&UdpSocket, &mut B) -> io::Result<R>,
    pub(crate) make: fn(&mut B, &[u8], &Message<'_>) -> io::Result<R>,
    pub(crate) peeks: bool,
}

impl Shared {
    pub(crate) fn new(socket: UdpSocket) -> Arc<Self> {
        let (received, sends, burst) = Default::default();
        let is_off = env::var_os("MMSG_OFFLOAD").is_some_and(|value| value == "0");
        lock::<Received>(&received).stays_quiet = is_off;
        Arc::new_cyclic(|me| Self { me: me.clone(), socket, received, sends, burst })
    }

    pub(crate) fn offload(&self) -> Option<&OffloadState> {
        self.burst.get().map(|burst| &burst.offload)
    }

    /// Whether datagrams of a batch are left.
    pub(crate) fn has_left(&self) -> bool {
        lock(&self.received).next(true, |_, _| ()).is_some()
    }

    /// Receives without waiting.
    pub(crate) fn try_receive<B, R>(&self, buf: &mut B, call: &Call<B, R>) -> io::Result<R> {
        let mut received = lock(&self.received);
        loop {
            let make = |data: &[u8], message: &Message<'_>| (call.make)(buf, data, message);
            if let Some(result) = received.next(call.peeks, make) {
                return result;
            }
            if self.burst.get().is_none() && !received.may_be_burst() {
                let result = (call.plain)(&self.socket, buf);
                received.count(result.is_ok());
                return result;
            }
            self.fill(&mut received, !call.peeks)?;
        }
    }

    /// Receives a batch. Many datagrams are a burst.
    fn fill(&self, received: &mut Received, takes: bool) -> io::Result<()> {
        let has_many = received.fill(&self.socket, self.offload(), takes)? > FEW;
        let is_new = has_many && self.burst.get().is_none();
        let mut sends = lock(&self.sends);
        if let Some(Ok(offload)) = is_new.then(|| OffloadState::new(&self.socket)) {
            let _ = self.burst.set(Burst { offload, process: process::id() });
        }
        let runtime = has_many.then(Handle::try_current).and_then(Result::ok);
        sends.receiver = runtime.map(|runtime| {
            let has_one_thread = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
            (has_one_thread.then(|| thread::current().id()), task::try_id())
        });
        // The runtime of the last flusher may not be driven now.
        if !sends.queue.is_empty() {
            sends.flusher = None;
            self.has_flusher(&mut sends);
        }
        Ok(())
    }

    /// Waits for a datagram like tokio's futures: any number of tasks may wait, and an error of the socket wakes them.
    pub(crate) async fn receive<B, R>(&self, buf: &mut B, call: &Call<B, R>) -> io::Result<R> {
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

    /// Queues a message. False: it is to be sent at once. `WouldBlock`: the queue has been flushed as far as the socket takes it,
    /// because it was full; with `yields` also if all was sent.
    pub(crate) fn queue(&self, msg: &SendMsg<'_>, yields: bool) -> io::Result<bool> {
        let Some(burst) = self.burst.get() else { return Ok(false) };
        let task = task::try_id();
        // Nothing runs after a `block_on`: the answer to the last datagram of a batch takes the others with it.
        let may_wait = task.is_some() || self.has_left();
        let mut sends = lock(&self.sends);
        if let Some(error) = sends.errors.remove(&msg.dest()) {
            return Err(error);
        }
        let waits = sends.bound > 0 && may_wait && sends.will_follow(task);
        if sends.queue.is_empty() && !waits {
            return Ok(false);
        }
        let pushed = sends.push(msg);
        if pushed.is_ok() && waits && self.has_flusher(&mut sends) {
            return Ok(true);
        }
        if waits && pushed == Err(PushError::Full) {
            sends.end_turn();
        }
        let flushed = sends.flush(&self.socket, burst);
        if flushed.is_pending() {
            self.has_flusher(&mut sends);
        }
        match pushed {
            Ok(()) => Ok(true),
            // It must not overtake the others.
            Err(error) if flushed.is_ready() && !(yields && error == PushError::Full) => Ok(false),
            Err(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Queues a message, or sends it by `plain`. Waits while the queue is full.
    pub(crate) async fn send<F: Future<Output = io::Result<usize>>>(
        &self,
        msg: &SendMsg<'_>,
        plain: impl FnOnce() -> F,
    ) -> io::Result<usize> {
        loop {
            match self.queue(msg, true) {
                Err(error) if is_would_block(&error) => self.flush_all().await?,
                Ok(false) => return plain().await,
                result => return result.map(|_| msg.len()),
            }
            // Queueing costs no unit of the budget. A task that only sends yields here.
            task::yield_now().await;
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
            Err(error) if is_would_block(&error) => {
                ready!(self.socket.poll_send_ready(cx))?;
                // A task that only sends yields here, behind those that wait for a turn.
                ready!(pin!(task::yield_now()).poll(cx));
                Poll::Pending
            }
            Ok(false) => plain(cx),
            result => Poll::Ready(result.map(|_| msg.len())),
        }
    }

    /// Sends what is queued, as far as the kernel takes it without waiting.
    pub(crate) fn flush(&self) -> Poll<()> {
        let Some(burst) = self.burst.get() else { return Poll::Ready(()) };
        let mut sends = lock(&self.sends);
        sends.end_turn();
        sends.flush(&self.socket, burst)
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

    /// Whether a flusher will have its turn; starts one, if this is a runtime. It ends with its runtime. An ended one drops it at
    /// once, under the lock.
    fn has_flusher(&self, sends: &mut Sends) -> bool {
        let has = |sends: &Sends| sends.flusher.as_ref().is_some_and(|task| !task.is_finished());
        if !has(sends) {
            let runtime = Handle::try_current().ok();
            sends.flusher = runtime.map(|runtime| runtime.spawn(flush(self.me.clone())));
        }
        has(sends)
    }

    /// The flusher's turn. Returns whether it needs another one.
    fn flush_in_turn(&self) -> bool {
        let Some(burst) = self.burst.get() else { return false };
        let mut sends = lock(&self.sends);
        // On several threads it may have its turn in the midst of theirs.
        if sends.receiver.is_some_and(|(only_thread, _)| only_thread.is_some()) {
            sends.end_turn();
        }
        // A later flusher goes on in its place.
        let is_me = |flusher: &JoinHandle<()>| Some(flusher.id()) == task::try_id();
        sends.flush(&self.socket, burst).is_pending()
            && sends.flusher.as_ref().is_none_or(|flusher| flusher.is_finished() || is_me(flusher))
    }
}

/// The flusher: sends what was queued, in its turn of the runtime. It does not wait for readiness, which would keep the
/// descriptor open.
async fn flush(shared: Weak<Shared>) {
    let mut sleep = SLEEP;
    while shared.upgrade().is_some_and(|shared| shared.flush_in_turn()) {
        time::sleep(sleep).await;
        sleep = (2 * sleep).min(25 * SLEEP);
    }
}

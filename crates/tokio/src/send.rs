//! The datagrams that wait to be sent as a batch, and the errors of those that were.

use std::io::{self, ErrorKind};
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use mmsg::errors::PushError;
use mmsg::offload::OffloadState;
use mmsg::{BatchSocket, SendMsg, SendQueue};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::sys;

/// The number of destinations whose errors are kept.
const MAX_ERRORS: usize = 64;

/// Locks, also after a buffer of the program's has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest payload that is queued. No GSO batch holds two longer ones.
pub(crate) const MAX_QUEUED: usize = 32_000;

#[derive(Debug)]
pub(crate) struct Sends {
    queue: Mutex<SendQueue>,
    /// The datagrams that are being sent. They left `queue` together.
    sending: Mutex<SendQueue>,
    /// Datagrams in both queues.
    count: AtomicUsize,
    errors: Mutex<Vec<(Option<SocketAddr>, io::Error)>>,
    has_errors: AtomicBool,
    failed: AtomicU64,
}

impl Sends {
    pub(crate) fn new() -> Self {
        let queue = || Mutex::new(SendQueue::new(usize::MAX >> 1).grouped_by_dest());
        Self {
            queue: queue(),
            sending: queue(),
            count: AtomicUsize::new(0),
            errors: Mutex::default(),
            has_errors: AtomicBool::new(false),
            failed: AtomicU64::new(0),
        }
    }

    /// Whether no datagram waits or is being sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Queues a datagram. An empty queue takes one beyond the bound. `TooLong`: it could not be in a GSO batch, or would not
    /// stay in order, since the queue tells the socket's peer from the same address.
    pub(crate) fn push(&self, msg: &SendMsg<'_>, bound: usize) -> Result<(), PushError> {
        let mut queue = lock(&self.queue);
        let bytes = queue.bytes().saturating_add(SendQueue::cost(msg));
        let differs = |first: SendMsg<'_>| first.dest().is_none() != msg.dest().is_none();
        if msg.len() > MAX_QUEUED || queue.front().is_some_and(differs) {
            return Err(PushError::TooLong);
        }
        if bytes > bound && !queue.is_empty() {
            return Err(PushError::Full);
        }
        queue.push(msg)?;
        self.count.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Sends what the kernel takes without waiting. `Pending`: some datagrams are left. With `asks` the kernel is asked even if
    /// tokio remembers no space.
    pub(crate) fn flush(&self, socket: &UdpSocket, offload: &OffloadState, asks: bool) -> Poll<()> {
        let mut sending = lock(&self.sending);
        let mut was_refused = false;
        loop {
            if sending.is_empty() {
                mem::swap(&mut *sending, &mut *lock(&self.queue));
            }
            if sending.is_empty() {
                return Poll::Ready(());
            }
            let (before, mut was_asked) = (sending.len(), false);
            let mut call = || {
                was_asked = true;
                match offload.on(socket).flush(&mut sending) {
                    // No event would follow.
                    Err(error) if is_would_block(&error) && sys::STAYS_WRITABLE => Ok(0),
                    result => result,
                }
            };
            let mut sent = socket.try_io(Interest::WRITABLE, &mut call);
            if asks && !was_asked {
                sent = offload.on(socket).flush(&mut sending);
            }
            // An error is about the front, which the flush has chosen.
            let front = sending.front().and_then(|msg| msg.dest());
            match sent {
                Ok(0) => return Poll::Pending,
                Ok(_) => was_refused = false,
                Err(error) if is_would_block(&error) => return Poll::Pending,
                // About an earlier datagram of a connected socket: this one was not sent.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && !was_refused => {
                    self.keep(front, error);
                    was_refused = true;
                }
                Err(error) => {
                    self.keep(front, error);
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    sending.discard_front();
                }
            }
            self.count.fetch_sub(before - sending.len(), Ordering::AcqRel);
        }
    }

    /// Keeps the last error of each destination, for the last destinations.
    #[cold]
    fn keep(&self, dest: Option<SocketAddr>, error: io::Error) {
        let mut errors = lock(&self.errors);
        errors.retain(|(other, _)| *other != dest);
        if errors.len() == MAX_ERRORS {
            errors.remove(0);
        }
        errors.push((dest, error));
        self.has_errors.store(true, Ordering::Release);
    }

    /// Takes the error of a destination that `is` accepts.
    pub(crate) fn take_error(&self, is: impl Fn(Option<SocketAddr>) -> bool) -> Option<io::Error> {
        if !self.has_errors.load(Ordering::Acquire) {
            return None;
        }
        let mut errors = lock(&self.errors);
        let index = errors.iter().position(|(dest, _)| is(*dest))?;
        let (_, error) = errors.remove(index);
        self.has_errors.store(!errors.is_empty(), Ordering::Release);
        Some(error)
    }

    /// The number of queued datagrams that the kernel did not accept.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

pub(crate) fn is_would_block(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

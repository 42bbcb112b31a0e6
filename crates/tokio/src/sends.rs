//! The datagrams that wait to be sent as a batch, and the errors of those that were.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::{self, ThreadId};

use mmsg::errors::PushError;
use mmsg::offload::OffloadState;
use mmsg::{BatchSocket, SendMsg, SendQueue};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::{self, JoinHandle};

use crate::sys;

/// The answers to this many datagrams or fewer are sent at once: for them, waking the flusher costs more than a GSO batch saves.
pub(crate) const FEW: usize = 4;
/// The default bound of the queue in bytes.
const QUEUE: usize = 1 << 18;
/// The number of destinations whose errors are kept.
const MAX_ERRORS: usize = 64;
/// Refusals in a row after which the datagram is given up: it may be the cause, to a Unix address.
const MAX_REFUSALS: u32 = 16;
/// The longest payload that is queued. No GSO batch holds two longer ones.
const MAX_QUEUED: usize = 32_000;

/// What a socket has that has met a burst.
#[derive(Debug)]
pub(crate) struct Burst {
    pub(crate) offload: OffloadState,
    /// A forked child must not send what its parent queued. It may have been forked while a lock was held.
    pub(crate) process: u32,
}

#[derive(Debug)]
pub(crate) struct Sends {
    pub(crate) queue: SendQueue,
    /// The last error of each destination.
    pub(crate) errors: BTreeMap<Option<SocketAddr>, io::Error>,
    /// Queued datagrams that the kernel did not accept.
    pub(crate) failed: u64,
    /// Set while many datagrams came, whose answers are worth a batch: the thread of a runtime that has but one, and the task.
    pub(crate) receiver: Option<(Option<ThreadId>, Option<task::Id>)>,
    /// The task that sends what is queued.
    pub(crate) flusher: Option<JoinHandle<()>>,
    /// The bound of the queue in bytes.
    pub(crate) bound: usize,
}

impl Default for Sends {
    fn default() -> Self {
        Self {
            queue: SendQueue::new(usize::MAX >> 1).grouped_by_dest(),
            errors: BTreeMap::new(),
            failed: 0,
            receiver: None,
            flusher: None,
            bound: QUEUE,
        }
    }
}

impl Sends {
    /// Whether this task will probably send more datagrams before the flusher has its turn: any task of a runtime with one
    /// thread, which the thread now drives. On several threads another one may run the flusher, at once, and waking it costs
    /// more than a batch saves, unless a loop receives and answers.
    pub(crate) fn will_follow(&self, task: Option<task::Id>) -> bool {
        self.receiver.is_some_and(|(only_thread, receiver)| match only_thread {
            Some(thread) => thread == thread::current().id(),
            None => task.is_some() && task == receiver,
        })
    }

    /// Queues a datagram. An empty queue takes one beyond the bound. `TooLong`: it could not be in a GSO batch, or would not
    /// stay in order, since the queue tells the socket's peer from the same address.
    pub(crate) fn push(&mut self, msg: &SendMsg<'_>) -> Result<(), PushError> {
        match self.queue.front() {
            _ if msg.len() > MAX_QUEUED => Err(PushError::TooLong),
            Some(front) if front.dest().is_none() != msg.dest().is_none() => {
                Err(PushError::TooLong)
            }
            Some(_) if SendQueue::cost(msg) > self.bound.saturating_sub(self.queue.bytes()) => {
                Err(PushError::Full)
            }
            _ => self.queue.push(msg),
        }
    }

    /// Before a flush of all that the tasks of a turn have sent: if it is few, they would send as fast at once.
    pub(crate) fn end_turn(&mut self) {
        if (1..=FEW).contains(&self.queue.len()) {
            self.receiver = None;
        }
    }

    /// Sends what the kernel takes without waiting. `Pending`: some datagrams are left.
    pub(crate) fn flush(&mut self, socket: &UdpSocket, burst: &Burst) -> Poll<()> {
        let mut refusals = 0;
        if burst.process != process::id() {
            self.queue.clear();
        }
        while !self.queue.is_empty() {
            // The kernel is asked even if tokio remembers no space: its runtime may have ended, or not yet seen the event.
            let mut call = || burst.offload.on(socket).flush(&mut self.queue);
            let mut sent = call();
            if sent.as_ref().is_err_and(is_would_block) && !sys::STAYS_WRITABLE {
                sent = socket.try_io(Interest::WRITABLE, call); // Again, so that tokio knows.
            }
            match sent {
                Ok(_) => refusals = 0,
                Err(error) if is_would_block(&error) => return Poll::Pending,
                Err(error) => {
                    // About the front, which the flush has chosen; or a refusal, which is about an earlier datagram to a
                    // connected socket's peer: this one was not sent.
                    let is_refusal = error.kind() == ErrorKind::ConnectionRefused;
                    let front = self.queue.front().and_then(|msg| msg.dest());
                    let dest = front.filter(|_| !is_refusal);
                    refusals += u32::from(is_refusal);
                    if !is_refusal || refusals == MAX_REFUSALS {
                        refusals = 0;
                        self.queue.discard_front();
                        self.failed += 1;
                    }
                    self.errors.remove(&dest);
                    if self.errors.len() == MAX_ERRORS {
                        self.errors.pop_first();
                    }
                    self.errors.insert(dest, error);
                }
            }
        }
        self.flusher = None; // Its runtime may not be driven when there is more to send.
        Poll::Ready(())
    }
}

/// Locks, also after a buffer of the program's has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn is_would_block(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

//! A sender that many tasks share. Each task pushes datagrams, and one task sends all that were pushed in a turn of the
//! runtime, with one flush: with `Offload`, as GSO batches.
//!
//! ```text
//! cargo run --release --features tokio --example shared_sender
//! ```
//!
//! 50 tasks send 1,000 datagrams each through a queue with space for 640. A task waits while the queue is full, and the
//! last sender to be dropped ends the flusher, once it has sent everything. The program prints "50,000 datagrams sent, 0
//! failed". For datagrams that come from one task, a `SendQueue` alone does; `one_at_a_time.rs` uses this sender behind
//! somebody else's trait.

pub mod common;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::{future::poll_fn, io, mem};

use mmsg::errors::PushError;
use mmsg::{Offload, SendMsg, SendQueue, prelude::*};
use tokio::{net::UdpSocket, sync::Notify, task::JoinHandle};

/// A handle on the queue: one for each task, or one behind a reference.
pub struct Sender(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    pushed: Notify,
}

struct State {
    queue: SendQueue,
    /// Tasks that wait for space.
    waiting: Vec<Waker>,
    senders: usize,
}

impl Sender {
    /// Starts the flusher, which ends after the last sender with the number of datagrams that failed. The datagrams that
    /// wait take at most twice `capacity` bytes: half of them are on their way.
    pub fn start(socket: Arc<Offload<UdpSocket>>, capacity: usize) -> (Self, JoinHandle<usize>) {
        let state = State { queue: SendQueue::new(capacity), waiting: Vec::new(), senders: 1 };
        let shared = Arc::new(Shared { state: Mutex::new(state), pushed: Notify::new() });
        (Self(shared.clone()), tokio::spawn(flush(socket, shared, SendQueue::new(capacity))))
    }

    /// Queues a datagram. While the queue is full it waits, and wakes the task of `cx` when there is space.
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        msg: &SendMsg<'_>,
    ) -> Poll<Result<(), PushError>> {
        let mut state = self.0.state.lock().unwrap();
        let pushed = state.queue.push(msg);
        if pushed == Err(PushError::Full) {
            // A task may ask often while the queue is full.
            if !state.waiting.iter().any(|other| other.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        self.0.pushed.notify_one();
        Poll::Ready(pushed)
    }

    /// Whether nothing is queued. The flusher may still be sending what was.
    pub fn is_empty(&self) -> bool {
        self.0.state.lock().unwrap().queue.is_empty()
    }

    pub async fn send(&self, msg: &SendMsg<'_>) -> Result<(), PushError> {
        poll_fn(|cx| self.poll_send(cx, msg)).await
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.0.state.lock().unwrap().senders += 1;
        Self(self.0.clone())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().senders -= 1;
        self.0.pushed.notify_one();
    }
}

/// Sends what was pushed, until the last sender is gone. Returns how many datagrams failed.
async fn flush(socket: Arc<Offload<UdpSocket>>, to: Arc<Shared>, mut queue: SendQueue) -> usize {
    let mut failed = 0;
    loop {
        let (waiting, ended) = {
            let mut state = to.state.lock().unwrap();
            mem::swap(&mut state.queue, &mut queue); // Tasks push to the other queue meanwhile.
            (mem::take(&mut state.waiting), state.senders == 0)
        };
        waiting.into_iter().for_each(Waker::wake);
        let on_error = |msg: &SendMsg<'_>, error: io::Error| {
            failed += 1;
            if failed == 1 {
                eprintln!("the first to fail, to {:?}: {error}", msg.dest());
            }
        };
        match queue.is_empty() {
            true if ended => return failed,
            true => to.pushed.notified().await,
            false => _ = socket.flush_each(&mut queue, on_error).await,
        }
        queue.clear(); // It is empty, unless the runtime ends.
    }
}

#[tokio::main]
async fn main() -> common::Result {
    common::no_arguments();
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let to = socket.local_addr()?;
    let (sender, flusher) = Sender::start(Arc::new(Offload::new(socket)?), 1_000_000);
    for _ in 0..50 {
        let sender = sender.clone();
        tokio::spawn(async move {
            for _ in 0..1_000 {
                sender.send(&SendMsg::to(to, &[7; 1200])).await.expect("it can fit");
            }
        });
    }
    drop(sender);
    println!("50,000 datagrams sent, {} failed", flusher.await?);
    Ok(())
}

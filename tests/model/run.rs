//! Runs a case: threads do their operations concurrently, and the books are balanced at the end.

use std::collections::{HashMap, VecDeque};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mmsg::{RecvBatch, SendQueue};

use super::datagram::{Identity, Stream};
use super::net::{End, Net, cost};
use super::ops::{Config, Op, Receiving, Record, RecvSpace, What};
use super::send::Message;
use crate::common::BACKENDS;

/// State shared by all threads.
pub struct Shared {
    pub net: Net,
    pub alone: bool,
    /// The cost of the datagrams waiting in each socket.
    pub in_flight: [AtomicUsize; 2],
}

/// A thread's handles, queues, and records of datagrams sent and received.
pub struct Actor<'s> {
    pub shared: &'s Shared,
    pub thread: usize,
    pub own: [Option<End>; 2],
    pub queues: [SendQueue; 2],
    pub queued: [VecDeque<Message>; 2],
    pub batches: HashMap<(usize, usize), RecvBatch>,
    /// The next number of each stream.
    pub next: HashMap<Stream, u32>,
    /// The last number received of each stream, for each socket.
    pub last: HashMap<(usize, Stream), u32>,
    pub books: Books,
    /// Whether each socket has received `END`.
    pub ended: [bool; 2],
}

/// The datagrams sent to and received at each socket.
#[derive(Default)]
pub struct Books {
    pub sent: [Vec<Identity>; 2],
    pub received: [Vec<Identity>; 2],
    /// Datagrams too short to identify.
    pub unknown: [usize; 2],
    /// The highest count of drops that the kernel has reported.
    pub dropped: [u32; 2],
}

/// The last datagram sent to a socket.
pub const END: &[u8] = b"the end of it";

/// Runs a case: its configuration, then its operations.
pub fn run(config: Record, ops: &[Record]) {
    let config = Config::decode(config);
    let backend = BACKENDS.iter().find(|one| **one == config.backend).unwrap_or(&BACKENDS[0]);
    backend.make_process_default().expect("it is here");
    let Some(net) = Net::new(config) else { return };
    let shared = Shared { net, alone: config.threads == 1, in_flight: Default::default() };
    let barrier = Barrier::new(config.threads);
    let mut books: Vec<Books> = thread::scope(|scope| {
        let threads: Vec<_> = (0..config.threads)
            .map(|thread| {
                let (shared, barrier) = (&shared, &barrier);
                scope.spawn(move || {
                    let mut actor = Actor::new(shared, thread);
                    barrier.wait();
                    for op in ops.iter().map(|op| Op::decode(*op)) {
                        if op.thread % config.threads == thread {
                            actor.step(op);
                        }
                    }
                    actor.books
                })
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    });
    let mut last = Actor::new(&shared, config.threads);
    last.receive_the_rest();
    books.push(last.books);
    (0..2).for_each(|socket| balance(socket, &books));
}

/// Each datagram sent to a socket was received there once, or the kernel counted it as dropped.
fn balance(socket: usize, books: &[Books]) {
    let mut counts: HashMap<Identity, (usize, usize)> = HashMap::new();
    for books in books {
        books.sent[socket].iter().for_each(|id| counts.entry(*id).or_default().0 += 1);
        books.received[socket].iter().for_each(|id| counts.entry(*id).or_default().1 += 1);
    }
    let mut missing = 0;
    for (id, (sent, received)) in counts {
        assert!(received <= sent, "{id:?} was sent {sent} times and received {received} times");
        missing += sent - received;
    }
    let unknown: usize = books.iter().map(|books| books.unknown[socket]).sum();
    let dropped = books.iter().map(|books| books.dropped[socket]).max().unwrap_or(0) as usize;
    let what = format!("{missing} missing, {unknown} not known, {dropped} dropped by the kernel");
    assert!(missing >= unknown && missing <= unknown + dropped, "at {socket}: {what}");
}

impl<'s> Actor<'s> {
    fn new(shared: &'s Shared, thread: usize) -> Self {
        Self {
            shared,
            thread,
            own: [None, None],
            queues: [SendQueue::new(1 << 20), SendQueue::new(1 << 20)],
            queued: Default::default(),
            batches: HashMap::new(),
            next: HashMap::new(),
            last: HashMap::new(),
            books: Books::default(),
            ended: [false; 2],
        }
    }

    pub fn end<'a>(shared: &'a Shared, own: &'a [Option<End>; 2], op: Op) -> &'a End {
        match &own[op.at] {
            Some(end) if op.own => end,
            _ => &shared.net.ends[op.at],
        }
    }

    fn step(&mut self, op: Op) {
        match op.what {
            What::Send { way, batch } => self.send(op, way, batch),
            What::Push { batch } => self.push(op, batch),
            What::Flush => self.flush(op),
            What::Receive { way, space } => drop(self.receive(op, way, space)),
            What::Drain => self.drain(op),
            What::Clone => self.own[op.at] = Some(self.shared.net.ends[op.at].another()),
            What::Close => self.own[op.at] = None,
            What::SetGso(on) => Self::end(self.shared, &self.own, op).set_gso(on),
        }
    }

    fn drain(&mut self, op: Op) {
        let space = RecvSpace { messages: 33, bytes: 3_000 };
        // More receives than any budget needs; then the socket must be empty.
        for _ in 0..100_000 {
            if self.receive(op, Receiving::Into, space) == 0 {
                return;
            }
        }
        panic!("it never ends");
    }

    /// Receives what remains in both sockets after the other threads have ended.
    fn receive_the_rest(&mut self) {
        for at in 0..2 {
            let end = &self.shared.net.ends[at];
            // A Unix socket has all its datagrams at once, and may be full.
            if self.shared.net.addrs.is_some() {
                self.shared.net.send_plainly(at, END);
            }
            let space = RecvSpace { messages: 16, bytes: 3_000 };
            let op = Op { thread: 0, at, own: false, what: What::Drain };
            while !self.ended[at] {
                let full = self.shared.net.addrs.is_none();
                if !full {
                    end.wait_readable();
                }
                let count = self.receive(op, Receiving::Batch, space);
                self.ended[at] |= full && count == 0;
            }
        }
    }

    /// Reserves this many bytes of a socket's buffer; false if they do not fit.
    pub fn reserve(&self, to: usize, cost: usize) -> bool {
        let in_flight = &self.shared.in_flight[to];
        let before = in_flight.fetch_add(cost, Ordering::Relaxed);
        let fits = before.saturating_add(cost) <= self.shared.net.budget;
        if !fits {
            self.release(to, cost);
        }
        fits
    }

    pub fn release(&self, to: usize, cost: usize) {
        self.shared.in_flight[to].fetch_sub(cost, Ordering::Relaxed);
    }

    /// Records the sent datagrams.
    pub fn note_sent(&mut self, to: usize, datagrams: &[Identity]) {
        self.books.sent[to].extend(datagrams);
    }

    /// Records a received datagram.
    pub fn note_received(&mut self, at: usize, identity: Option<Identity>) {
        let Some(identity) = identity else {
            self.books.unknown[at] += 1;
            // At least the cost of an empty one.
            self.release(at, cost(0));
            return;
        };
        self.release(at, cost(identity.len()));
        self.books.received[at].push(identity);
        if let Identity::Numbered { stream, number, .. } = identity {
            let last = self.last.insert((at, stream), number);
            assert!(last.is_none_or(|last| last < number), "{identity:?} after {last:?}");
        }
    }
}

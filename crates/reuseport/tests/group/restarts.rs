//! Restarts of groups under load lose no datagram.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use mmsg::{BatchSocket, RecvBatch};
use mmsg_reuseport::{ReusePortGroup, Spread};
use socket2::Socket;

use crate::common::{TIME_LIMIT, repetitions};
use crate::{builder, client, localhost, send};

/// Numbered datagrams sent to a group, and which of them have arrived.
struct Traffic {
    seen: Vec<AtomicBool>,
    received: AtomicUsize,
    /// Set when datagrams have stopped arriving.
    stalled: AtomicBool,
}

impl Traffic {
    fn new(total: usize) -> Self {
        let seen = (0..total).map(|_| AtomicBool::new(false)).collect();
        Self { seen, received: AtomicUsize::new(0), stalled: AtomicBool::new(false) }
    }

    /// Sends all datagrams, with at most 64 in flight so that no buffer overflows.
    fn send(&self, to: SocketAddr) {
        let client = client();
        for number in 0..self.seen.len() {
            if !self.wait_for((number + 1).saturating_sub(64)) {
                return;
            }
            send(&client, &(number as u32).to_be_bytes(), to);
        }
    }

    /// Waits until `count` datagrams have arrived. Returns false if they stop arriving before.
    fn wait_for(&self, count: usize) -> bool {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let now = self.received.load(Ordering::Acquire);
            if now >= count {
                return true;
            }
            if now > before {
                (before, since) = (now, Instant::now());
            }
            if since.elapsed() > TIME_LIMIT || self.stalled.load(Ordering::Relaxed) {
                self.stalled.store(true, Ordering::Relaxed);
                return false;
            }
            thread::yield_now();
        }
    }

    fn note(&self, batch: &RecvBatch) {
        for datagram in batch {
            let number = u32::from_be_bytes(datagram.data().try_into().expect("four bytes"));
            let twice = self.seen[number as usize].swap(true, Ordering::Relaxed);
            assert!(!twice, "{number} arrived twice");
        }
        self.received.fetch_add(batch.message_count(), Ordering::Release);
    }
}

/// A group with a reader thread for each member.
struct Served<'scope> {
    group: ReusePortGroup,
    stop: Arc<AtomicBool>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope> Served<'scope> {
    fn start<'t: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        group: ReusePortGroup,
        traffic: &'t Traffic,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let read = |socket: &UdpSocket| {
            let (socket, stop) = (socket.try_clone().expect("a descriptor"), stop.clone());
            scope.spawn(move || {
                let mut batch = RecvBatch::new(32, 64);
                while !stop.load(Ordering::Relaxed) {
                    // An error is the read timeout, after which the thread checks `stop`.
                    if socket.recv_into(&mut batch).is_ok() {
                        traffic.note(&batch);
                    }
                }
            })
        };
        let threads = group.members().iter().map(read).collect();
        Self { group, stop, threads }
    }

    /// Takes all members out of the group while datagrams arrive. With `go_on` the threads read meanwhile, otherwise they
    /// stop first. Then receives the datagrams left in the sockets.
    fn end(mut self, go_on: bool, traffic: &Traffic) {
        self.stop.store(!go_on, Ordering::Relaxed);
        let sockets = self.group.leave_all().expect("they leave");
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let mut batch = RecvBatch::new(32, 64);
        for socket in sockets {
            while socket.recv_into(&mut batch).is_ok() {
                traffic.note(&batch);
            }
        }
    }
}

/// Each group takes over from the one before it while a client sends. Every datagram must arrive exactly once.
fn restarts_lose_nothing(spread: &Spread) {
    let total = repetitions(1_000_000, 2_000);
    let bind = |addr| {
        let waits = |socket: &Socket| socket.set_read_timeout(Some(Duration::from_millis(20)));
        builder(addr, spread.clone()).prepare(waits).bind().expect("a group")
    };
    let traffic = Traffic::new(total);
    let first = bind(localhost());
    let to = first.local_addr();
    thread::scope(|scope| {
        let mut serving = Served::start(scope, first, &traffic);
        scope.spawn(|| traffic.send(to));
        for restart in 1..=10 {
            traffic.wait_for(total * restart / 12);
            let next = Served::start(scope, bind(to), &traffic);
            serving.end(restart % 2 == 0, &traffic);
            serving = next;
        }
        traffic.wait_for(total);
        serving.end(true, &traffic);
    });
    let lost = traffic.seen.iter().filter(|seen| !seen.load(Ordering::Relaxed)).count();
    assert_eq!(lost, 0, "of {total}");
}

#[test]
fn a_restart_loses_nothing_by_flow() {
    restarts_lose_nothing(&Spread::FLOW);
}

#[test]
fn a_restart_loses_nothing_at_random() {
    restarts_lose_nothing(&Spread::RANDOM);
}

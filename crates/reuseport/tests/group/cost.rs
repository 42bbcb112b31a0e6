//! CPU time per datagram of a group's threads, compared with one socket and with as many separate sockets.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use libc::CLOCK_THREAD_CPUTIME_ID;
use mmsg::options::set_recv_buffer;
use mmsg::{BatchSocket, RecvBatch, SendMsg};
use mmsg_reuseport::{ReusePortGroup, Spread};

use crate::common::linux::time;
use crate::common::skip;
use crate::{client, localhost};

/// Datagrams in a turn, all from one source.
const COUNT: usize = 16_384;
/// Datagrams that `in_turn` sends at once: few enough for a CPU's caches.
const FEW: usize = 512;
/// Measured turns of each setting.
const TURNS: usize = 41;
/// Messages in a call.
const BATCH: usize = 64;
const PAYLOAD: [u8; 200] = [7; 200];
/// A receive buffer for all datagrams of a turn, the kernel's overhead included.
const BUFFER: usize = COUNT * 1_280;

/// Prints medians: `cargo test --release -p mmsg-reuseport --test group -- --ignored --nocapture cost`.
#[test]
#[ignore = "measures, and wants a quiet machine"]
fn cost_of_a_group_at_random_beside_one_socket() {
    let one = Side::new(1, 1);
    if !one.has_buffers() {
        return skip("a receive buffer of 20 MiB needs root");
    }
    println!(
        "| members | datagrams | one socket | group | as many separate sockets | one / group | separate / group |"
    );
    println!("|---|---|---|---|---|---|---|");
    for members in [2, 4] {
        let sides = [&one, &Side::new(1, members), &Side::new(members, 1)];
        let settings: [(&str, Turn); 3] = [
            ("few queued, members read in turn", Side::in_turn),
            ("all queued, members read at once", Side::waiting),
            ("arriving while the threads wait", Side::arriving),
        ];
        for (setting, turn) in settings {
            let mut times = [const { Vec::new() }; 3];
            for i in 0..=TURNS {
                let mut of = [0.0; 3];
                // Each side goes first equally often.
                for side in (0..3).map(|k| (i + k) % 3) {
                    of[side] = turn(sides[side]);
                }
                // The first turn fills the caches.
                if i > 0 {
                    times.iter_mut().zip(of).for_each(|(times, time)| times.push(time));
                }
            }
            let beside = |other: usize| {
                median(times[other].iter().zip(&times[1]).map(|(a, b)| a / b).collect())
            };
            let ratios = [beside(0), beside(2)];
            let [of_one, of_group, apart] = times.map(median);
            println!(
                "| {members} | {setting} | {of_one:.0} ns | {of_group:.0} ns | {apart:.0} ns | {:.3} | {:.3} |",
                ratios[0], ratios[1]
            );
        }
    }
}

/// Runs one turn. Returns the receiving threads' CPU time per datagram, in nanoseconds.
type Turn = fn(&Side) -> f64;

/// The sockets to measure: one group, or several groups of one socket each, which share nothing.
struct Side {
    groups: Vec<ReusePortGroup>,
    batches: Vec<Mutex<RecvBatch>>,
    client: UdpSocket,
}

impl Side {
    fn new(groups: usize, members: usize) -> Self {
        let group = |_| {
            let group =
                ReusePortGroup::builder(localhost()).members(members).spread(Spread::RANDOM);
            group.bind().expect("loopback")
        };
        let side = Self {
            groups: (0..groups).map(group).collect(),
            batches: (0..groups * members).map(|_| Mutex::new(RecvBatch::new(64, 256))).collect(),
            client: client(),
        };
        for socket in side.sockets() {
            set_recv_buffer(socket, BUFFER).expect("a size");
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        }
        side
    }

    fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.groups.iter().flat_map(ReusePortGroup::members)
    }

    fn has_buffers(&self) -> bool {
        self.sockets().all(|one| set_recv_buffer(one, BUFFER).is_ok_and(|b| b >= BUFFER))
    }

    fn send(&self, count: usize) {
        for i in 0..count / BATCH {
            let to = self.groups[i % self.groups.len()].local_addr();
            let msgs = [SendMsg::to(to, &PAYLOAD); BATCH];
            assert_eq!(self.client.send_batch(&msgs).expect("loopback takes it"), BATCH);
        }
    }

    /// All datagrams are queued before the threads start.
    fn waiting(&self) -> f64 {
        self.send(COUNT);
        let total = AtomicUsize::new(0);
        self.receive(false, &total)
    }

    /// One thread reads the members in turn. This is the group's own cost, without CPUs that share data.
    fn in_turn(&self) -> f64 {
        let (total, mut time) = (AtomicUsize::new(0), Duration::ZERO);
        for _ in 0..COUNT / FEW {
            self.send(FEW);
            for (i, socket) in self.sockets().enumerate() {
                time += self.serve(i, socket, false, &total);
            }
        }
        per_datagram(time, &total)
    }

    /// Datagrams arrive while the threads receive.
    fn arriving(&self) -> f64 {
        let total = AtomicUsize::new(0);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| self.receive(true, &total));
            self.send(COUNT);
            receiver.join().expect("no panic")
        })
    }

    /// Receives all datagrams, each member's on a thread of its own.
    fn receive(&self, waits: bool, total: &AtomicUsize) -> f64 {
        let times: Vec<Duration> = thread::scope(|scope| {
            let serve = |(i, socket)| scope.spawn(move || self.serve(i, socket, waits, total));
            let threads: Vec<_> = self.sockets().enumerate().map(serve).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        per_datagram(times.iter().sum(), total)
    }

    /// Receives a member's datagrams, and returns the CPU time used.
    fn serve(
        &self,
        index: usize,
        socket: &UdpSocket,
        waits: bool,
        total: &AtomicUsize,
    ) -> Duration {
        let mut batch = self.batches[index].lock().unwrap_or_else(PoisonError::into_inner);
        socket.set_nonblocking(!waits).expect("a flag");
        let before = time(CLOCK_THREAD_CPUTIME_ID);
        let ends = || !waits || total.load(Relaxed) >= COUNT;
        loop {
            match socket.recv_into(&mut batch) {
                Ok(count) => {
                    assert!(batch.iter().all(|datagram| datagram.data() == PAYLOAD));
                    total.fetch_add(count, Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && ends() => break,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
        }
        time(CLOCK_THREAD_CPUTIME_ID) - before
    }
}

/// Nanoseconds per datagram.
fn per_datagram(time: Duration, total: &AtomicUsize) -> f64 {
    assert_eq!(total.load(Relaxed), COUNT, "a datagram was lost");
    time.as_nanos() as f64 / COUNT as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

//! What a datagram costs the threads of a group, beside the one thread of one socket.

use std::io;
use std::mem;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mmsg::group::{ReusePortGroup, Spread};
use mmsg::options::set_recv_buffer;
use mmsg::{BatchSocket, RecvBatch, RecvFlags, SendMsg};

use crate::common::skip;
use crate::{client, localhost};

/// Datagrams of a turn, all from one source, and turns of each setting.
const COUNT: usize = 16_384;
/// As many as fit into a processor's caches.
const FEW: usize = 512;
const TURNS: usize = 41;
const PAYLOAD: [u8; 200] = [7; 200];
/// For all datagrams of a turn, with what the kernel keeps beside each.
const BUFFER: usize = COUNT * 1_280;

/// Prints medians: `cargo test --release --test group -- --ignored --nocapture cost`.
#[test]
#[ignore = "measures, and wants a quiet machine"]
fn cost_of_a_group_at_random_beside_one_socket() {
    let name = "cost_of_a_group_at_random_beside_one_socket";
    let one = Side::new(1);
    if !one.has_buffers() {
        return skip(name, "a receive buffer of 20 MiB takes root");
    }
    println!("| members | datagrams | one socket | group | datagrams a CPU second, group / one |");
    println!("|---|---|---|---|---|");
    for members in [2, 4] {
        let group = Side::new(members);
        let settings: [(&str, Turn); 3] = [
            ("of which few wait, members one after the other", Side::in_turn),
            ("which all wait, members at once", Side::waiting),
            ("as they arrive", Side::arriving),
        ];
        for (setting, turn) in settings {
            let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
            for i in 0..=TURNS {
                // Each begins as often as the other.
                let (first, second) = if i % 2 == 0 { (&one, &group) } else { (&group, &one) };
                let (a, b) = (turn(first), turn(second));
                let [of_one, of_group] = if i % 2 == 0 { [a, b] } else { [b, a] };
                // The first turn fills the caches.
                if i > 0 {
                    times[0].push(of_one);
                    times[1].push(of_group);
                    ratios.push(of_one / of_group);
                }
            }
            let [of_one, of_group] = times.map(median);
            let ratio = median(ratios);
            println!("| {members} | {setting} | {of_one:.0} ns | {of_group:.0} ns | {ratio:.3} |");
        }
    }
}

/// Returns the CPU time of the receiving threads for each datagram, nanoseconds.
type Turn = fn(&Side) -> f64;

/// One socket is a group of one.
struct Side {
    group: ReusePortGroup,
    batches: Vec<Mutex<RecvBatch>>,
    client: UdpSocket,
}

impl Side {
    fn new(members: usize) -> Self {
        let group = ReusePortGroup::builder(localhost()).members(members).spread(Spread::RANDOM);
        let group = group.bind().expect("loopback");
        for member in group.members() {
            set_recv_buffer(member, BUFFER).expect("a size");
            member.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        }
        let batches = (0..members).map(|_| Mutex::new(RecvBatch::new(64, 256))).collect();
        Self { group, batches, client: client() }
    }

    fn has_buffers(&self) -> bool {
        self.group
            .members()
            .iter()
            .all(|one| set_recv_buffer(one, BUFFER).is_ok_and(|b| b >= BUFFER))
    }

    fn send(&self, count: usize) {
        let msgs = [SendMsg::to(self.group.local_addr(), &PAYLOAD); 64];
        for _ in 0..count / msgs.len() {
            assert_eq!(self.client.send_batch(&msgs).expect("loopback takes it"), msgs.len());
        }
    }

    /// All datagrams are there before the threads begin.
    fn waiting(&self) -> f64 {
        self.send(COUNT);
        let total = AtomicUsize::new(0);
        self.receive(RecvFlags::DONT_WAIT, &total)
    }

    /// The same on one thread: what the group costs without what two processors take from each other.
    fn in_turn(&self) -> f64 {
        let (total, mut time) = (AtomicUsize::new(0), Duration::ZERO);
        for _ in 0..COUNT / FEW {
            self.send(FEW);
            for (i, socket) in self.group.members().iter().enumerate() {
                time += self.serve(i, socket, RecvFlags::DONT_WAIT, &total);
            }
        }
        per_datagram(time, &total)
    }

    /// The threads wait for datagrams.
    fn arriving(&self) -> f64 {
        let total = AtomicUsize::new(0);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| self.receive(RecvFlags::NONE, &total));
            self.send(COUNT);
            receiver.join().expect("no panic")
        })
    }

    /// Each member receives on its thread until all datagrams have come.
    fn receive(&self, flags: RecvFlags, total: &AtomicUsize) -> f64 {
        let serve = |index: usize, socket: &UdpSocket| self.serve(index, socket, flags, total);
        let times: Vec<Duration> = self.group.run(serve).expect("threads");
        per_datagram(times.iter().sum(), total)
    }

    /// Receives what one member gets, and returns the CPU time that it takes.
    fn serve(
        &self,
        index: usize,
        socket: &UdpSocket,
        flags: RecvFlags,
        total: &AtomicUsize,
    ) -> Duration {
        let mut batch = self.batches[index].lock().unwrap_or_else(PoisonError::into_inner);
        let before = cpu_time();
        let ends = || flags == RecvFlags::DONT_WAIT || total.load(Relaxed) >= COUNT;
        loop {
            match socket.recv_into_with(&mut batch, flags) {
                Ok(count) => {
                    assert!(batch.iter().all(|datagram| datagram.data() == PAYLOAD));
                    total.fetch_add(count, Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && ends() => break,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
        }
        cpu_time() - before
    }
}

/// Nanoseconds.
fn per_datagram(time: Duration, total: &AtomicUsize) -> f64 {
    assert_eq!(total.load(Relaxed), COUNT, "a datagram was lost");
    time.as_nanos() as f64 / COUNT as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What this thread has had of the processors, in user space and in the kernel. `getrusage` counts ticks.
fn cpu_time() -> Duration {
    // SAFETY: a C struct of numbers: zero is a value of it.
    let mut time: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: it writes a timespec.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "{}", io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

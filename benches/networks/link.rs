//! A seeded link between two TUN devices. It loses, duplicates, reorders and rejects packets, and counts what
//! happened to each datagram.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::packet;
use crate::tun::HEADER;

/// Faults in thousandths of the datagrams; 0 switches a fault off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub lose: u32,
    pub double: u32,
    /// Held back until up to eight later packets have passed, or no more arrive.
    pub delay: u32,
    /// Lost, with "port unreachable" as an answer.
    pub reject: u32,
}

pub const QUIET: Rules = Rules { lose: 0, double: 0, delay: 0, reject: 0 };

/// The two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// What happened to the datagrams of one direction, by number.
#[derive(Clone, Debug)]
pub struct Tally {
    /// How many copies reached the link.
    pub seen: Vec<u8>,
    /// How many copies it passed on: fewer after losses, more after duplicates.
    pub passed: Vec<u8>,
    pub lost: u64,
    pub doubled: u64,
    /// Packets of several datagrams: GSO batches.
    pub batches: u64,
    /// All datagrams seen, whatever their number.
    pub datagrams: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let none = || vec![0; 1 << 16];
        Self { seen: none(), passed: none(), lost: 0, doubled: 0, batches: 0, datagrams: 0 }
    }
}

impl Tally {
    pub fn all_passed(&self) -> u64 {
        self.passed.iter().map(|count| u64::from(*count)).sum()
    }
}

struct State {
    rules: Rules,
    /// The server's port. Packets of other ports pass unchanged.
    port: u16,
    random: u64,
    ways: [Tally; 2],
    /// Packets held back, and how many others must pass before each.
    held: Vec<(u32, Way, Vec<u8>)>,
}

/// The link, which runs on a thread of its own until dropped.
pub struct Link {
    state: Arc<(Mutex<State>, Condvar)>,
    end: UnixDatagram,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Connects the client's device to the router's. The link's ICMP errors come from `router`.
    pub fn start(devices: [File; 2], router: IpAddr) -> io::Result<Self> {
        let (rules, held, ways) = (QUIET, Vec::new(), Default::default());
        let state = State { rules, port: 0, random: 1, ways, held };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let (end, ended) = UnixDatagram::pair()?;
        let shared = Arc::clone(&state);
        let run = move || carry(&shared, &devices, router, &ended);
        Ok(Self { state, end, thread: Some(thread::spawn(run)) })
    }

    /// Starts to count the datagrams to and from `port`, under these rules.
    pub fn begin(&self, rules: Rules, port: u16, seed: u64) {
        let mut state = self.lock();
        (state.rules, state.port, state.random) = (rules, port, seed | 1);
        state.ways = Default::default();
    }

    pub fn set_rules(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.lock().rules);
    }

    pub fn tally(&self, way: Way) -> Tally {
        self.lock().ways[way as usize].clone()
    }

    /// Waits until `done` holds for both directions' counts and nothing is held back; false after `limit`.
    pub fn wait_for(&self, limit: Duration, done: impl Fn(&[Tally; 2]) -> bool) -> bool {
        let waiting = |state: &mut State| !state.held.is_empty() || !done(&state.ways);
        let (state, changed) = &*self.state;
        let state = state.lock().expect("the link runs");
        let waited = changed.wait_timeout_while(state, limit, waiting);
        !waited.expect("the link runs").1.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().expect("the link runs")
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.end.send(b"end");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn carry(
    shared: &(Mutex<State>, Condvar),
    devices: &[File; 2],
    router: IpAddr,
    end: &UnixDatagram,
) {
    let mut buffer = vec![0; HEADER + (1 << 16)];
    loop {
        let wait = if shared.0.lock().expect("no panic").held.is_empty() { None } else { Some(2) };
        let ready = poll([devices[0].as_raw_fd(), devices[1].as_raw_fd(), end.as_raw_fd()], wait);
        if ready[2] {
            return;
        }
        let state = &mut *shared.0.lock().expect("no panic");
        if ready == [false; 3] {
            // No further packet will pass those held back.
            for (_, way, packet) in std::mem::take(&mut state.held) {
                pass(&mut state.ways, state.port, devices, way, &packet);
            }
        }
        for (way, ready) in [(Way::ToServer, ready[0]), (Way::ToClient, ready[1])] {
            if !ready {
                continue;
            }
            // A device that is down also reports readiness, but cannot be read.
            match (&devices[way as usize]).read(&mut buffer) {
                Ok(len) => state.handle(devices, router, way, &buffer[..len]),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        shared.1.notify_all();
    }
}

impl State {
    /// Applies the rules to a packet.
    fn handle(&mut self, devices: &[File; 2], router: IpAddr, way: Way, packet: &[u8]) {
        let numbers = datagrams(packet, self.port);
        let count = numbers.len() as u64;
        let rules = if count == 0 { QUIET } else { self.rules };
        let rejected = self.happens(rules.reject);
        let lost = rejected || self.happens(rules.lose);
        let doubled = !lost && self.happens(rules.double);
        let delayed = !lost && self.happens(rules.delay);

        let tally = &mut self.ways[way as usize];
        for number in numbers {
            let seen = &mut tally.seen[usize::from(number)];
            *seen = seen.saturating_add(1);
        }
        tally.batches += u64::from(count > 1);
        tally.datagrams += count;
        tally.lost += if lost { count } else { 0 };
        tally.doubled += if doubled { count } else { 0 };
        if rejected {
            let reply = packet::unreachable(&packet[HEADER..], router);
            // The answer returns to the packet's sender.
            let _ = (&devices[way as usize]).write_all(&[&[0; HEADER][..], &reply].concat());
        }
        if lost {
            return;
        }
        if delayed {
            let others = 1 + self.random() % 8;
            self.held.push((others, way, packet.to_vec()));
        } else {
            pass(&mut self.ways, self.port, devices, way, packet);
        }
        if doubled {
            pass(&mut self.ways, self.port, devices, way, packet);
        }
        self.release(devices);
    }

    /// Releases a packet that enough others have passed.
    fn release(&mut self, devices: &[File; 2]) {
        for held in &mut self.held {
            held.0 = held.0.saturating_sub(1);
        }
        while let Some(at) = self.held.iter().position(|held| held.0 == 0) {
            let (_, way, packet) = self.held.remove(at);
            pass(&mut self.ways, self.port, devices, way, &packet);
        }
    }

    fn happens(&mut self, thousandths: u32) -> bool {
        thousandths > 0 && self.random() % 1000 < thousandths
    }

    /// Marsaglia's xorshift.
    fn random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u32
    }
}

fn datagrams(packet: &[u8], port: u16) -> Vec<u16> {
    // `gso_type` 5 is VIRTIO_NET_HDR_GSO_UDP_L4; `gso_size` is at offset 4.
    let gso_size = if packet[1] == 5 { u16::from_ne_bytes([packet[4], packet[5]]) } else { 0 };
    packet::numbers(gso_size, &packet[HEADER..], port)
}

/// Writes a packet to the other device. If the device rejects it, it counts as lost by the link.
fn pass(ways: &mut [Tally; 2], port: u16, devices: &[File; 2], way: Way, packet: &[u8]) {
    let (tally, numbers) = (&mut ways[way as usize], datagrams(packet, port));
    let to = &devices[1 - way as usize];
    // A device accepts a packet completely or not at all.
    match { to }.write_all(packet) {
        Ok(()) => {
            for number in numbers {
                let passed = &mut tally.passed[usize::from(number)];
                *passed = passed.saturating_add(1);
            }
        }
        Err(_) => tally.lost += numbers.len() as u64,
    }
}

/// Which of these are readable after at most `wait` milliseconds.
fn poll(fds: [i32; 3], wait: Option<i32>) -> [bool; 3] {
    let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: an array of three that outlives the call.
    unsafe { libc::poll(polled.as_mut_ptr(), 3, wait.unwrap_or(-1)) };
    polled.map(|polled| polled.revents != 0)
}

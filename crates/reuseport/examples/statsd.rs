//! A StatsD collector: one port, a thread for each core, counters added up at the end.
//!
//! ```text
//! cargo run --release -p mmsg-reuseport --example statsd
//! ```
//!
//! Applications send lines such as `requests:1|c`, several to a datagram. A few hosts send nearly everything, so a
//! spread by flow would leave most threads idle: `Spread::RANDOM` gives each an equal share. Here one host sends 20,000
//! datagrams of two lines, and one datagram that is too long.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use mmsg::{BatchSocket, RecvBatch};
use mmsg_reuseport::{ReusePortGroup, Spread};

const DATAGRAMS: usize = 20_000;
/// Longer datagrams are dropped.
const MAX_DATAGRAM: usize = 1500;
/// Anybody can send lines with new names: those beyond this many are dropped.
const MAX_NAMES: usize = 10_000;

static TRUNCATED: AtomicUsize = AtomicUsize::new(0);
/// Lines that are not counters, or have one name too many.
static LINES: AtomicUsize = AtomicUsize::new(0);

/// Returns the sums of the counters, by name.
fn collect(socket: &UdpSocket, received: &AtomicUsize) -> HashMap<String, u64> {
    let mut batch = RecvBatch::new(64, MAX_DATAGRAM);
    let mut counters = HashMap::new();
    while received.load(Ordering::Relaxed) < DATAGRAMS + 1 {
        // After a timeout, check the count again.
        let Ok(count) = socket.recv_into(&mut batch) else { continue };
        for datagram in &batch {
            if datagram.truncated() {
                if TRUNCATED.fetch_add(1, Ordering::Relaxed) == 0 {
                    eprintln!("datagrams of more than {MAX_DATAGRAM} bytes are dropped");
                }
                continue;
            }
            for line in String::from_utf8_lossy(datagram.data()).lines() {
                if add(&mut counters, line).is_none() {
                    LINES.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        received.fetch_add(count, Ordering::Relaxed);
    }
    counters
}

/// Adds a line's value to its counter; `None` if the line is dropped.
fn add(counters: &mut HashMap<String, u64>, line: &str) -> Option<()> {
    let (name, rest) = line.split_once(':')?;
    let value: u64 = rest.strip_suffix("|c")?.parse().ok()?;
    if counters.len() >= MAX_NAMES && !counters.contains_key(name) {
        return None;
    }
    let sum = counters.entry(name.to_owned()).or_default();
    *sum = sum.saturating_add(value);
    Some(())
}

/// Sends no faster than the collector receives, so that the sums can be checked.
fn send(to: SocketAddr, received: &AtomicUsize) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.send_to(&[b'x'; MAX_DATAGRAM + 1], to)?;
    for sent in 0..DATAGRAMS {
        while sent >= received.load(Ordering::Relaxed) + 128 {
            thread::yield_now();
        }
        socket.send_to(b"requests:1|c\nbytes:1500|c\n", to)?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let group = ReusePortGroup::builder(SocketAddr::from(([127, 0, 0, 1], 0)))
        .members(4)
        .spread(Spread::RANDOM)
        .prepare(|socket| socket.set_read_timeout(Some(Duration::from_millis(100))))
        .bind()?;
    let received = AtomicUsize::new(0);
    // Without a network nothing comes: the threads need not wait.
    let end = &|_: &io::Error| received.store(DATAGRAMS + 1, Ordering::Relaxed);
    let threads = thread::scope(|scope| {
        let sender = scope.spawn(|| send(group.local_addr(), &received).inspect_err(end));
        let threads = group.run(|_, socket| collect(socket, &received));
        sender.join().expect("no panic").and(threads)
    })?;
    // A closed output does no harm.
    let mut out = io::stdout();
    for name in ["requests", "bytes"] {
        let shares: Vec<u64> = threads.iter().filter_map(|c| c.get(name).copied()).collect();
        let _ = writeln!(out, "{name}: {} of {shares:?}", shares.iter().sum::<u64>());
    }
    let [truncated, lines] = [&TRUNCATED, &LINES].map(|count| count.load(Ordering::Relaxed));
    let _ = writeln!(out, "dropped: {truncated} datagrams, {lines} lines");
    Ok(())
}

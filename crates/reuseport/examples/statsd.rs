//! A StatsD collector: one port, a thread for each core, counters added up at the end.
//!
//! ```text
//! cargo run --release -p mmsg-reuseport --example statsd
//! ```
//!
//! Applications send lines such as `requests:1|c`, several to a datagram. A few hosts send nearly everything, so a
//! spread by flow would leave most threads idle: `Spread::RANDOM` gives each an equal share. Here one host sends 20,000
//! datagrams of two lines.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use mmsg::{BatchSocket, RecvBatch};
use mmsg_reuseport::{ReusePortGroup, Spread};

const DATAGRAMS: usize = 20_000;
/// Anybody can send lines with new names: those beyond this many are dropped.
const MAX_NAMES: usize = 10_000;

/// Returns the sums of the counters, by name.
fn collect(socket: &UdpSocket, received: &AtomicUsize) -> HashMap<String, u64> {
    let mut batch = RecvBatch::new(64, 1500);
    let mut counters = HashMap::new();
    while received.load(Ordering::Relaxed) < DATAGRAMS {
        // After a timeout, check the count again.
        let Ok(count) = socket.recv_into(&mut batch) else { continue };
        for datagram in batch.iter().filter(|datagram| !datagram.truncated()) {
            for line in std::str::from_utf8(datagram.data()).unwrap_or_default().lines() {
                // Skips lines that are not counters.
                let Some((name, rest)) = line.split_once(':') else { continue };
                let Some(Ok(value)) = rest.strip_suffix("|c").map(str::parse::<u64>) else {
                    continue;
                };
                if counters.len() < MAX_NAMES || counters.contains_key(name) {
                    let sum: &mut u64 = counters.entry(name.to_owned()).or_default();
                    *sum = sum.saturating_add(value);
                }
            }
        }
        received.fetch_add(count, Ordering::Relaxed);
    }
    counters
}

/// Sends no faster than the collector receives, so that the sums can be checked.
fn send(to: SocketAddr, received: &AtomicUsize) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
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
    let threads = thread::scope(|scope| {
        let sender = scope.spawn(|| send(group.local_addr(), &received));
        let threads = group.run(|_, socket| collect(socket, &received));
        sender.join().expect("no panic").and(threads)
    })?;
    for name in ["requests", "bytes"] {
        let shares: Vec<u64> = threads.iter().filter_map(|c| c.get(name).copied()).collect();
        println!("{name}: {} of {shares:?}", shares.iter().sum::<u64>());
    }
    Ok(())
}

//! A StatsD collector: one port, a thread for each core, metrics added up at the end.
//!
//! ```text
//! cargo run --release --example statsd
//! ```
//!
//! Applications send lines such as `requests:1|c` (a counter) or `queue:17|g` (a gauge), several to a
//! datagram. A few hosts send nearly everything, so that a spread by flow would leave most threads idle:
//! `Spread::RANDOM` gives each an equal share. Here one host sends 20,000 datagrams of two lines.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use mmsg::{BatchSocket, RecvBatch, ReusePortGroup, Spread};

const DATAGRAMS: usize = 20_000;

/// Sums of counters by name, and the last value of each gauge.
type Metrics = HashMap<String, f64>;

/// Adds a line to the metrics; `None` if it is no counter or gauge.
fn add(metrics: &mut Metrics, line: &str) -> Option<()> {
    let (name, rest) = line.split_once(':')?;
    let (value, kind) = rest.split_once('|')?;
    let value: f64 = value.parse().ok()?;
    // Looked up before it is made: a known name takes no allocation.
    if !metrics.contains_key(name) {
        metrics.insert(name.to_owned(), 0.0);
    }
    let metric = metrics.get_mut(name)?;
    *metric = if kind.starts_with('c') { *metric + value } else { value };
    Some(())
}

fn collect(socket: &UdpSocket, received: &AtomicUsize) -> Metrics {
    let mut batch = RecvBatch::new(64, 1500);
    let mut metrics = Metrics::new();
    while received.load(Ordering::Relaxed) < DATAGRAMS {
        // A timeout: there may be no more.
        let Ok(count) = socket.recv_into(&mut batch) else { continue };
        for datagram in batch.iter().filter(|datagram| !datagram.truncated()) {
            let lines = std::str::from_utf8(datagram.data()).unwrap_or_default().lines();
            // Skips lines that are no metric.
            let _ = lines.filter_map(|line| add(&mut metrics, line)).count();
        }
        received.fetch_add(count, Ordering::Relaxed);
    }
    metrics
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
    let linux = cfg!(target_os = "linux");
    let group = ReusePortGroup::builder(SocketAddr::from(([127, 0, 0, 1], 0)))
        .members(if linux { 4 } else { 1 })
        .spread(if linux { Spread::RANDOM } else { Spread::FLOW })
        .prepare(|socket| socket.set_read_timeout(Some(Duration::from_millis(100))))
        .bind()?;
    let received = AtomicUsize::new(0);
    let threads = thread::scope(|scope| {
        let sender = scope.spawn(|| send(group.local_addr(), &received));
        let threads = group.run(|_, socket| collect(socket, &received));
        sender.join().expect("no panic").and(threads)
    })?;
    let shares: Vec<_> = threads.iter().map(|m| m.get("requests").unwrap_or(&0.0)).collect();
    println!("requests of each thread: {shares:?}");
    for name in ["requests", "bytes"] {
        println!("{name}: {}", threads.iter().filter_map(|m| m.get(name)).sum::<f64>());
    }
    Ok(())
}

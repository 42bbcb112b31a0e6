//! A socket and a thread for each core, all on one port.
//!
//! ```text
//! cargo run --release --example socket_per_core
//! ```
//!
//! The kernel spreads the clients over the members of a `ReusePortGroup`; threads share nothing, since
//! each has its own socket, its own `RecvBatch` and its own pool of headers. Here 64 clients ask once
//! each.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, ReusePortGroup};

/// Echoes until `stop` is set, and returns the number of datagrams received.
fn serve(socket: &UdpSocket, stop: &AtomicBool) -> usize {
    let mut batch = RecvBatch::new(64, 1500);
    let mut received = 0;
    while !stop.load(Ordering::Relaxed) {
        // A timeout, or an error about an earlier datagram: the socket is as good as before.
        let Ok(count) = socket.recv_into(&mut batch) else { continue };
        received += count;
        let replies = batch.iter().filter(|d| !d.truncated()).filter_map(|d| d.reply(d.data()));
        if let Err(error) = socket.send_each(replies, |_, error| eprintln!("reply: {error}")) {
            eprintln!("replies: {error}");
        }
    }
    received
}

fn ask(addr: SocketAddr) -> io::Result<()> {
    for _ in 0..64 {
        let client = UdpSocket::bind("127.0.0.1:0")?;
        client.send_to(b"hello", addr)?;
        client.recv(&mut [0; 16])?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    // Elsewhere one member gets them all; FreeBSD could have more.
    let cores = if cfg!(target_os = "linux") { thread::available_parallelism()?.get() } else { 1 };
    let group = ReusePortGroup::builder(SocketAddr::from(([127, 0, 0, 1], 0)))
        .members(cores)
        // A thread checks from time to time whether to stop.
        .prepare(|socket| socket.set_read_timeout(Some(Duration::from_millis(100))))
        .bind()?;
    let stop = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let asked = ask(group.local_addr());
            stop.store(true, Ordering::Relaxed);
            asked
        });
        let counts = group.run(|_, socket| serve(socket, &stop));
        asked.join().expect("no panic").and(counts)
    })?;
    println!("{} datagrams over {cores} sockets: {counts:?}", counts.iter().sum::<usize>());
    Ok(())
}

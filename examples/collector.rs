//! A collector: stores received datagrams, up to 100 at a time and at most 50 ms after the first.
//!
//! ```text
//! cargo run --release --example collector
//! ```
//!
//! A database or a compressor is costly to call: under load it gets long batches, and no datagram waits long. A thread of
//! its own reads the kernel's count of dropped datagrams, as a metric: it is right also while nothing arrives. Here 250
//! datagrams wait at the start.

#[macro_use]
mod common;

use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use mmsg::options::dropped;
use mmsg::{RecvBatch, prelude::*};

/// Ends when `store` returns false.
pub fn collect(socket: &UdpSocket, mut store: impl FnMut(&RecvBatch) -> bool) -> io::Result<()> {
    let mut batch = RecvBatch::new(100, 65_535); // Slots as long as any datagram.
    loop {
        // Waits for the first datagram, without a deadline.
        if let Err(error) = socket.recv_into(&mut batch) {
            eprintln!("receive: {error}");
            thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
        }
        let deadline = Instant::now() + Duration::from_millis(50);
        if let Err(error) = socket.recv_more_until(&mut batch, deadline) {
            eprintln!("receive: {error}"); // The batch holds what came before.
        }
        if !store(&batch) {
            return Ok(());
        }
    }
}

/// Prints the metric when it has grown.
fn watch(socket: &UdpSocket) -> io::Result<()> {
    let (mut total, mut last) = (0u64, 0);
    loop {
        let now = dropped(socket)?;
        if now != last {
            // The count wraps.
            total += u64::from(now.wrapping_sub(last));
            last = now;
            eprintln!("{total} datagrams dropped");
        }
        thread::sleep(Duration::from_secs(1));
    }
}

fn main() -> common::Result {
    common::no_arguments();
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let watched = socket.try_clone()?;
    thread::spawn(move || watch(&watched).inspect_err(|error| eprintln!("no count: {error}")));
    let (client, to) = (UdpSocket::bind("127.0.0.1:0")?, socket.local_addr()?);
    for i in 0..250u32 {
        client.send_to(&i.to_be_bytes(), to)?;
    }
    let (mut stores, mut total) = (Vec::new(), 0);
    collect(&socket, |batch| {
        stores.push(batch.datagram_count().to_string());
        total += batch.datagram_count();
        total < 250
    })?;
    println!("stored {} datagrams", stores.join(" + "));
    Ok(())
}

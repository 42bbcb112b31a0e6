//! A collector: stores what it receives 100 datagrams at a time, and no later than 50 ms after the first.
//!
//! ```text
//! cargo run --release --example collector
//! ```
//!
//! A store that is costly to call, a database or a compressor, gets long batches under load and still no old datagrams. Here 250
//! datagrams wait when it starts.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use mmsg::{RecvBatch, prelude::*};

/// Ends when `store` returns false.
fn collect(socket: &UdpSocket, mut store: impl FnMut(&RecvBatch) -> bool) -> io::Result<()> {
    let mut batch = RecvBatch::new(100, 1500);
    loop {
        // Waits as long as it takes for the first.
        if let Err(error) = socket.recv_into(&mut batch) {
            eprintln!("receive: {error}");
        }
        let deadline = Instant::now() + Duration::from_millis(50);
        if let Err(error) = socket.recv_more_until(&mut batch, deadline) {
            eprintln!("receive: {error}"); // What came before is in the batch.
        }
        if !store(&batch) {
            return Ok(());
        }
    }
}

fn main() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
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

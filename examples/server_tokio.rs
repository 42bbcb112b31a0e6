//! The echo server of the README for tokio as a program, until it is ended by a signal.
//!
//! ```text
//! cargo run --release --features tokio --example server_tokio -- 127.0.0.1:7777
//! ```
//!
//! What it meets on the Internet is sent to it by `tests/servers`, which also checks that `echo` is the
//! one that the documentation shows.

use mmsg::{Ancillary, AsyncBatchSocket, RecvBatch, SendQueue};
use std::io;
use tokio::net::UdpSocket;

async fn echo(socket: &UdpSocket) -> io::Result<()> {
    Ancillary::DEST.require(socket)?; // Replies leave from the address that was asked.
    let (mut batch, mut queue) = (RecvBatch::new(64, 1500), SendQueue::new(1 << 20));
    loop {
        if let Err(error) = socket.recv_into_async(&mut batch).await {
            eprintln!("receive: {error}"); // The batch is empty, the socket as good as before.
        }
        let whole = batch.iter().filter(|d| !d.truncated());
        for reply in whole.filter_map(|d| d.reply(d.data())) {
            if let Err(error) = queue.push(&reply) {
                eprintln!("reply: {error}"); // Only if it takes fewer bytes than a batch.
            }
        }
        while let Err(error) = socket.flush_async(&mut queue).await {
            eprintln!("reply: {error}"); // About the first in the queue: the others follow.
            queue.discard_front();
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let socket = UdpSocket::bind(address).await?;
    println!("listening on {}", socket.local_addr()?);
    echo(&socket).await
}

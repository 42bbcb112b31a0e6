//! The README's echo server for tokio as a program. It runs until a signal ends it.
//!
//! ```text
//! cargo run --release --features tokio --example server_tokio -- 127.0.0.1:7777
//! ```
//!
//! Prints the address it listens on. `echo hello | socat -t1 - UDP:127.0.0.1:7777` then prints "hello". `tests/servers`
//! attacks this program and checks that its `echo` is the documented one. Keep echo servers off the Internet: they send
//! whatever they receive to a forged source.

use mmsg::{Ancillary, RecvBatch, prelude::*};
use std::io;
use tokio::net::UdpSocket;

async fn echo(socket: &UdpSocket) -> io::Result<()> {
    Ancillary::DEST.require(socket)?; // Replies leave from the address that was asked.
    let port = socket.local_addr()?.port();
    let mut batch = RecvBatch::new(64, 65_535); // Slots as long as any datagram.
    loop {
        if let Err(error) = socket.recv_into(&mut batch).await {
            eprintln!("receive: {error}"); // The batch is empty, the socket still usable.
        }
        // Another echo server would answer the reply, and so on for ever.
        let clients = batch.iter().filter(|d| d.addr().is_some_and(|from| from.port() != port));
        let replies = clients.filter_map(|d| d.reply(d.data()));
        socket.send_each(replies, |_, error| eprintln!("reply: {error}")).await?;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let socket = UdpSocket::bind(address).await?;
    println!("listening on {}", socket.local_addr()?);
    echo(&socket).await
}

//! The README's echo server as a program. It runs until a signal ends it.
//!
//! ```text
//! cargo run --release --example server -- 127.0.0.1:7777
//! ```
//!
//! Prints the address it listens on. `echo hello | socat -t1 - UDP:127.0.0.1:7777` then prints "hello". `tests/servers`
//! attacks this program and checks that its `echo` is the documented one. Keep echo servers off the Internet: they send
//! whatever they receive to a forged source.

use mmsg::{Ancillary, Offload, RecvBatch, prelude::*};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

#[macro_use]
mod common;

pub fn echo(socket: &Offload<UdpSocket>) -> io::Result<()> {
    Ancillary::DEST.require(socket)?; // Replies leave from the address that was asked.
    let port = socket.get_ref().local_addr()?.port();
    let mut batch = RecvBatch::for_gro(16);
    loop {
        if let Err(error) = socket.recv_into(&mut batch) {
            eprintln!("receive: {error}"); // The batch is empty, the socket still usable.
            thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
        }
        // Another echo server would answer the reply, and so on for ever.
        let clients = batch.iter().filter(|d| d.addr().is_some_and(|from| from.port() != port));
        let replies = clients.filter_map(|d| d.reply(d.data()));
        socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    }
}

fn main() -> common::Result {
    let args = common::arguments("[ADDRESS:PORT]", 1);
    let addr = args.first().copied().unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
    let socket = UdpSocket::bind(addr).map_err(|error| format!("{addr}: {error}"))?;
    println!("listening on {}", socket.local_addr()?);
    Ok(echo(&Offload::new(socket)?)?)
}

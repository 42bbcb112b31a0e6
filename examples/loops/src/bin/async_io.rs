//! An echo server on async-io, the reactor of smol.
//!
//! ```text
//! cargo run --release -p loops --bin async_io
//! ```
//!
//! `Async` makes a call and waits if that returns `WouldBlock`: any call of this crate goes into its `read_with` and
//! `write_with`. Replies wait in a `SendQueue`, since the socket may be full in the middle of them.

use std::net::UdpSocket;
use std::{io, thread};

use async_io::Async;
use mmsg::{RecvBatch, SendQueue, prelude::*};

/// Sends so many datagrams back.
async fn serve(socket: &Async<UdpSocket>, mut count: usize) -> io::Result<()> {
    let mut batch = RecvBatch::new(64, 1500);
    let mut queue = SendQueue::for_batch(64, 1500);
    while count > 0 {
        count -= match socket.read_with(|socket| socket.recv_into(&mut batch)).await {
            Ok(received) => received,
            Err(error) => {
                eprintln!("receive: {error}"); // The batch is empty, the socket as good as before.
                continue;
            }
        };
        for reply in batch.iter().filter_map(|datagram| datagram.reply(datagram.data())) {
            queue.push(&reply)?;
        }
        while !queue.is_empty() {
            let report = |_: &_, error| eprintln!("reply: {error}");
            socket.write_with(|socket| socket.flush_each(&mut queue, report)).await?;
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let socket = Async::<UdpSocket>::bind(([127, 0, 0, 1], 0))?;
    let addr = socket.get_ref().local_addr()?;
    let client = thread::spawn(move || loops::ask(addr));
    async_io::block_on(serve(&socket, loops::COUNT))?;
    client.join().expect("no panic")?;
    println!("{} datagrams came back", loops::COUNT);
    Ok(())
}

use mmsg::{Ancillary, RecvBatch, prelude::*};
use std::io;
use std::net::UdpSocket;

fn main() -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:7777")?;
    Ancillary::DEST.require(&socket)?; // Replies leave from the address that was asked.
    let mut batch = RecvBatch::new(64, 1500);
    loop {
        if let Err(error) = socket.recv_into(&mut batch) {
            eprintln!("receive: {error}"); // The batch is empty, the socket still usable.
        }
        let whole = batch.iter().filter(|d| !d.truncated());
        let replies = whole.filter_map(|d| d.reply(d.data()));
        socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    }
}

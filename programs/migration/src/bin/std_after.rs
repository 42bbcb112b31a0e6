use mmsg::{Ancillary, RecvBatch, prelude::*};
use std::io;
use std::net::UdpSocket;

fn main() -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:7777")?;
    Ancillary::DEST.require(&socket)?; // Replies leave from the address that was asked.
    let port = socket.local_addr()?.port();
    let mut batch = RecvBatch::new(64, 65_535); // Slots as long as any datagram.
    loop {
        if let Err(error) = socket.recv_into(&mut batch) {
            eprintln!("receive: {error}"); // The batch is empty, the socket still usable.
        }
        // Another echo server would answer the reply, and so on for ever.
        let clients = batch.iter().filter(|d| d.addr().is_some_and(|from| from.port() != port));
        let replies = clients.filter_map(|d| d.reply(d.data()));
        socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    }
}

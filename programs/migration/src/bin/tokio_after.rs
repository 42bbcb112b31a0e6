use mmsg::{RecvBatch, prelude::*};
use std::io;
use tokio::net::UdpSocket;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:7777").await?;
    let mut batch = RecvBatch::new(64, 1500);
    loop {
        socket.recv_into(&mut batch).await?;
        let replies = batch.iter().filter_map(|d| d.reply(d.data()));
        socket.send_each(replies, |_, error| eprintln!("reply: {error}")).await?;
    }
}

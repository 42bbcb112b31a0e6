//! A future that is not awaited.

use mmsg::{RecvBatch, prelude::*};
use std::io;
use tokio::net::UdpSocket;

pub async fn receive(socket: &UdpSocket, batch: &mut RecvBatch) -> io::Result<()> {
    let count = socket.recv_into(batch)?;
    println!("{count} messages");
    Ok(())
}

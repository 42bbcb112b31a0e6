//! tokio's socket without the feature `tokio`.

use mmsg::{RecvBatch, prelude::*};
use std::io;
use tokio::net::UdpSocket;

pub async fn receive() -> io::Result<usize> {
    let socket = UdpSocket::bind("[::]:7").await?;
    socket.recv_into(&mut RecvBatch::new(64, 1500)).await
}

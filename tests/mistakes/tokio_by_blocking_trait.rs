//! tokio's socket with the trait for blocking sockets.

use mmsg::{BatchSocket, RecvBatch};
use std::io;
use tokio::net::UdpSocket;

pub async fn receive(socket: &UdpSocket) -> io::Result<usize> {
    socket.recv_into(&mut RecvBatch::new(64, 1500))
}

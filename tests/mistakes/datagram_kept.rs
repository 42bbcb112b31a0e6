//! Datagrams kept beyond the next receive.

use mmsg::{RecvBatch, prelude::*};
use std::io;
use std::net::UdpSocket;

pub fn receive(socket: &UdpSocket, batch: &mut RecvBatch) -> io::Result<()> {
    let mut kept = Vec::new();
    loop {
        socket.recv_into(batch)?;
        kept.extend(batch.iter().filter(|datagram| datagram.len() > 100));
    }
}

//! Replies, some of which are `None`.

use mmsg::{RecvBatch, prelude::*};
use std::io;
use std::net::UdpSocket;

pub fn echo(socket: &UdpSocket, batch: &RecvBatch) -> io::Result<usize> {
    socket.send_each(batch.iter().map(|d| d.reply(d.data())), |_, error| eprintln!("{error}"))
}

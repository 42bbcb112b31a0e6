//! Replies that borrow a datagram of `iter_mut`, which the closure drops.

use mmsg::{RecvBatch, prelude::*};
use std::io;
use std::net::UdpSocket;

pub fn shout(socket: &UdpSocket, batch: &mut RecvBatch) -> io::Result<usize> {
    let replies = batch.iter_mut().filter_map(|mut d| {
        d.data_mut().make_ascii_uppercase();
        d.reply(d.data())
    });
    socket.send_each(replies, |_, error| eprintln!("{error}"))
}

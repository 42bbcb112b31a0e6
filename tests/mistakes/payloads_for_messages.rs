//! Payloads where messages are expected.

use mmsg::prelude::*;
use std::io;
use std::net::UdpSocket;

pub fn send(socket: &UdpSocket, payloads: &[&[u8]]) -> io::Result<usize> {
    socket.send_each(payloads, |_, error| eprintln!("{error}"))
}

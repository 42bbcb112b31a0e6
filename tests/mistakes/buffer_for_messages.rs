//! One buffer where messages are expected.

use mmsg::prelude::*;
use std::io;
use std::net::UdpSocket;

pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<usize> {
    socket.recv_batch(buffer)
}

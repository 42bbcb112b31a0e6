//! The trait is not imported.

use mmsg::RecvBatch;
use std::io;
use std::net::UdpSocket;

pub fn receive(socket: UdpSocket) -> io::Result<usize> {
    socket.recv_into(&mut RecvBatch::new(64, 1500))
}

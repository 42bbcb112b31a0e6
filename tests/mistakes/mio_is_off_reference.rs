//! A reference to mio's socket without the feature `mio`: for references rustc shows no notes, only the names of
//! bounds.

use mio::net::UdpSocket;
use mmsg::{RecvBatch, prelude::*};
use std::io;

pub fn receive(socket: &UdpSocket) -> io::Result<usize> {
    socket.recv_into(&mut RecvBatch::new(64, 1500))
}

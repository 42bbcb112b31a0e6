//! mio's socket without the feature `mio`.

use mio::net::UdpSocket;
use mmsg::{Offload, RecvBatch, prelude::*};
use std::io;

pub fn receive(socket: UdpSocket) -> io::Result<usize> {
    let socket = Offload::new(socket)?;
    socket.recv_into(&mut RecvBatch::for_gro(16))
}

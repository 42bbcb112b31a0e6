//! An echo server on std, behind the forwarder.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use crate::common::TIME_LIMIT;

/// Starts the server. It ends when nothing has arrived within the time limit of a test.
pub fn start() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let addr = socket.local_addr().expect("it is bound");
    socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    thread::spawn(move || {
        let mut buffer = [0; 65_535];
        loop {
            match socket.recv_from(&mut buffer) {
                Ok((len, from)) => drop(socket.send_to(&buffer[..len], from)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    });
    addr
}

//! A list of buffers dropped before its message.

use mmsg::{SendMsg, prelude::*};
use std::io::{self, IoSlice};
use std::net::UdpSocket;

pub fn send(socket: &UdpSocket, payloads: &[&[u8]]) -> io::Result<usize> {
    let msgs = payloads
        .iter()
        .map(|payload| SendMsg::gather(&[IoSlice::new(b"header"), IoSlice::new(payload)]));
    socket.send_each(msgs, |_, error| eprintln!("{error}"))
}

//! Options dropped before their message.

use mmsg::{SendMeta, SendMsg, prelude::*};
use std::io;
use std::net::UdpSocket;

pub fn send(socket: &UdpSocket, payloads: &[&[u8]]) -> io::Result<usize> {
    let msgs = payloads.iter().zip(1..).map(|(payload, hops)| {
        SendMsg::new(payload).with_meta(&SendMeta::new().with_hop_limit(hops))
    });
    socket.send_each(msgs, |_, error| eprintln!("{error}"))
}

//! A stream socket, in a call and in a bound.

use mmsg::{RecvBatch, prelude::*};
use std::net::TcpStream;

fn serve(_socket: impl BatchSocket) {}

pub fn receive(stream: TcpStream) {
    let _ = stream.recv_into(&mut RecvBatch::new(64, 1500));
    serve(stream);
}

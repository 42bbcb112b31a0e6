//! mio: its own socket types have the batch calls with the feature `mio`.
//!
//! ```text
//! cargo run --release -p event_loops --bin mio
//! ```
//!
//! Prints "1000 echoes".

use std::io;

use event_loops::{Echo, Wait, finish, start};
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};

fn main() -> event_loops::common::Result {
    let (socket, client) = start()?;
    let mut socket = UdpSocket::from_std(socket);
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(64));
    // Edge-triggered: an event comes when the socket becomes readable or writable.
    let interest = Interest::READABLE | Interest::WRITABLE;
    poll.registry().register(&mut socket, Token(0), interest)?;
    let mut echo = Echo::default();
    while echo.turn(&socket) != Wait::End {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            waited => waited?,
        }
    }
    Ok(finish(client)?)
}

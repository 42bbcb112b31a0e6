//! ICMP errors with their destinations, read from the error queue (`drain_errors`; Linux and Android).
//!
//! ```text
//! cargo run --release --example error_queue
//! ```
//!
//! Sends two datagrams to a closed port and one to an open port. Without the error queue, an unconnected socket
//! never learns that a port is closed. Prints a line with "Connection refused" for each error, and at the end
//! that the open port received its datagram.

#[macro_use]
mod common;

use std::net::UdpSocket;

use mmsg::error_queue::{Report, drain_errors};
use mmsg::{Ancillary, BatchSocketExt, SendMsg};

fn main() -> common::Result {
    common::no_arguments();
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    if !Ancillary::ERRORS.enable(&socket)?.contains(Ancillary::ERRORS) {
        println!("this system has no error queue");
        return Ok(());
    }
    let listening = UdpSocket::bind("127.0.0.1:0")?;
    let closed = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let dests = [closed, listening.local_addr()?, closed];
    // `send_each` goes on after a message that fails.
    let msgs = dests.map(|to| SendMsg::to(to, b"anybody?"));
    let mut failed = Ok(());
    socket.send_each(msgs, |i, error| {
        println!("to {}: {error}", dests[i]);
        // It had nothing to do with the closed port.
        if dests[i] != closed {
            failed = Err(error);
        }
    })?;
    failed?;

    // On loopback, Linux 6.5 and later has the errors ready when the send returns. Otherwise wait for them with
    // `poll` (POLLERR). Drain the queue until it is empty: `poll` reports an error until then.
    let mut reports = [Report::EMPTY; 16];
    loop {
        let count = drain_errors(&socket, &mut reports)?;
        for report in &reports[..count] {
            let error = std::io::Error::from_raw_os_error(report.errno);
            println!("{:?} about {:?}: {error}", report.event, report.dest);
        }
        if count < reports.len() {
            break;
        }
    }
    listening.recv(&mut [0; 16])?;
    println!("the open port received its datagram");
    Ok(())
}

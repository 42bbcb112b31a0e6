//! ICMP errors, each with the destination that it is about (`drain_errors`).
//!
//! ```text
//! cargo run --release --example error_queue
//! ```
//!
//! Sends to a closed port, and to an open one. Without the error queue an unconnected socket never learns that a
//! port is closed.

use std::net::UdpSocket;

use mmsg::error_queue::{Report, drain_errors};
use mmsg::{Ancillary, BatchSocketExt, SendMsg};

fn main() -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    if !Ancillary::ERRORS.enable(&socket)?.contains(Ancillary::ERRORS) {
        println!("this system has no error queue");
        return Ok(());
    }
    let listening = UdpSocket::bind("127.0.0.1:0")?;
    let closed = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let dests = [closed, listening.local_addr()?, closed];
    // Goes on past a message that fails.
    let msgs = dests.map(|to| SendMsg::to(to, b"anybody?"));
    socket.send_each(msgs, |i, error| println!("to {}: {error}", dests[i]))?;

    // On loopback, from Linux 6.5 on, the errors are there when the send returns. Otherwise they come later, and a poll
    // for errors (POLLERR) says when. Drain the queue until it is empty: until then `poll` reports an error.
    let mut reports = [Report::default(); 16];
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
    println!("the one that listens has its datagram");
    Ok(())
}

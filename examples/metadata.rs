//! Metadata of received messages, and settings of sent ones.
//!
//! ```text
//! cargo run --release --example metadata
//! ```
//!
//! A server on all addresses prints the ECN bits, destination and age of two datagrams. It replies from the address
//! that was asked, with ECN bits of its own. On Linux a line begins "marked: ECN Some(Ect0), to Some(127.0.0.1)".

#[macro_use]
mod common;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::SystemTime;

use mmsg::{Ancillary, BatchSocket, Ecn, RecvBatch, SendMsg};

fn main() -> common::Result {
    common::no_arguments();
    let server = UdpSocket::bind("0.0.0.0:0")?;
    let port = server.local_addr()?.port();
    let wanted = Ancillary::TOS | Ancillary::DEST | Ancillary::TIMESTAMP;
    let enabled = wanted.enable(&server)?;
    if enabled != wanted {
        println!("this system has only {enabled:?}");
    }

    let client = UdpSocket::bind("127.0.0.1:0")?;
    let _ = Ancillary::TOS.enable(&client)?;
    // The server listens on all addresses. Without `reply`, the system would choose the address that replies leave
    // from.
    let to = (Ipv4Addr::new(127, 0, 0, 1), port).into();
    let marked = SendMsg::to(to, b"marked").with_ecn(Ecn::Ect0);
    client.send_batch(&[marked, SendMsg::to(to, b"plain")])?;

    let mut batch = RecvBatch::new(16, 1500);
    let mut left = 2;
    while left > 0 {
        server.recv_into(&mut batch)?;
        for datagram in &batch {
            left -= 1;
            let (text, meta) = (String::from_utf8_lossy(datagram.data()), datagram.meta());
            println!("{text}: ECN {:?}, to {:?}", meta.ecn(), meta.dest);
            if let Some(age) =
                meta.timestamp.and_then(|at| SystemTime::now().duration_since(at).ok())
            {
                println!("{text}: {} us ago", age.as_micros());
            }
            let Some(reply) = datagram.reply(b"seen") else { continue };
            // `reply` sets only the source address; further settings can be added.
            if let Err(error) = server.send_batch(&[reply.with_ecn(Ecn::Ect1)]) {
                eprintln!("reply to {text}: {error}");
            }
        }
    }
    client.recv_into(&mut batch)?;
    for reply in &batch {
        println!(
            "reply from {:?}: ECN {:?}",
            reply.addr().map(|addr| addr.ip()),
            reply.meta().ecn()
        );
    }
    Ok(())
}

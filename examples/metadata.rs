//! Metadata of each received message, and options of each sent one.
//!
//! ```text
//! cargo run --release --example metadata
//! ```
//!
//! A server on all addresses prints ECN, destination and receive time of a datagram, and replies
//! from the address that the datagram was sent to, with ECN bits of its own.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::SystemTime;

use mmsg::{Ancillary, BatchSocket, Ecn, RecvBatch, SendMsg};

fn main() -> std::io::Result<()> {
    let server = UdpSocket::bind("0.0.0.0:0")?;
    let port = server.local_addr()?.port();
    let wanted = Ancillary::TOS | Ancillary::DEST | Ancillary::TIMESTAMP;
    let enabled = wanted.enable(&server)?;
    if enabled != wanted {
        println!("this system has only {enabled:?}");
    }

    let client = UdpSocket::bind("127.0.0.1:0")?;
    let _ = Ancillary::TOS.enable(&client)?;
    // For the reply, the system alone would pick another address than this one.
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
            println!("{text}: ECN {:?}, to {:?}", meta.ecn(), meta.destination);
            if let Some(age) =
                meta.timestamp.and_then(|at| SystemTime::now().duration_since(at).ok())
            {
                println!("{text}: {} us ago", age.as_micros());
            }
            let Some(reply) = datagram.reply(b"seen") else { continue };
            // `reply` sets the source address; other options can be added.
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

//! GSO and GRO: the kernel segments and coalesces datagrams (`Offload`).
//!
//! ```text
//! cargo run --release --example offload
//! ```
//!
//! Sends 1,000 datagrams of 1,200 bytes and receives them. The calls are those of any socket. Without GSO, or
//! after the kernel has rejected a batch, the same call sends single datagrams. Prints how many
//! system calls each end made: 20 on Linux.

#[macro_use]
mod common;

use std::net::UdpSocket;

use mmsg::{Offload, RecvBatch, SendMsg, prelude::*};

fn main() -> common::Result {
    common::no_arguments();
    let sender = Offload::new(UdpSocket::bind("127.0.0.1:0")?)?;
    let receiver = Offload::new(UdpSocket::bind("127.0.0.1:0")?)?;
    let to = receiver.get_ref().local_addr()?;
    println!("GSO {}, GRO {}", sender.state().gso(), receiver.state().gro());

    // Consecutive messages with the same destination and length leave as one GSO batch.
    let payloads: Vec<Vec<u8>> = (0..1000u32).map(|i| i.to_be_bytes().repeat(300)).collect();
    // Each slot holds a coalesced message, of up to 65,535 bytes.
    let mut batch = RecvBatch::for_gro(16);
    let mut received = 0u32;
    for part in payloads.chunks(50) {
        let mut failed = Ok(());
        let msgs = part.iter().map(|data| SendMsg::to(to, data));
        sender.send_each(msgs, |_, error| failed = Err(error))?;
        failed?;
        let end = received + part.len() as u32;
        while received < end {
            receiver.recv_into(&mut batch)?;
            // The iterator yields datagrams, whether the kernel has coalesced them or not.
            for datagram in &batch {
                assert_eq!(datagram.data(), payloads[received as usize]);
                received += 1;
            }
        }
    }
    println!("{received} datagrams came back whole");
    println!(
        "sender: {} datagrams in {} system calls",
        sender.state().counters().sent,
        sender.state().counters().send_calls
    );
    let counters = receiver.state().counters();
    println!(
        "receiver: {} datagrams in {} system calls",
        counters.received, counters.receive_calls
    );
    Ok(())
}

//! The kernel carries many datagrams at once: GSO on the way out, GRO on the way in (`Offload`).
//!
//! ```text
//! cargo run --release --example offload
//! ```
//!
//! Sends 1,000 datagrams from memory that is not contiguous and receives them again. The calls are
//! those of any socket; where the system has no offload, or rejects a batch, its datagrams go one by
//! one in the same call.

use std::net::UdpSocket;

use mmsg::{Offload, RecvBatch, SendMsg, prelude::*};

fn main() -> std::io::Result<()> {
    let sender = Offload::new(UdpSocket::bind("127.0.0.1:0")?)?;
    let receiver = Offload::new(UdpSocket::bind("127.0.0.1:0")?)?;
    let to = receiver.get_ref().local_addr()?;
    println!("GSO {}, GRO {}", sender.gso(), receiver.gro());

    // Messages that follow one another with the same destination and length leave as one GSO batch.
    let payloads: Vec<Vec<u8>> = (0..1000u32).map(|i| i.to_be_bytes().repeat(300)).collect();
    // A coalesced message has up to 65,535 bytes, and so has each slot.
    let mut batch = RecvBatch::for_gro(16);
    let mut received = 0u32;
    for part in payloads.chunks(50) {
        sender.send_each(part.iter().map(|data| SendMsg::to(to, data)), |_, e| panic!("{e}"))?;
        let end = received + part.len() as u32;
        while received < end {
            receiver.recv_into(&mut batch)?;
            // Datagrams, also where the kernel has delivered several as one message.
            for datagram in &batch {
                assert_eq!(datagram.data(), payloads[received as usize]);
                received += 1;
            }
        }
    }
    println!("{received} datagrams came back whole");
    println!(
        "sender: {} datagrams in {} system calls",
        sender.counters().sent,
        sender.counters().send_calls
    );
    let counters = receiver.counters();
    println!(
        "receiver: {} datagrams in {} system calls",
        counters.received, counters.receive_calls
    );
    Ok(())
}

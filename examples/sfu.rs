//! A selective forwarding unit: sends each packet of a call to every listener, with a header of the listener's own.
//!
//! ```text
//! cargo run --release --example sfu
//! ```
//!
//! The sequence number and source in an RTP header (RFC 3550) differ for each listener; the payload is the same.
//! Sends 100 packets to each of 20 listeners, and prints "2000 packets heard" and the number of GSO batches.

#[macro_use]
mod common;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};

use mmsg::{Offload, RecvBatch, SendMsg, SendQueue, prelude::*};

const HEADER: usize = 12;

struct Listener {
    addr: SocketAddr,
    source: u32,
    next: u16,
    dropped: u64,
}

impl Listener {
    /// Rewrites a packet's header for this listener.
    fn header(&mut self, header: &[u8; HEADER]) -> [u8; HEADER] {
        let mut own = *header;
        own[2..4].copy_from_slice(&self.next.to_be_bytes());
        own[8..].copy_from_slice(&self.source.to_be_bytes());
        self.next = self.next.wrapping_add(1);
        own
    }
}

/// Relays only the speaker's packets: otherwise anybody could speak to all listeners. Real calls also authenticate
/// each packet (SRTP, RFC 3711), since a source address can be forged.
fn relay(
    socket: &Offload<UdpSocket>,
    speaker: SocketAddr,
    batch: &RecvBatch,
    queue: &mut SendQueue,
    listeners: &mut [Listener],
) -> io::Result<usize> {
    // All packets of one listener follow each other, so that they leave as one GSO batch.
    for listener in listeners {
        // Slots for GRO hold any packet, so none is truncated.
        for packet in batch.iter().filter(|packet| packet.addr() == Some(speaker)) {
            let Some((header, payload)) = packet.data().split_first_chunk() else { continue };
            let header = listener.header(header);
            let parts = [IoSlice::new(&header), IoSlice::new(payload)];
            if queue.push(&SendMsg::gather(&parts).with_dest(listener.addr)).is_err() {
                listener.dropped += 1; // Old media is worth nothing.
            }
        }
    }
    socket.flush_each(queue, |msg, error| eprintln!("to {:?}: {error}", msg.dest()))
}

fn main() -> common::Result {
    common::no_arguments();
    let socket = Offload::new(UdpSocket::bind("127.0.0.1:0")?)?;
    let speaker = Offload::new(UdpSocket::bind("127.0.0.1:0")?)?;
    let from = speaker.get_ref().local_addr()?;
    let ears: Vec<_> = (0..20)
        .map(|_| Offload::new(UdpSocket::bind("127.0.0.1:0")?))
        .collect::<io::Result<_>>()?;
    let mut listeners = Vec::new();
    for (source, ear) in (1000..).zip(&ears) {
        listeners.push(Listener { addr: ear.get_ref().local_addr()?, source, next: 0, dropped: 0 });
    }
    let (mut batch, mut queue) = (RecvBatch::for_gro(16), SendQueue::for_batch(2048, 1200));
    let (mut sent, mut heard) = (0, 0);
    for _ in 0..10 {
        let packets = [SendMsg::to(socket.get_ref().local_addr()?, &[0x80; 1200]); 10];
        let mut failed = Ok(());
        speaker.send_each(packets, |_, error| failed = Err(error))?;
        failed?;
        let before = sent;
        while sent < before + 10 * ears.len() {
            socket.recv_into(&mut batch)?;
            sent += relay(&socket, from, &batch, &mut queue, &mut listeners)?;
        }
        for (listener, ear) in listeners.iter().zip(&ears) {
            let source = listener.source.to_be_bytes();
            let mut left = 10;
            while left > 0 {
                ear.recv_into(&mut batch)?;
                left -= batch.iter().filter(|packet| packet.data()[8..12] == source).count();
            }
            heard += 10;
        }
    }
    println!("{heard} packets heard, in {} GSO batches", socket.state().counters().sent_batches);
    Ok(())
}

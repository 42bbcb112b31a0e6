//! A tunnel: encrypts outgoing datagrams into the queue, and decrypts incoming ones in place.
//!
//! ```text
//! cargo run --release --example tunnel
//! ```
//!
//! A frame is a counter and the payload. XOR with a key stands in for a cipher and keeps nothing secret. A real tunnel
//! authenticates frames and rejects old counters; this one passes on whatever a stranger sends. It sends 1,000 datagrams
//! through both ends with GSO and GRO, and prints "1000 datagrams came through whole".

#[macro_use]
mod common;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::{sync::Arc, thread, time::Duration};

use mmsg::{Offload, RecvBatch, SendMsg, SendQueue, prelude::*};

type Socket = Offload<UdpSocket>;

fn cipher(key: u64, counter: [u8; 8], data: &mut [u8]) {
    let stream = (key ^ u64::from_be_bytes(counter)).to_be_bytes();
    data.iter_mut().zip(stream.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

/// Encrypts datagrams from the inside and sends them to the peer.
fn encrypt(inside: &Socket, outside: &Socket, peer: SocketAddr, key: u64) -> io::Result<()> {
    let (mut batch, mut queue) = (RecvBatch::for_gro(16), SendQueue::new(4 << 20));
    for counter in 0u64.. {
        if let Err(error) = inside.recv_into(&mut batch) {
            eprintln!("receive: {error}");
            thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
        }
        for (i, datagram) in batch.iter().enumerate() {
            let counter = ((counter << 16) + i as u64).to_be_bytes();
            let pushed = queue.push_with(&SendMsg::to(peer, &counter), datagram.len(), |payload| {
                payload.copy_from_slice(datagram.data());
                cipher(key, counter, payload);
                Some(payload.len())
            });
            if let Err(error) = pushed {
                eprintln!("dropped: {error}");
            }
        }
        outside.flush_each(&mut queue, |_, error| eprintln!("frame: {error}"))?;
    }
    Ok(())
}

/// Decrypts frames from the peer and sends their payloads to the inside.
fn decrypt(outside: &Socket, inside: &Socket, dest: SocketAddr, key: u64) -> io::Result<()> {
    let mut batch = RecvBatch::for_gro(16);
    loop {
        if let Err(error) = outside.recv_into(&mut batch) {
            eprintln!("receive: {error}");
            thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
        }
        let datagrams = batch.iter_mut().filter_map(|mut frame| {
            let (counter, payload) = frame.data_mut().split_first_chunk_mut()?;
            cipher(key, *counter, payload);
            Some(SendMsg::to(dest, &frame.into_datagram().data()[8..]))
        });
        inside.send_each(datagrams, |_, error| eprintln!("datagram: {error}"))?;
    }
}

fn main() -> common::Result {
    common::no_arguments();
    let socket = || Ok::<_, io::Error>(Arc::new(Offload::new(UdpSocket::bind("127.0.0.1:0")?)?));
    let (inside, near, far, service) = (socket()?, socket()?, socket()?, socket()?);
    let (entry, peer) = (inside.get_ref().local_addr()?, far.get_ref().local_addr()?);
    let (dest, exit) = (service.get_ref().local_addr()?, inside.clone());
    thread::spawn(move || encrypt(&inside, &near, peer, 0x5eed));
    thread::spawn(move || decrypt(&far, &exit, dest, 0x5eed));

    let (client, mut batch) = (socket()?, RecvBatch::for_gro(16));
    let datagrams: Vec<_> = (0..1000u32).map(|i| i.to_be_bytes().repeat(300)).collect();
    let mut left = datagrams.iter().map(|datagram| &datagram[..]);
    for burst in datagrams.chunks(20) {
        let mut failed = Ok(());
        let msgs = burst.iter().map(|d| SendMsg::to(entry, d));
        client.send_each(msgs, |_, error| failed = Err(error))?;
        failed?;
        let mut received = 0;
        while received < burst.len() {
            service.recv_into(&mut batch)?;
            received += batch.iter().inspect(|d| assert_eq!(Some(d.data()), left.next())).count();
        }
    }
    println!("{} datagrams came through whole", datagrams.len() - left.count());
    Ok(())
}

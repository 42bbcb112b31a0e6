//! Back-pressure: datagrams that a full socket does not accept wait in a bounded `SendQueue`.
//!
//! ```text
//! cargo run --release --example back_pressure
//! ```
//!
//! A pair of Unix sockets stands in for a slow network: on loopback the kernel never holds up a UDP sender. The
//! receiver reads nothing until the queue has overflowed ten times, then everything. The last line printed says
//! how many datagrams arrived in order, and that 0 are left in the queue.

#[macro_use]
mod common;

#[cfg(unix)]
fn main() -> common::Result {
    use std::io::ErrorKind::WouldBlock;
    use std::os::unix::net::UnixDatagram;

    use mmsg::{BatchSocket, RecvBatch, SendMsg, SendQueue};

    common::no_arguments();
    let (sender, receiver) = UnixDatagram::pair()?;
    sender.set_nonblocking(true)?;
    receiver.set_nonblocking(true)?;
    let unless_it_would_block = |moved: std::io::Result<usize>| match moved {
        Err(error) if error.kind() != WouldBlock => Err(error),
        _ => Ok(()),
    };
    let mut queue = SendQueue::new(64 << 10);
    let (mut queued, mut dropped) = (0u32, 0u32);
    while dropped < 10 {
        let payload = (queued + dropped).to_be_bytes().repeat(100);
        match queue.push(&SendMsg::new(&payload)) {
            Ok(()) => queued += 1,
            Err(_) => dropped += 1,
        }
        // A program would wait here until the socket is writable. This one goes on pushing, to overflow the queue.
        unless_it_would_block(sender.flush(&mut queue))?;
    }
    println!(
        "sent or queued {queued}, dropped {dropped}; the queue holds {} datagrams in {} bytes",
        queue.len(),
        queue.bytes()
    );

    let mut batch = RecvBatch::new(64, 1500);
    let mut received = 0u32;
    while received < queued {
        unless_it_would_block(receiver.recv_into(&mut batch))?;
        for datagram in &batch {
            assert_eq!(datagram.data()[..4], received.to_be_bytes(), "in order");
            received += 1;
        }
        unless_it_would_block(sender.flush(&mut queue))?;
    }
    // Gives back the memory that the burst took.
    queue.shrink_to_fit();
    println!("received {received} in order, {} left in the queue", queue.len());
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    println!("this example needs Unix sockets");
}

//! A pair of sockets, payloads, and the loops that are compared.
//!
//! Each loop sends a batch and receives it again on one thread over loopback, and looks at every
//! received datagram's length and, where the interface gives it, its source.

use std::hint::black_box;
use std::net::{SocketAddr, UdpSocket};

use mmsg::{BatchSocket, RecvBatch, SendMsg, SendQueue};

use super::raw;

/// A sender and a receiver on loopback.
pub struct Pair {
    pub near: UdpSocket,
    pub far: UdpSocket,
    pub to: SocketAddr,
}

impl Pair {
    pub fn new() -> Self {
        let bound = || UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let (near, far) = (bound(), bound());
        let to = far.local_addr().expect("it is bound");
        // A datagram of 1,200 bytes takes about 2.3 KiB of the receiver's buffer.
        raw::grow_buffer(&far, 4 << 20);
        Self { near, far, to }
    }
}

/// Payloads, each in memory of its own.
pub fn scattered(count: usize, len: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| vec![i as u8; len]).collect()
}

pub fn by_std(pair: &Pair, payloads: &[Vec<u8>], buffer: &mut [u8]) {
    for payload in payloads {
        pair.near.send_to(payload, pair.to).expect("it is taken");
    }
    for _ in payloads {
        black_box(pair.far.recv_from(buffer).expect("it arrives"));
    }
}

/// Sends by `send_batch` and receives into owned memory.
pub fn by_recv_into<S: BatchSocket + ?Sized>(
    near: &S,
    far: &S,
    msgs: &[SendMsg<'_>],
    batch: &mut RecvBatch,
) {
    assert_eq!(near.send_batch(msgs).expect("they are taken"), msgs.len());
    drain(far, batch, msgs.len());
}

/// Sends by `flush` what is pushed here, and receives into owned memory.
pub fn by_queue<S: BatchSocket + ?Sized>(
    near: &S,
    far: &S,
    msgs: &[SendMsg<'_>],
    queue: &mut SendQueue,
    batch: &mut RecvBatch,
) {
    for msg in msgs {
        queue.push(msg).expect("there is room");
    }
    assert_eq!(near.flush(queue).expect("they are taken"), msgs.len());
    drain(far, batch, msgs.len());
}

fn drain<S: BatchSocket + ?Sized>(far: &S, batch: &mut RecvBatch, count: usize) {
    let mut received = 0;
    while received < count {
        far.recv_into(batch).expect("they arrive");
        for datagram in &*batch {
            black_box((datagram.data(), datagram.addr()));
            received += 1;
        }
    }
}

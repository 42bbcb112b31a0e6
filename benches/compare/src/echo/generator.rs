//! The load: each thread has some sockets, and each socket has a burst under way.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg, options};

use super::server::BUFFER;
use crate::load::COALESCED_LEN;

/// Sockets per thread.
const SOCKETS: usize = 8;
/// Datagrams under way per socket.
const BURST: usize = 32;
/// Bytes of each datagram, which fits an Ethernet frame.
const PAYLOAD: usize = 1200;
/// Datagrams under way per thread. One of the server's sockets may get them all.
pub const UNDER_WAY: usize = SOCKETS * BURST;

pub struct Generator {
    /// Sockets of each thread.
    sockets: Vec<Vec<Offload<UdpSocket>>>,
}

/// What a load did.
#[derive(Clone, Copy, Default)]
pub struct Done {
    /// Datagrams that came back.
    pub datagrams: usize,
    pub lost: usize,
    pub wall: Duration,
}

impl Generator {
    /// A datagram that has not come back after `patience` is lost.
    pub fn new(to: SocketAddr, threads: usize, gso: bool, patience: Duration) -> io::Result<Self> {
        let connected = |_| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(patience))?;
            options::set_recv_buffer(&socket, BUFFER / 8)?;
            // Always with GRO, so that a server's GSO batches cost this side nothing extra.
            Offload::builder().gso(gso).build(socket)
        };
        let of_a_thread = |_| (0..SOCKETS).map(connected).collect();
        Ok(Self { sockets: (0..threads).map(of_a_thread).collect::<io::Result<_>>()? })
    }

    /// Keeps datagrams under way for this long, and for at least one burst per socket.
    pub fn run(&self, time: Duration) -> Done {
        let begin = Instant::now();
        let mut done = thread::scope(|scope| {
            let sockets = self.sockets.iter().map(Vec::as_slice);
            let spawn = |sockets| scope.spawn(move || of_one_thread(sockets, begin + time));
            let workers: Vec<_> = sockets.map(spawn).collect();
            let join =
                |worker: thread::ScopedJoinHandle<'_, Done>| worker.join().expect("no panic");
            workers.into_iter().map(join).fold(Done::default(), |sum, one| Done {
                datagrams: sum.datagrams + one.datagrams,
                lost: sum.lost + one.lost,
                ..sum
            })
        });
        done.wall = begin.elapsed();
        done
    }
}

fn of_one_thread(sockets: &[Offload<UdpSocket>], end: Instant) -> Done {
    let mut batch = RecvBatch::new(BURST, COALESCED_LEN);
    let mut payloads = vec![vec![0; BURST * PAYLOAD]; sockets.len()];
    let mut done = Done::default();
    let mut number = 0;
    for (socket, payload) in sockets.iter().zip(&mut payloads) {
        send(socket, payload, number);
        number += 1;
    }
    let mut last = false;
    while !last {
        last = Instant::now() >= end;
        // The last round only receives, so that no datagram stays behind.
        for (socket, payload) in sockets.iter().zip(&mut payloads) {
            let received = receive(socket, &mut batch, payload);
            done.datagrams += received;
            done.lost += BURST - received;
            if !last {
                send(socket, payload, number);
                number += 1;
            }
        }
    }
    done
}

/// Sends a burst. Each datagram begins with the burst's number and its own.
fn send(socket: &Offload<UdpSocket>, memory: &mut [u8], number: u32) {
    for (i, payload) in memory.chunks_exact_mut(PAYLOAD).enumerate() {
        payload[..4].copy_from_slice(&number.to_le_bytes());
        payload[4..8].copy_from_slice(&(i as u32).to_le_bytes());
    }
    let mut msgs = [SendMsg::new(&[]); BURST];
    for (msg, payload) in msgs.iter_mut().zip(memory.chunks_exact(PAYLOAD)) {
        *msg = SendMsg::new(payload);
    }
    assert_eq!(socket.send_batch(&msgs).expect("the network takes it"), BURST);
}

/// Receives what comes back of a burst, and returns how many datagrams that is. Each must be unchanged and come
/// once.
fn receive(socket: &Offload<UdpSocket>, batch: &mut RecvBatch, sent: &[u8]) -> usize {
    let mut back = [false; BURST];
    while !back.iter().all(|back| *back) {
        if let Err(error) = socket.recv_into(batch) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
            break;
        }
        for datagram in &*batch {
            let data = datagram.data();
            assert_eq!(data.len(), PAYLOAD);
            // A late datagram of an earlier burst, already counted as lost.
            if data[..4] != sent[..4] {
                continue;
            }
            let i = u32::from_le_bytes(data[4..8].try_into().expect("four bytes")) as usize;
            assert!(data == &sent[i * PAYLOAD..][..PAYLOAD], "another payload came back");
            assert!(!std::mem::replace(&mut back[i], true), "a datagram came back twice");
        }
    }
    back.iter().filter(|back| **back).count()
}

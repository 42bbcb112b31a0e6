//! One kind of call again and again, for `instructions.sh` to count the instructions of.
//!
//! `instructions KIND FAMILY` with a kind and `v4` or `v6` makes the calls and prints how many
//! datagrams were counted; without them each kind runs for each family. What is counted is what
//! [`measured`] calls: whatever prepares a call (filling the socket that is received from, pushing
//! to the queue that is flushed) is outside of it, and the first calls, which allocate, are made
//! before it.

use std::env;
use std::hint::black_box;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use mmsg::{
    Ancillary, BatchSocket, BatchSocketExt, Offload, RecvBatch, RecvMeta, RecvMsg, SendMsg,
    SendQueue,
};

/// Datagrams a call.
const BATCH: usize = 64;
/// Calls that are counted.
const CALLS: usize = 100;
/// Calls before, so that all memory is allocated.
const WARM_UP: usize = 2;
const KINDS: [&str; 14] = [
    "send_batch",
    "send_iter",
    "push",
    "flush",
    "trains",
    "trains_slab",
    "recv_batch",
    "told_batch",
    "meta_batch",
    "recv_into",
    "told_into",
    "meta_into",
    "trains_into",
    "echo",
];

/// The frame that the counting is switched on and off by: its name is known to the script.
#[inline(never)]
fn measured<T>(call: impl FnOnce() -> T) -> T {
    black_box(call())
}

struct Sockets {
    sender: UdpSocket,
    receiver: UdpSocket,
    /// The receiver's address.
    to: SocketAddr,
}

impl Sockets {
    fn new(ip: &str) -> io::Result<Self> {
        let bind = || UdpSocket::bind((ip, 0));
        let (sender, receiver) = (bind()?, bind()?);
        let to = receiver.local_addr()?;
        Ok(Self { sender, receiver, to })
    }

    fn messages(&self) -> [SendMsg<'static>; BATCH] {
        [SendMsg::to(self.to, PAYLOAD); BATCH]
    }

    fn empty(&self) -> io::Result<()> {
        self.receiver.set_nonblocking(true)?;
        while self.receiver.recv(&mut [0; 1]).is_ok() {}
        self.receiver.set_nonblocking(false)
    }
}

const PAYLOAD: &[u8] = b"fifteen bytes !";

/// What a receiver does at the least: reads where each datagram is from, address and port, and
/// where its bytes are and how many.
#[inline(always)]
fn look_at(addr: Option<SocketAddr>, data: &[u8]) -> u64 {
    let source = match addr {
        Some(SocketAddr::V4(addr)) => {
            u64::from(u32::from_ne_bytes(addr.ip().octets())) ^ u64::from(addr.port())
        }
        Some(SocketAddr::V6(addr)) => {
            let ip = u128::from_ne_bytes(addr.ip().octets());
            ip as u64 ^ (ip >> 64) as u64 ^ u64::from(addr.port())
        }
        None => 0,
    };
    source ^ data.as_ptr().addr() as u64 ^ data.len() as u64
}

/// What a QUIC server reads beyond that: the congestion bits and where the datagram was sent to.
#[inline(always)]
fn look_at_meta(meta: &RecvMeta) -> u64 {
    let to = match meta.destination {
        Some(IpAddr::V4(ip)) => u64::from(u32::from_ne_bytes(ip.octets())),
        Some(IpAddr::V6(ip)) => u128::from_ne_bytes(ip.octets()) as u64,
        None => 1,
    };
    to ^ meta.ecn().map_or(1 << 8, |ecn| ecn as u64)
}

fn send(kind: &str, sockets: &Sockets) -> io::Result<()> {
    let Sockets { sender, .. } = sockets;
    let msgs = sockets.messages();
    let dests = [sockets.to; BATCH];
    let mut queue = SendQueue::new(1 << 20);
    let offload = Offload::new(sender)?;
    let slab = PAYLOAD.repeat(BATCH);
    let slab: Vec<_> = slab.chunks(PAYLOAD.len()).map(|p| SendMsg::to(sockets.to, p)).collect();
    for call in 0..WARM_UP + CALLS {
        let counted = call >= WARM_UP;
        let sent = match kind {
            "send_batch" => counting(counted, || sender.send_batch(&msgs))?,
            "trains" => counting(counted, || offload.send_batch(&msgs))?,
            "trains_slab" => counting(counted, || offload.send_batch(&slab))?,
            "send_iter" => {
                // Built as they are taken, as a server's answers are.
                let mut built = dests.iter().map(|dest| SendMsg::to(*dest, PAYLOAD));
                counting(counted, || sender.send_iter(&mut built))?
            }
            "push" => {
                queue.clear();
                counting(counted, || msgs.iter().filter(|msg| queue.push(msg).is_ok()).count())
            }
            _ => {
                msgs.iter().try_for_each(|msg| queue.push(msg))?;
                counting(counted, || sender.flush(&mut queue))?
            }
        };
        assert_eq!(sent, BATCH, "{kind}");
        sockets.empty()?;
    }
    Ok(())
}

fn receive(kind: &str, sockets: &Sockets) -> io::Result<()> {
    let Sockets { sender, receiver, .. } = sockets;
    let msgs = sockets.messages();
    let mut batch = RecvBatch::new(BATCH, 64 * PAYLOAD.len());
    let mut memory = [[0; 64]; BATCH];
    let mut room = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
    let asked = Ancillary::TOS | Ancillary::DEST | Ancillary::GRO;
    if !kind.starts_with("recv") && kind != "echo" {
        assert_eq!(asked.enable(receiver)?, asked);
    }
    for call in 0..WARM_UP + CALLS {
        let counted = call >= WARM_UP;
        if kind == "trains_into" {
            Offload::new(sender)?.send_batch(&msgs)?;
        } else {
            sender.send_batch(&msgs)?;
        }
        let n: io::Result<usize> = match kind {
            "recv_batch" | "told_batch" => counting(counted, || {
                let n = receiver.recv_batch(&mut room)?;
                let mut seen = 0;
                for msg in &room[..n] {
                    let data = msg.data();
                    seen ^= look_at(msg.addr(), data);
                }
                black_box(seen);
                Ok(n)
            }),
            "recv_into" | "told_into" => counting(counted, || {
                let n = receiver.recv_into(&mut batch)?;
                let mut seen = 0;
                for datagram in &batch {
                    seen ^= look_at(datagram.addr(), datagram.data());
                }
                black_box(seen);
                Ok(n)
            }),
            "meta_batch" => counting(counted, || {
                let n = receiver.recv_batch(&mut room)?;
                let mut seen = 0;
                for msg in &room[..n] {
                    seen ^= look_at(msg.addr(), msg.data()) ^ look_at_meta(&msg.meta());
                }
                black_box(seen);
                Ok(n)
            }),
            "meta_into" => counting(counted, || {
                let n = receiver.recv_into(&mut batch)?;
                let mut seen = 0;
                for datagram in &batch {
                    seen ^= look_at(datagram.addr(), datagram.data());
                    seen ^= look_at_meta(&datagram.meta());
                }
                black_box(seen);
                Ok(n)
            }),
            "trains_into" => counting(counted, || {
                receiver.recv_into(&mut batch)?;
                let (mut seen, mut count) = (0, 0);
                for datagram in &batch {
                    seen ^= look_at(datagram.addr(), datagram.data());
                    count += 1;
                }
                black_box(seen);
                Ok(count)
            }),
            // The whole loop of an echo server.
            _ => counting(counted, || {
                receiver.recv_into(&mut batch)?;
                let mut replies =
                    batch.iter().filter_map(|d| Some(SendMsg::to(d.addr()?, d.data())));
                receiver.send_iter(&mut replies)
            }),
        };
        assert_eq!(n?, BATCH, "{kind}");
    }
    Ok(())
}

#[inline(always)]
fn counting<T>(counted: bool, call: impl FnOnce() -> T) -> T {
    if counted { measured(call) } else { call() }
}

fn run(kind: &str, family: &str) -> io::Result<()> {
    let sockets = Sockets::new(if family == "v6" { "::1" } else { "127.0.0.1" })?;
    match kind {
        "send_batch" | "send_iter" | "push" | "flush" | "trains" | "trains_slab" => {
            send(kind, &sockets)
        }
        _ => receive(kind, &sockets),
    }
}

fn main() -> io::Result<()> {
    // Cargo adds options of its own.
    let args: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if let [kind, family] = &args[..] {
        run(kind, family)?;
        println!("{}", CALLS * BATCH);
        return Ok(());
    }
    for kind in KINDS {
        run(kind, "v4")?;
        run(kind, "v6")?;
    }
    println!(
        "{} kinds of call ran; benches/instructions.sh counts their instructions",
        KINDS.len()
    );
    Ok(())
}

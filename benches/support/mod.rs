//! What the benchmarks measure: ways to move a batch of datagrams over loopback, all on one thread.

pub mod raw;

use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use mmsg::{BatchSocket, RecvBatch, RecvMsg, SendMsg};
use socket2::SockRef;

/// Bytes of each receive buffer, in every way to receive.
pub const SLOT_LEN: usize = 1500;
/// A small payload, and one that fills most of an Ethernet frame.
pub const PAYLOADS: [usize; 2] = [15, 1200];
/// What the kernel charges a receive buffer for a waiting datagram, generously: data and overhead.
const CHARGE: usize = 4096;

/// Two sockets: what `near` sends arrives at `far`.
pub struct Wire {
    pub near: UdpSocket,
    pub far: UdpSocket,
    pub to: SocketAddr,
    /// Datagrams that may wait at `far` without one being dropped.
    pub room: usize,
}

impl Wire {
    pub fn new() -> io::Result<Self> {
        let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let to = far.local_addr()?;
        let room = raw::grow_receive_buffer(&far, 1024 * CHARGE)? / CHARGE;
        // A datagram that was lost all the same ends the benchmark instead of stopping it.
        SockRef::from(&far).set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { near, far, to, room })
    }
}

/// A way to move datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `sendmmsg` and `recvmmsg` on headers that are built once and never touched again: the
    /// limit. It does not decode addresses; every other way does.
    Raw,
    /// `UdpSocket::send_to` and `recv_from`, one by one.
    Std,
    /// `send_batch` and `recv_into`.
    RecvInto,
    /// `send_batch` and `recv_batch`, into borrowed messages.
    RecvBatch,
    /// The same as `RecvInto`, through `&dyn BatchSocket`.
    DynRecvInto,
    /// The same as `RecvBatch`, through `&dyn BatchSocket`.
    DynRecvBatch,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Std => "send_to/recv_from",
            Self::RecvInto => "recv_into",
            Self::RecvBatch => "recv_batch",
            Self::DynRecvInto => "dyn recv_into",
            Self::DynRecvBatch => "dyn recv_batch",
        }
    }
}

/// How much a way moves.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Datagrams sent, then received, a turn.
    pub batch: usize,
    /// Slots offered to each receive.
    pub slots: usize,
    /// Bytes of each datagram.
    pub payload: usize,
}

impl Size {
    pub fn batch(batch: usize, payload: usize) -> Self {
        Self { batch, slots: batch, payload }
    }
}

/// Sends a batch and receives it. With true, compares what came with what was sent.
pub type Turn<'w> = Box<dyn FnMut(bool) + 'w>;

/// Makes the turns of one way over `wire`. The payload is leaked: a process makes a few of them.
pub fn turn(way: Way, wire: &Wire, size: Size) -> Turn<'_> {
    let payload: &'static [u8] = (0..size.payload).map(|i| i as u8).collect::<Vec<_>>().leak();
    match way {
        Way::Raw => raw_turn(wire, size, payload),
        Way::Std => std_turn(wire, size, payload),
        Way::RecvInto => into_turn(wire, &wire.near, &wire.far, size, payload),
        Way::RecvBatch => batch_turn(wire, &wire.near, &wire.far, size, payload),
        Way::DynRecvInto => {
            let [near, far]: [&dyn BatchSocket; 2] = black_box([&wire.near, &wire.far]);
            into_turn(wire, near, far, size, payload)
        }
        Way::DynRecvBatch => {
            let [near, far]: [&dyn BatchSocket; 2] = black_box([&wire.near, &wire.far]);
            batch_turn(wire, near, far, size, payload)
        }
    }
}

fn raw_turn<'w>(wire: &'w Wire, size: Size, payload: &'static [u8]) -> Turn<'w> {
    let mut sender = raw::Sender::new(wire.to, payload, size.batch);
    let mut receiver = raw::Receiver::new(size.slots, SLOT_LEN);
    Box::new(move |check| {
        assert_eq!(sender.send(&wire.near), size.batch);
        let mut got = 0;
        while got < size.batch {
            let n = receiver.recv(&wire.far);
            if check {
                assert!((0..n).all(|i| receiver.message(i) == payload));
            }
            got += n;
        }
        assert_eq!(got, size.batch);
    })
}

fn std_turn<'w>(wire: &'w Wire, size: Size, payload: &'static [u8]) -> Turn<'w> {
    let mut buffer = vec![0; SLOT_LEN];
    Box::new(move |check| {
        for _ in 0..size.batch {
            wire.near.send_to(payload, wire.to).expect("loopback takes it");
        }
        for _ in 0..size.batch {
            let (len, addr) = wire.far.recv_from(&mut buffer).expect("it has arrived");
            see(Some(addr));
            assert!(!check || &buffer[..len] == payload);
        }
    })
}

fn into_turn<'w, S: BatchSocket + ?Sized>(
    wire: &Wire,
    near: &'w S,
    far: &'w S,
    size: Size,
    payload: &'static [u8],
) -> Turn<'w> {
    let msgs = vec![SendMsg::to(wire.to, payload); size.batch];
    let mut batch = RecvBatch::new(size.slots, SLOT_LEN);
    Box::new(move |check| {
        assert_eq!(near.send_batch(&msgs).expect("loopback takes them"), size.batch);
        let mut got = 0;
        while got < size.batch {
            got += far.recv_into(&mut batch).expect("they have arrived");
            for datagram in &batch {
                see(datagram.addr());
                assert!(!check || datagram.data() == payload);
            }
        }
        assert_eq!(got, size.batch);
    })
}

fn batch_turn<'w, S: BatchSocket + ?Sized>(
    wire: &Wire,
    near: &'w S,
    far: &'w S,
    size: Size,
    payload: &'static [u8],
) -> Turn<'w> {
    let msgs = vec![SendMsg::to(wire.to, payload); size.batch];
    let memory = vec![0; size.slots * SLOT_LEN].leak();
    let mut room: Vec<_> = memory.chunks_exact_mut(SLOT_LEN).map(RecvMsg::new).collect();
    Box::new(move |check| {
        assert_eq!(near.send_batch(&msgs).expect("loopback takes them"), size.batch);
        let mut got = 0;
        while got < size.batch {
            let n = far.recv_batch(&mut room).expect("they have arrived");
            for msg in &room[..n] {
                see(msg.addr());
                assert!(!check || msg.data() == payload);
            }
            got += n;
        }
        assert_eq!(got, size.batch);
    })
}

/// Uses an address: both of its parts, without more work than reading them.
#[inline(always)]
fn see(addr: Option<SocketAddr>) {
    match addr.expect("an Internet socket's datagrams have a source") {
        SocketAddr::V4(addr) => black_box((addr.ip().to_bits(), addr.port())),
        SocketAddr::V6(addr) => black_box((addr.ip().to_bits() as u32, addr.port())),
    };
}

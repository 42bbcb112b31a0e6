//! `SendQueue`: push and flush of any number of datagrams beside those of 64.

use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use mmsg::{BatchSocket, RecvMsg, SendMsg, SendQueue};

use super::{Promise, Row, Side};

const LENGTHS: [usize; 7] = [1, 8, 1_000, 10_000, 100_000, 300_000, 1_000_000];
/// The length that the others are measured by.
const USUAL: usize = 64;
const PAYLOAD: &[u8] = b"fifteen bytes !";
/// Datagrams a turn, if they are not more already.
const TURN: usize = 4096;

pub fn all<'a>() -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for len in LENGTHS {
        let row = |onto: &str, promise, side: fn(usize) -> Side<'static>| Row {
            name: format!("queue of {len} / of {USUAL}, {onto}"),
            promise,
            pairs: if len > 10 * TURN { 20 } else { 200 },
            sides: Box::new(move || [side(len), side(USUAL)]),
        };
        rows.push(row("onto a socket", Promise::Within(0.20), onto_a_socket));
        rows.push(row("taken by a double", Promise::Nothing, taken_by_a_double));
    }
    rows
}

/// Everything goes to a socket that nobody reads: when it is full the kernel drops what comes, and
/// each datagram costs the same, however many there are.
fn onto_a_socket(len: usize) -> Side<'static> {
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    let (near, far) = (bind(), bind());
    let mut filled = Filled::new(far.local_addr().expect("bound"), len);
    let part = move |_| {
        filled.fill();
        assert_eq!(near.flush(&mut filled.queue).expect("loopback takes it"), len);
        assert!(filled.queue.is_empty());
        // Held open: a closed port answers, which costs more.
        black_box(&far);
    };
    Side::repeated(part, len, TURN)
}

/// What the queue costs by itself.
fn taken_by_a_double(len: usize) -> Side<'static> {
    let mut filled = Filled::new(SocketAddr::from(([127, 0, 0, 1], 9)), len);
    let part = move |check| {
        filled.fill();
        let double = Double { check };
        assert_eq!(double.flush(&mut filled.queue).expect("it takes everything"), len);
        assert!(filled.queue.is_empty());
    };
    Side::repeated(part, len, TURN)
}

/// A queue that is filled again and again.
struct Filled {
    queue: SendQueue,
    msg: SendMsg<'static>,
    len: usize,
}

impl Filled {
    fn new(to: SocketAddr, len: usize) -> Self {
        let mut new =
            Self { queue: SendQueue::new(usize::MAX), msg: SendMsg::to(to, PAYLOAD), len };
        // Twice, for its two stages: their memory is part of no turn.
        for _ in 0..2 {
            new.fill();
            Double { check: false }.flush(&mut new.queue).expect("it takes everything");
        }
        new
    }

    fn fill(&mut self) {
        for _ in 0..self.len {
            self.queue.push(&self.msg).expect("it has no bound");
        }
    }
}

/// Takes everything and does nothing with it.
struct Double {
    /// Whether to look at it.
    check: bool,
}

impl BatchSocket for Double {
    fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        if self.check {
            assert!(msgs.iter().all(|msg| msg.slices().eq([PAYLOAD])));
        }
        Ok(black_box(msgs).len())
    }
}

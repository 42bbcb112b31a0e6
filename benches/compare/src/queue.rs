//! `SendQueue` without system calls: one side of xnet/queue.sh.

use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mmsg::{BatchSocket, RecvMsg, SendMsg, SendQueue};

/// The entries of a turn.
const ENTRIES: usize = 25;

/// Takes every message and sends none.
struct Taker;

impl BatchSocket for Taker {
    fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        Ok(black_box(msgs).len())
    }
}

/// Pushes and pops entries of 16 bytes, and prints the nanoseconds of an entry for each way.
pub fn beside_http2(milliseconds: u64) {
    measure("pops", milliseconds, |queue| while queue.discard_front() {});
    measure("flush", milliseconds, |queue| {
        assert_eq!(Taker.flush(queue).expect("it takes all"), ENTRIES);
    });
}

fn measure(way: &str, milliseconds: u64, pop: impl Fn(&mut SendQueue)) {
    let to = SocketAddr::from(([127, 0, 0, 1], 4433));
    let data = [[7; 16]; ENTRIES];
    let mut queue = SendQueue::new(1 << 20);
    let mut turn = || {
        for data in black_box(&data) {
            queue.push(&SendMsg::to(*black_box(&to), data)).expect("it fits");
        }
        pop(&mut queue);
    };
    (0..1000).for_each(|_| turn());
    let (begin, mut turns) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_millis(milliseconds) {
        (0..100).for_each(|_| turn());
        turns += 100;
    }
    println!("{way},{:.2}", begin.elapsed().as_nanos() as f64 / (turns * ENTRIES) as f64);
}

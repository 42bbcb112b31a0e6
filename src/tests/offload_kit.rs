//! Helpers for tests of `Offload`: sockets, messages that form GSO batches, and ways to send them.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::Offload;
use crate::offload::Counters;

/// One sender with offload and two receivers without.
pub(super) struct Net {
    pub(super) near: Offload<UdpSocket>,
    far: [UdpSocket; 2],
}

impl Net {
    /// `None` where the kernel has no GSO, with a printed reason.
    pub(super) fn new() -> Option<Self> {
        Self::on(Ipv4Addr::LOCALHOST.into())
    }

    /// The same on an address of this machine.
    pub(super) fn on(ip: IpAddr) -> Option<Self> {
        fault::segment_batches();
        let near = Offload::builder().gro(false).build(socket_on(ip)).expect("a UDP socket");
        if !near.state().gso() {
            // Not by `eprintln`, which the test harness captures. The thread has the test's name.
            let test = std::thread::current();
            let test = test.name().unwrap_or("a test");
            let _ =
                writeln!(io::stderr(), "skipped: {test}: no segmentation offload on this system");
            return None;
        }
        let far = [socket_on(ip), socket_on(ip)];
        for far in &far {
            // The system may allow less to others than root.
            crate::options::set_recv_buffer(far, 4 << 20).expect("a UDP socket");
        }
        Some(Self { near, far })
    }

    pub(super) fn to(&self, far: usize) -> SocketAddr {
        addr(&self.far[far])
    }

    /// Receives all datagrams that wait at each receiver.
    pub(super) fn delivered(&self) -> [Vec<Vec<u8>>; 2] {
        self.far.each_ref().map(|far| delivered(self.near.get_ref(), far))
    }

    /// The counters of sends since `before`.
    pub(super) fn since(&self, before: Counters) -> Counters {
        let now = self.near.state().counters();
        Counters {
            sent: now.sent - before.sent,
            sent_bytes: now.sent_bytes - before.sent_bytes,
            send_calls: now.send_calls - before.send_calls,
            sent_batches: now.sent_batches - before.sent_batches,
            sent_segments: now.sent_segments - before.sent_segments,
            rejected_unsupported: now.rejected_unsupported - before.rejected_unsupported,
            rejected_size: now.rejected_size - before.rejected_size,
            unsent: now.unsent - before.unsent,
            ..Counters::default()
        }
    }
}

/// Consecutive messages of one length to one receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) far: usize,
    pub(super) len: usize,
    pub(super) count: usize,
}

pub(super) const fn run_of(far: usize, len: usize, count: usize) -> Run {
    Run { far, len, count }
}

/// Messages for five headers: the fourth is a single message, the others are batches.
pub(super) const RUNS: [Run; 5] =
    [run_of(0, 40, 3), run_of(1, 40, 2), run_of(0, 60, 4), run_of(1, 30, 1), run_of(0, 20, 2)];

/// The first message of each header, and how many messages the header has.
pub(super) fn headers(runs: &[Run]) -> Vec<(usize, usize)> {
    let starts = runs.iter().scan(0, |next, run| {
        let start = *next;
        *next += run.count;
        Some((start, run.count))
    });
    starts.collect()
}

/// A batch: the receiver of each message, and its bytes, which begin with its number.
pub(super) struct Batch {
    far: Vec<usize>,
    data: Vec<Vec<u8>>,
}

impl Batch {
    pub(super) fn new(runs: &[Run]) -> Self {
        let each = runs.iter().flat_map(|run| std::iter::repeat_n(run, run.count));
        let (far, data) = each.enumerate().map(|(i, run)| (run.far, bytes(i, run.len))).unzip();
        Self { far, data }
    }

    pub(super) fn msgs(&self, net: &Net) -> Vec<SendMsg<'_>> {
        let both = self.far.iter().zip(&self.data);
        both.map(|(far, data)| SendMsg::to(net.to(*far), data)).collect()
    }

    fn len(&self) -> usize {
        self.data.len()
    }

    /// The datagrams that each receiver gets if the messages are sent for which `sent` returns true.
    pub(super) fn expected(&self, sent: impl Fn(usize) -> bool) -> [Vec<Vec<u8>>; 2] {
        [0, 1].map(|far| {
            let sent = (0..self.len()).filter(|i| self.far[*i] == far && sent(*i));
            sent.map(|i| self.data[i].clone()).collect()
        })
    }
}

/// `len` bytes that identify message `i`.
pub(super) fn bytes(i: usize, len: usize) -> Vec<u8> {
    let number = (i as u32).to_be_bytes();
    number.into_iter().chain((0..).map(|j| (i + j) as u8)).take(len).collect()
}

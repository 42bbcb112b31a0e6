//! The datagrams of a workload, and the check that they were received.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Bytes of each receive buffer for single datagrams.
pub const SLOT_LEN: usize = 1500;
/// Bytes of a receive buffer that any coalesced message fits.
pub const COALESCED_LEN: usize = 65_535;
/// A receive of coalesced messages has at most this many buffers. Each holds many datagrams.
const MAX_COALESCED: usize = 32;
/// The ECN bits of datagrams with metadata: ECT(0).
pub const ECN: u8 = 0b10;

/// The datagrams of a turn: `each` to each destination, all from one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// Whether to send ECN bits, and to receive them and the destination.
    pub metadata: bool,
    pub workload: &'static str,
    /// Bytes of each datagram.
    pub payload: usize,
    pub dests: usize,
    /// Datagrams to each destination, in a row.
    pub each: usize,
    /// Messages that a receive has room for.
    pub slots: usize,
}

impl Load {
    /// `each` datagrams to one destination, all in one call.
    pub const fn new(workload: &'static str, payload: usize, each: usize) -> Self {
        Self { workload, payload, dests: 1, each, slots: each, metadata: false }
    }

    pub fn datagrams(&self) -> usize {
        self.dests * self.each
    }

    /// Datagrams of the largest GSO batch.
    pub fn segments(&self) -> usize {
        (65_507 / self.payload).min(64)
    }

    /// Coalesced messages that a receive has room for.
    pub fn coalesced_slots(&self) -> usize {
        if self.slots > self.each { self.slots } else { self.slots.min(MAX_COALESCED) }
    }

    /// All payloads, back to back. Each begins with its number. The memory is leaked: a process makes few.
    pub fn slab(&self) -> &'static [u8] {
        let mut slab = Vec::with_capacity(self.datagrams() * self.payload);
        for i in 0..self.datagrams() {
            slab.extend((i as u32).to_le_bytes());
            slab.extend((4..self.payload).map(|at| (i + at) as u8));
        }
        slab.leak()
    }

    /// The payloads in groups of `datagrams`, back to back, with their destinations.
    pub fn batches(
        &self,
        to: &[SocketAddr],
        datagrams: usize,
    ) -> impl Iterator<Item = (SocketAddr, &'static [u8])> {
        let len = datagrams * self.payload;
        let parts = self.slab().chunks(self.each * self.payload).zip(to);
        parts.flat_map(move |(part, to)| part.chunks(len).map(move |batch| (*to, batch)))
    }

    /// All payloads with their destinations.
    pub fn contiguous(&self, to: &[SocketAddr]) -> Vec<(SocketAddr, &'static [u8])> {
        self.batches(to, 1).collect()
    }

    /// All payloads with their destinations, each in memory of its own.
    pub fn apart(&self, to: &[SocketAddr]) -> Vec<(SocketAddr, &'static [u8])> {
        let apart = |(to, payload): (_, &[u8])| (to, &*payload.to_vec().leak());
        let payloads: Vec<_> = self.batches(to, 1).map(apart).collect();
        if self.workload != "interleaved" {
            return payloads;
        }
        // First one datagram to each destination, then a second one to each.
        let places = 0..payloads.len();
        places.map(|i| payloads[i % self.dests * self.each + i / self.dests]).collect()
    }
}

/// Receive buffers, each an allocation of its own, as in a program.
pub fn buffers(count: usize, len: usize) -> impl Iterator<Item = &'static mut [u8]> {
    (0..count).map(move |_| vec![0; len].leak())
}

/// A received datagram.
pub struct Datagram<'a> {
    pub addr: SocketAddr,
    pub data: &'a [u8],
    /// ECN bits and destination, if enabled.
    pub meta: Option<(u8, IpAddr)>,
}

impl Datagram<'_> {
    /// Reads what every receiver reads: source, address and length of the payload, metadata.
    #[inline(always)]
    pub fn glance(self) {
        match self.addr {
            SocketAddr::V4(addr) => black_box((addr.ip().to_bits(), addr.port())),
            SocketAddr::V6(addr) => black_box((addr.ip().to_bits() as u32, addr.port())),
        };
        black_box((self.data.as_ptr(), self.data.len()));
        if let Some((ecn, IpAddr::V4(ip))) = self.meta {
            black_box((ecn, ip.to_bits()));
        }
    }
}

/// Checks that a turn received what it sent.
pub struct Check {
    load: Load,
    /// The sender.
    from: SocketAddr,
    arrived: Vec<bool>,
}

impl Check {
    pub fn new(load: Load, from: SocketAddr) -> Self {
        Self { load, from, arrived: vec![false; load.datagrams()] }
    }

    pub fn see(&mut self, dest: usize, seen: &Datagram<'_>, has_metadata: bool) {
        let Load { payload, each, metadata, .. } = self.load;
        assert_eq!((seen.data.len(), seen.addr), (payload, self.from));
        let i = u32::from_le_bytes(seen.data[..4].try_into().expect("four bytes")) as usize;
        assert_eq!(i / each, dest, "a datagram for another socket");
        assert!((4..payload).all(|at| seen.data[at] == (i + at) as u8), "another payload");
        assert!(!std::mem::replace(&mut self.arrived[i], true), "a datagram twice");
        let meta = (metadata && has_metadata).then_some((ECN, IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(seen.meta, meta);
    }

    pub fn finish(self) {
        assert!(self.arrived.iter().all(|arrived| *arrived), "a datagram is missing");
    }
}

/// Separate payloads to one destination.
pub fn ready() -> Vec<Load> {
    let mut loads = Vec::new();
    for metadata in [false, true] {
        for payload in [15, 200, 600, 1200] {
            let load = |each| Load { metadata, ..Load::new("ready", payload, each) };
            loads.extend([4, 16, 64, 256].map(load));
        }
    }
    loads
}

/// All loads of one thread. A socket's receive buffer holds `capacity` datagrams.
pub fn all(capacity: usize) -> Vec<Load> {
    let mut loads = ready();
    loads.retain(|load| load.each <= capacity);
    for metadata in [false, true] {
        let load =
            |workload, payload, each| Load { metadata, ..Load::new(workload, payload, each) };
        for payload in [15, 1200] {
            let sweep = (0..=9).map(|power| 1 << power).filter(|batch| *batch <= capacity);
            loads.extend(sweep.map(|each| load("batch", payload, each)));
        }
        // 128 turns move 10 MiB.
        loads.push(load("bulk", 1280, 64));
        loads.extend([1, 4, 16].map(|each| Load { dests: 32, ..load("fan-out", 1200, each) }));
        loads.push(Load { slots: 512, ..load("idle", 15, 1) });
    }
    loads
}

//! The datagrams of a workload, and the check that they were received.

use std::hint::black_box;
use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Bytes of each receive buffer for single datagrams.
pub const SLOT_LEN: usize = 1500;
/// Bytes of one that any coalesced message fits.
pub const COALESCED_LEN: usize = 65_535;
/// Receive buffers for coalesced messages, where as many as there are datagrams would be absurd.
const MOST_COALESCED: usize = 32;
/// The ECN bits sent, and expected where metadata is received: ECT(0).
pub const ECN: u8 = 0b10;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Where memory lies, in bytes from the start of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The first buffer to receive into, which others follow at once.
    pub buffer: usize,
    /// Bytes of each such buffer.
    pub buffer_len: usize,
    /// Each payload, or the first of those that are contiguous.
    pub payload: usize,
}

/// Datagrams that a turn moves: `each` to each destination, all from one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// Whether each datagram is sent with ECN bits, and received with these and its destination.
    pub metadata: bool,
    pub workload: &'static str,
    /// Bytes of each datagram.
    pub payload: usize,
    pub dests: usize,
    /// Datagrams to each of them, one after the other.
    pub each: usize,
    /// Places for messages that are offered to a receive.
    pub slots: usize,
    /// Where lent buffers and payloads lie; `None`: where the allocator puts them.
    pub place: Option<Place>,
}

impl Load {
    /// `each` datagrams for one destination, all in one call.
    pub const fn new(workload: &'static str, payload: usize, each: usize) -> Self {
        Self { workload, payload, dests: 1, each, slots: each, metadata: false, place: None }
    }

    pub fn datagrams(&self) -> usize {
        self.dests * self.each
    }

    /// Datagrams of the largest GSO batch.
    pub fn segments(&self) -> usize {
        (65_507 / self.payload).min(64)
    }

    /// Slots for coalesced messages that are offered to a receive.
    pub fn coalesced_slots(&self) -> usize {
        if self.slots > self.each { self.slots } else { self.slots.min(MOST_COALESCED) }
    }

    /// All payloads, back to back. Each begins with its number. Leaked: a process makes a few.
    pub fn slab(&self) -> &'static [u8] {
        let mut slab = Vec::with_capacity(self.datagrams() * self.payload);
        for i in 0..self.datagrams() {
            slab.extend((i as u32).to_le_bytes());
            slab.extend((4..self.payload).map(|at| (i + at) as u8));
        }
        self.placed(&slab)
    }

    /// A copy of a payload, where payloads lie.
    fn placed(&self, payload: &[u8]) -> &'static [u8] {
        let Some(Place { payload: at, .. }) = self.place else { return payload.to_vec().leak() };
        let memory = page_offset(at, payload.len());
        memory.copy_from_slice(payload);
        memory
    }

    /// Memory for the buffers that are lent for a receive, and the length of each.
    pub fn lent(&self) -> (&'static mut [u8], usize) {
        match self.place {
            Some(Place { buffer, buffer_len, .. }) => {
                (page_offset(buffer, self.slots * buffer_len), buffer_len)
            }
            None => (vec![0; self.slots * COALESCED_LEN].leak(), COALESCED_LEN),
        }
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

    /// A transmit for each datagram, or for as many as make a GSO batch if fewer buffers are lent than there
    /// are datagrams: destination, contents, segment size.
    pub fn transmits(&self, to: &[SocketAddr]) -> Vec<(SocketAddr, &'static [u8], Option<u16>)> {
        let segments = if self.slots < self.each { self.segments() } else { 1 };
        let size = (segments > 1).then_some(self.payload as u16);
        self.batches(to, segments).map(|(to, contents)| (to, contents, size)).collect()
    }

    /// All payloads with their destinations.
    pub fn contiguous(&self, to: &[SocketAddr]) -> Vec<(SocketAddr, &'static [u8])> {
        self.batches(to, 1).collect()
    }

    /// All payloads with their destinations, each in memory of its own.
    pub fn apart(&self, to: &[SocketAddr]) -> Vec<(SocketAddr, &'static [u8])> {
        let apart = |(to, payload)| (to, self.placed(payload));
        let payloads: Vec<_> = self.batches(to, 1).map(apart).collect();
        if self.workload != "interleaved" {
            return payloads;
        }
        // To each destination its first datagram, then to each its second.
        let places = 0..payloads.len();
        places.map(|i| payloads[i % self.dests * self.each + i / self.dests]).collect()
    }
}

/// Memory that begins `at` bytes behind the start of a page.
fn page_offset(at: usize, len: usize) -> &'static mut [u8] {
    let memory = vec![0; len + 2 * PAGE].leak();
    let start = memory.as_ptr().align_offset(PAGE) + at;
    &mut memory[start..][..len]
}

/// Buffers for received messages as a program has them: each is an allocation.
pub fn buffers(count: usize, len: usize) -> impl Iterator<Item = &'static mut [u8]> {
    (0..count).map(move |_| vec![0; len].leak())
}

/// The most buffers that are lent for a receive: quinn-udp's `BATCH_SIZE`.
pub const MOST_LENT: usize = 32;

/// Lends memory for a receive in buffers of `len` bytes, and says in how many.
#[inline(always)]
pub fn lend(memory: &mut [u8], len: usize) -> ([IoSliceMut<'_>; MOST_LENT], usize) {
    let count = memory.len() / len;
    let mut chunks = memory.chunks_exact_mut(len);
    let buffers = std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
    (buffers, count)
}

/// A received datagram.
pub struct Datagram<'a> {
    pub addr: SocketAddr,
    pub data: &'a [u8],
    /// ECN bits and destination, where they were asked for.
    pub meta: Option<(u8, IpAddr)>,
}

impl Datagram<'_> {
    /// Does what every receiver does: reads the datagram's source, its bytes' place and length, and its
    /// metadata.
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

/// Compares the datagrams received in a turn with those sent.
pub struct Check {
    load: Load,
    /// Where it is sent from.
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

/// Datagrams that lie ready, each by itself, for one destination.
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

/// All workloads of one thread. `capacity` is how many datagrams may wait at a socket.
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
        // A part of 10 MiB: 128 turns move all of it.
        loads.push(load("bulk", 1280, 64));
        loads.extend([1, 4, 16].map(|each| Load { dests: 32, ..load("fan-out", 1200, each) }));
        loads.push(Load { slots: 512, ..load("idle", 15, 1) });
    }
    loads
}

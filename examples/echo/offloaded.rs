//! What a socket with offload tells of itself.

use std::fmt;
use std::io;
use std::net::UdpSocket;

use mmsg::{BatchSocket, Counters, Offload};

use crate::counters::calls_for;
use crate::figures;

/// What offload is on, and what it has done so far.
#[derive(Clone, Copy, Debug)]
pub struct Offloaded {
    pub gso: bool,
    pub gro: bool,
    pub counters: Counters,
}

/// A socket that moves batches, and may tell of its offload.
pub trait EchoSocket: BatchSocket {
    /// Nothing if it has none.
    fn offloaded(&self) -> Option<Offloaded> {
        None
    }
}

impl EchoSocket for UdpSocket {}
impl EchoSocket for &UdpSocket {}

impl EchoSocket for Offload<&UdpSocket> {
    fn offloaded(&self) -> Option<Offloaded> {
        Some(Offloaded { gso: self.gso(), gro: self.gro(), counters: self.counters() })
    }
}

/// What a call came to, and by how many system calls.
pub struct Moved {
    pub messages: usize,
    pub calls: usize,
}

/// Makes a call on the socket that moves messages.
pub fn moved_by(
    socket: &(impl EchoSocket + ?Sized),
    call: impl FnOnce() -> io::Result<usize>,
) -> io::Result<Moved> {
    let made = || socket.offloaded().map(|offloaded| offloaded.calls());
    let before = made();
    let messages = call()?;
    let calls = match (before, made()) {
        (Some(before), Some(after)) => (after - before) as usize,
        _ => calls_for(messages),
    };
    Ok(Moved { messages, calls })
}

impl Offloaded {
    /// System calls both ways.
    fn calls(&self) -> u64 {
        self.counters.send_calls + self.counters.receive_calls
    }

    /// With what another socket has done.
    pub fn and(mut self, other: Self) -> Self {
        self.gso &= other.gso;
        self.gro &= other.gro;
        self.counters.sent_trains += other.counters.sent_trains;
        self.counters.sent_segments += other.counters.sent_segments;
        self.counters.fallbacks_unsupported += other.counters.fallbacks_unsupported;
        self.counters.fallbacks_size += other.counters.fallbacks_size;
        self.counters.received_trains += other.counters.received_trains;
        self.counters.received_segments += other.counters.received_segments;
        self
    }
}

impl fmt::Display for Offloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = |on| if on { "on" } else { "off" };
        let trains = |trains, datagrams| {
            format!("{} ({} datagrams)", figures::count(trains), figures::count(datagrams))
        };
        let Self { gso, gro, counters } = self;
        write!(
            f,
            "offload: GSO {}, trains sent {}, refused {}; GRO {}, trains received {}",
            switch(*gso),
            trains(counters.sent_trains, counters.sent_segments),
            figures::count(counters.fallbacks_unsupported + counters.fallbacks_size),
            switch(*gro),
            trains(counters.received_trains, counters.received_segments),
        )
    }
}

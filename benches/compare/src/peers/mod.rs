//! The ways to compare, behind one trait.
//!
//! Every way makes its list of destinations and contiguous payloads in advance, in its own types. It makes headers
//! in the turn, unless it keeps headers itself. A receive has room for as many messages as there are
//! datagrams (512 in the workload "idle"). The turn reads source, address and length of each payload and, if enabled,
//! ECN bits and destination. No receive waits: the datagrams have arrived.

mod by_mmsg;
mod by_mmsg_offload;
mod by_nix;
mod by_quinn;
mod by_raw;
mod by_std;
pub mod one;

use std::io;

use super::load::{Check, Datagram, Load};
use super::wire::Wire;

/// A way to send and receive the datagrams of a load.
pub trait Peer: Sized {
    /// Whether it can receive ECN bits and destinations.
    const HAS_METADATA: bool = true;

    fn new(load: &Load, wire: &Wire) -> io::Result<Self>;

    /// Sends all datagrams.
    fn send(&mut self, wire: &Wire);

    /// Receives at least one message at this receiver, and passes its datagrams to `see`.
    fn receive(&mut self, wire: &Wire, dest: usize, see: impl FnMut(Datagram<'_>));
}

/// Sends a load and receives it. With true, compares the received datagrams with the sent ones.
pub type Turn = Box<dyn FnMut(bool)>;

/// The ways of a workload, in the order of the tables.
pub fn names(load: &Load) -> &'static [&'static str] {
    if load.workload == "ready" { &READY } else { &WAYS }
}

/// The ways of the workload "ready".
pub const READY: [&str; 8] = [
    "raw GSO",
    "quinn-udp GSO",
    "mmsg segments",
    "quinn-udp copied",
    "mmsg list",
    "mmsg send_each",
    "mmsg queue",
    "mmsg gathered",
];

/// The ways of the other workloads.
pub const WAYS: [&str; 9] = [
    "std",
    "nix",
    "quinn-udp",
    "raw",
    "mmsg RecvMsg",
    "mmsg RecvBatch",
    "quinn-udp GSO",
    "raw GSO",
    "mmsg Offload",
];

/// The turn of one way. `None` if the way lacks a feature of the load.
pub fn turn(name: &str, load: &Load) -> Option<Turn> {
    match name {
        "std" => made::<by_std::Std>(load),
        "nix" => made::<by_nix::Nix>(load),
        "quinn-udp" => made::<by_quinn::Single>(load),
        "quinn-udp copied" => made::<by_quinn::Copied<false>>(load),
        "quinn-udp stored" => made::<by_quinn::Copied<true>>(load),
        "quinn-udp GSO" => made::<by_quinn::Segmented>(load),
        "raw" => made::<by_raw::Plain>(load),
        "raw GSO" => made::<by_raw::Gso>(load),
        "raw GSO scattered" => made::<by_raw::ScatteredGso>(load),
        "mmsg RecvMsg" => made::<by_mmsg::IntoRecvMsgs>(load),
        "mmsg RecvBatch" => made::<by_mmsg::IntoRecvBatch>(load),
        "mmsg Offload" => made::<by_mmsg_offload::Contiguous>(load),
        "mmsg Offload scattered" => made::<by_mmsg_offload::Scattered>(load),
        "mmsg list" => made::<by_mmsg_offload::List>(load),
        "mmsg send_each" => made::<by_mmsg_offload::Each>(load),
        "mmsg queue" => made::<by_mmsg_offload::Queue>(load),
        "mmsg grouped" => made::<by_mmsg_offload::Grouped>(load),
        "mmsg gathered" => made::<by_mmsg_offload::Gathered>(load),
        "mmsg segments" => made::<by_mmsg_offload::Segments>(load),
        _ => panic!("no such way: {name}"),
    }
}

fn made<P: Peer + 'static>(load: &Load) -> Option<Turn> {
    if load.metadata && !P::HAS_METADATA {
        return None;
    }
    let mut both = Both::<P>::new(load);
    Some(Box::new(move |check| {
        both.peer.send(&both.wire);
        if check {
            let from = both.wire.near.local_addr().expect("it is bound");
            let mut check = Check::new(both.load, from);
            both.receive(|dest, seen| check.see(dest, &seen, P::HAS_METADATA));
            check.finish();
        } else {
            both.receive(|_, seen| seen.glance());
        }
    }))
}

/// A way and its sockets.
struct Both<P> {
    load: Load,
    wire: Wire,
    peer: P,
}

impl<P: Peer> Both<P> {
    fn new(load: &Load) -> Self {
        let wire = Wire::new(load).expect("loopback sockets");
        let peer = P::new(load, &wire).expect("a socket's options");
        Self { load: *load, wire, peer }
    }

    #[inline(always)]
    fn receive(&mut self, mut see: impl FnMut(usize, Datagram<'_>)) {
        for dest in 0..self.load.dests {
            let mut received = 0;
            while received < self.load.each {
                self.peer.receive(&self.wire, dest, |seen| {
                    received += 1;
                    see(dest, seen);
                });
            }
            assert_eq!(received, self.load.each);
        }
    }
}

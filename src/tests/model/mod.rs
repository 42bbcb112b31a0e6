//! Any calls of the library on a socket, under a model of the kernel that decides about each system call, and judges
//! that compare what each call returned with what the kernel said and with the datagrams that came:
//!
//! - Nothing is lost, doubled or moved to another place: `Ok(n)` is the first `n` messages, `Err` is none of them and the
//!   kernel's last word.
//! - What the kernel rejects as a GSO batch goes as its datagrams in the same call. Of a message that is segmented in
//!   user space the first datagram went, and what did not is counted.
//! - Both backends do the same.

#[cfg(test)]
mod exhaustive;
mod kernel;
mod receive;
mod send;

#[cfg(test)]
use proptest::prelude::*;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::offload_kit::Net;
use super::*;
use crate::{Ancillary, Offload};
use kernel::{Answer, HeaderFate, Kernel};
use receive::{Mailbox, ReceiveWay};
use send::{SendWay, Shape};

/// What the calls are made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// An `Offload`, with GSO or with GRO.
    Offload {
        gso: bool,
        gro: bool,
    },
}

const GSO: Kind = Kind::Offload { gso: true, gro: false };
const GRO: Kind = Kind::Offload { gso: false, gro: true };

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Send {
        way: SendWay,
        shape: Shape,
        count: usize,
    },
    /// Puts datagrams into the socket.
    Fill {
        count: usize,
        together: bool,
    },
    Receive {
        way: ReceiveWay,
        messages: usize,
        bytes: usize,
    },
    SetGso(bool),
}

struct World {
    kernel: Arc<Mutex<Kernel>>,
    kind: Kind,
    backend: Backend,
    /// The sender, and its receivers.
    net: Net,
    mailbox: Mailbox,
    /// The number of the next message.
    next: usize,
    /// What the calls returned.
    said: Vec<String>,
}

impl World {
    /// `None` where the kernel has no GSO. `errors` says whether ICMP errors are reported.
    fn new(kind: Kind, errors: bool) -> Option<Self> {
        let (net, mailbox) = (Net::new()?, Mailbox::new(kind));
        if errors {
            Ancillary::ERRORS.require(&net.near).expect("Linux has it");
            Ancillary::ERRORS.require(&mailbox.socket).expect("Linux has it");
        }
        let (kernel, backend) = (Arc::default(), Backend::current());
        Some(Self { kernel, kind, backend, net, mailbox, next: 0, said: Vec::new() })
    }

    /// Runs a program, each call of which meets the next of the kernel's answers, and then none. Returns how many of
    /// them were taken.
    fn run(&mut self, backend: Backend, fates: &[HeaderFate], program: &[Op]) -> usize {
        self.backend = backend;
        self.said.clear();
        self.net.near.set_gso(matches!(self.kind, Kind::Offload { gso: true, .. }));
        self.kernel().fates = fates.iter().copied().collect();
        program.iter().for_each(|op| self.step(*op));
        let used = fates.len() - self.kernel().fates.len();
        self.kernel().fates.clear();
        self.receive_all();
        used
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Send { way, shape, count } => self.send(way, shape, count),
            Op::Fill { count, together } => self.fill(count, together),
            Op::Receive { way, messages, bytes } => self.receive(way, messages, bytes),
            Op::SetGso(on) => _ = self.net.near.set_gso(on && self.kind != Kind::Plain),
        }
    }

    fn kernel(&self) -> MutexGuard<'_, Kernel> {
        lock(&self.kernel)
    }
}

fn lock(kernel: &Mutex<Kernel>) -> MutexGuard<'_, Kernel> {
    kernel.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call of the library that moves up to `datagrams`, with the model's kernel beneath. Also returns its answers.
fn under<R>(
    kernel: &Arc<Mutex<Kernel>>,
    backend: &mut Backend,
    datagrams: usize,
    call: impl FnOnce() -> R,
) -> (R, Vec<Answer>) {
    lock(kernel).begin(datagrams);
    let decider = Arc::clone(kernel);
    backend.make_process_default().expect("both are here");
    fault::decide_by(move |call, offered| lock(&decider).decide(call, offered));
    let result = call();
    fault::script([]);
    *backend = Backend::current();
    (result, lock(kernel).answers())
}

/// Runs the program that any bytes mean.
pub(super) fn run(config: [u8; 8], records: &[[u8; 8]]) {
    const SIZES: [usize; 8] = [0, 1, 2, 3, 4, 5, 8, 40];
    let [backend, kind, errors, ..] = config;
    let (gso, gro) = (kind & 1 > 0, kind & 2 > 0);
    let kind = if kind % 8 == 7 { Kind::Plain } else { Kind::Offload { gso, gro } };
    let Some(mut world) = World::new(kind, errors % 4 == 3) else { return };
    world.backend = BACKENDS[usize::from(backend % 2)];
    world.net.near.set_gso(gso && kind != Kind::Plain);
    for [op, a, b, c, fates @ ..] in records.iter().copied() {
        let count = SIZES[usize::from(c % 8)];
        world.kernel().fates.extend(fates.iter().filter_map(|byte| HeaderFate::of(*byte)));
        world.step(match op % 8 {
            0..4 => Op::Send { way: SendWay::of(a), shape: Shape::of(b), count },
            4 => Op::Fill { count: count.min(5), together: a % 2 > 0 },
            5 | 6 => {
                let bytes = if b % 4 == 0 { 30 } else { 2_000 };
                Op::Receive { way: ReceiveWay::of(a), messages: count.min(8), bytes }
            }
            _ => Op::SetGso(a % 4 > 0),
        });
    }
    world.kernel().fates.clear();
    world.receive_all();
}

#[cfg(test)]
proptest! {
    #[test]
    fn any_calls_under_any_kernel(
        config in any::<[u8; 8]>(),
        ops in prop::collection::vec(any::<[u8; 8]>(), 0..20),
    ) {
        run(config, &ops);
    }
}

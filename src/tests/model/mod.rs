//! Runs any calls of the library under a scripted kernel, which decides about each system call, or under the real one.
//! After each call a judge compares its result with the kernel's answers and with the received datagrams:
//!
//! - No message is lost, duplicated or reordered: `Ok(n)` means the first `n` messages, `Err` means none of them and is the
//!   kernel's last error.
//! - A rejected GSO batch is sent as its datagrams in the same call. Of a message that is segmented in user space at least
//!   the first datagram was sent, and the counters tell how many were not.
//! - Both backends give the same results.
//!
//! The scripted kernel shows errors that a test cannot cause. Under the real kernel there are more messages, both address
//! families, connected sockets, and messages that no kernel sends.

#[cfg(test)]
mod exhaustive;
mod kernel;
mod receive;
mod send;

#[cfg(test)]
use proptest::prelude::*;

use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::offload_kit::Net;
use super::*;
use crate::{Ancillary, Offload};
use kernel::{Answer, HeaderFate, Kernel};
use receive::{Mailbox, ReceiveWay};
use send::{SendWay, Shape};

/// The socket under test.
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
    /// Sends datagrams to the receiver.
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
    net: Net,
    /// Whether the sender is connected to its first receiver.
    connected: bool,
    mailbox: Mailbox,
    /// The number of the next message.
    next: usize,
    /// The results of the calls.
    said: Vec<String>,
}

impl World {
    /// `None` where the kernel has no GSO. `errors` turns on the error queues.
    fn new(kind: Kind, errors: bool) -> Option<Self> {
        Self::on(Ipv4Addr::LOCALHOST.into(), kind, errors)
    }

    fn on(ip: IpAddr, kind: Kind, errors: bool) -> Option<Self> {
        let (net, mailbox) = (Net::on(ip)?, Mailbox::new(ip, kind));
        if errors {
            Ancillary::ERRORS.require(&net.near).expect("Linux has it");
            Ancillary::ERRORS.require(&mailbox.socket).expect("Linux has it");
        }
        let (kernel, backend) = (Arc::default(), Backend::current());
        let (connected, next, said) = (false, 0, Vec::new());
        Some(Self { kernel, kind, backend, net, connected, mailbox, next, said })
    }

    /// Runs a program, whose calls take the fates in order until none are left. Returns how many were taken.
    fn run(&mut self, backend: Backend, fates: &[HeaderFate], program: &[Op]) -> usize {
        self.backend = backend;
        self.said.clear();
        self.net.near.state().set_gso(matches!(self.kind, Kind::Offload { gso: true, .. }));
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
            Op::SetGso(on) => _ = self.net.near.state().set_gso(on && self.kind != Kind::Plain),
        }
    }

    fn kernel(&self) -> MutexGuard<'_, Kernel> {
        lock(&self.kernel)
    }
}

fn lock(kernel: &Mutex<Kernel>) -> MutexGuard<'_, Kernel> {
    kernel.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call of the library, which moves up to `datagrams`, under the model's kernel. Also returns the kernel's answers.
fn under<R>(
    kernel: &Arc<Mutex<Kernel>>,
    backend: &mut Backend,
    datagrams: usize,
    call: impl FnOnce() -> R,
) -> (R, Vec<Answer>) {
    lock(kernel).begin(datagrams);
    let decider = Arc::clone(kernel);
    backend.make_process_default().expect("Linux has both");
    fault::decide_by(move |call, offered| lock(&decider).decide(call, offered));
    let result = call();
    fault::script([]);
    *backend = Backend::current();
    (result, lock(kernel).answers())
}

/// Runs the program that the bytes encode, under the scripted kernel or the real one. Any bytes are a program.
pub(super) fn run([backend, kind, errors, kernel, ..]: [u8; 8], records: &[[u8; 8]]) {
    let (gso, gro) = (kind & 1 > 0, kind & 2 > 0);
    let kind = if kind % 8 == 7 { Kind::Plain } else { Kind::Offload { gso, gro } };
    let is_real = kernel % 4 == 3;
    let is_v6 = is_real && kernel & 4 > 0 && UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let ip = if is_v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let Some(mut world) = World::on(ip, kind, errors % 4 == 3) else { return };
    if is_real && kernel & 8 > 0 {
        world.net.near.get_ref().connect(world.net.to(0)).expect("connecting only stores the peer");
        world.connected = true;
    }
    world.backend = BACKENDS[usize::from(backend % 2)];
    world.net.near.state().set_gso(gso && kind != Kind::Plain);
    for [op, a, b, c, fates @ ..] in records.iter().copied() {
        if !is_real {
            world.kernel().fates.extend(fates.iter().filter_map(|byte| HeaderFate::of(*byte)));
        }
        let sizes =
            if is_real { [1, 2, 5, 16, 17, 33, 64, 130] } else { [0, 1, 2, 3, 4, 5, 8, 40] };
        let count = sizes[usize::from(c % 8)];
        world.step(match op % 8 {
            0..4 => Op::Send { way: SendWay::of(a), shape: Shape::of(b, is_real), count },
            4 => Op::Fill { count: count.min(if is_real { 40 } else { 5 }), together: a % 2 > 0 },
            5 | 6 => {
                let bytes = [30, 2_000, 2_000, if is_real { 1 } else { 2_000 }][usize::from(b % 4)];
                let messages = count.min(if is_real { 64 } else { 8 });
                Op::Receive { way: ReceiveWay::of(a), messages, bytes }
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

    #[test]
    fn any_calls_under_the_real_kernel(
        config in any::<[u8; 8]>(),
        ops in prop::collection::vec(any::<[u8; 8]>(), 0..20),
    ) {
        let [backend, kind, errors, kernel, ..] = config;
        run([backend, kind, errors, kernel | 3, 0, 0, 0, 0], &ops);
    }
}

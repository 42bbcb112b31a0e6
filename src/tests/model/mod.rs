//! A stateful model: any calls on two sockets, under a kernel with any answers.
//!
//! After each call the model knows of every message whether it is delivered, failed (and with which
//! error) or still the caller's, by the contract of [`BatchSocket`](crate::BatchSocket) alone. What
//! was delivered, read through the standard library, must agree; so must what waits in a socket with what
//! is received, and every error of the kernel is returned once. A call may make no more
//! system calls than its messages and the kernel's answers explain.
//!
//! [`exhaustive`] has no generator: it runs small cases under every sequence of answers.
//!
//! What a fuzzer needs is apart from the generator: [`ops`] makes operations out of bytes, and
//! [`run`] panics at a fault.

#[cfg(all(test, linux_like))]
mod errnos;
#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod found;
#[cfg(test)]
mod generated;
mod judge;
mod kernel;
mod messages;
mod ops;
mod receive;
mod send;
mod world;

use ops::{Config, Op, Record};
use world::World;

/// Runs a case: its configuration, then its operations.
pub(crate) fn run(config: Record, ops: &[Record]) {
    let mut world = World::new(Config::decode(config));
    for op in ops {
        world.step(Op::decode(*op));
    }
    world.finish();
}

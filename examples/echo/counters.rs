//! What was done so far, counted by the thread that does it and read by the one that tells.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

use mmsg::Backend;

/// The figures of one thread. On cache lines of its own, so that threads do not slow each other.
#[derive(Default)]
#[repr(align(128))]
pub struct Counters {
    /// Datagrams received.
    pub received: Counter,
    /// Datagrams sent.
    pub sent: Counter,
    /// System calls that received or sent a datagram.
    pub calls: Counter,
    /// Errors that the system reported, and datagrams given up for them.
    pub errors: Counter,
    /// Datagrams received that could not be sent back: cut, or without a source.
    pub ignored: Counter,
}

/// A number that only one thread adds to.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: usize) {
        // One writer: a plain addition, of which others see each result whole.
        self.0.store(self.get() + n as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Figures at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub received: u64,
    pub sent: u64,
    pub calls: u64,
    pub errors: u64,
    pub ignored: u64,
}

impl Counters {
    pub fn totals(&self) -> Totals {
        Totals {
            received: self.received.get(),
            sent: self.sent.get(),
            calls: self.calls.get(),
            errors: self.errors.get(),
            ignored: self.ignored.get(),
        }
    }
}

impl Totals {
    fn zip(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            received: both(self.received, other.received),
            sent: both(self.sent, other.sent),
            calls: both(self.calls, other.calls),
            errors: both(self.errors, other.errors),
            ignored: both(self.ignored, other.ignored),
        }
    }
}

impl Add for Totals {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl Sub for Totals {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

/// System calls by which a call of the crate has moved `moved` datagrams, at most 1,024.
pub fn calls_for(moved: usize) -> usize {
    match Backend::current() {
        Backend::Mmsg => 1,
        _ => moved,
    }
}

//! Decodes operations from the bytes of a generator or fuzzer, eight bytes each.
//!
//! Any bytes are valid, and no operation depends on the bytes of another.

use mmsg::Backend;

/// The bytes of one operation.
pub type Record = [u8; 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
    Unix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Offload { gso: bool, gro: bool },
}

/// The configuration of a case.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub backend: Backend,
    pub family: Family,
    /// Whether the two sockets are connected to each other. Unix sockets always are.
    pub connected: bool,
    pub kinds: [Kind; 2],
    pub threads: usize,
}

/// An operation, and the socket, thread and handle for it.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub thread: usize,
    /// The index of the socket.
    pub at: usize,
    /// Whether to use the thread's own handle, if it has one.
    pub own: bool,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    Send {
        way: Sending,
        batch: Batch,
    },
    Push {
        batch: Batch,
    },
    Flush,
    Receive {
        way: Receiving,
        space: RecvSpace,
    },
    /// Receives until the socket is empty.
    Drain,
    Clone,
    Close,
    SetGso(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    Batch,
    Each,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    Batch,
    Into,
}

/// The memory offered to a receive.
#[derive(Clone, Copy, Debug)]
pub struct RecvSpace {
    pub messages: usize,
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// The destination socket.
    pub to: usize,
    pub count: usize,
    pub shape: Shape,
    pub seed: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All of one length: the longest GSO batches.
    Alike,
    /// Runs of several lengths.
    Runs,
    Mixed,
    /// Some have their own segment size.
    OwnSegments,
    /// Some are invalid on any system.
    Bad,
}

const COUNTS: [usize; 16] = [0, 1, 1, 2, 2, 3, 5, 8, 13, 16, 17, 31, 33, 63, 65, 130];

fn backend(byte: u8) -> Backend {
    if byte % 2 == 0 { Backend::Mmsg } else { Backend::Msg }
}

impl Config {
    pub fn decode(record: Record) -> Self {
        let [a, b, c, d, e, f, ..] = record;
        let kind = |byte: u8| match byte % 8 {
            0..3 => Kind::Plain,
            3 => Kind::Offload { gso: true, gro: false },
            4 => Kind::Offload { gso: false, gro: true },
            5 => Kind::Offload { gso: false, gro: false },
            _ => Kind::Offload { gso: true, gro: true },
        };
        let family = match b % 8 {
            0..4 => Family::V4,
            4 | 5 => Family::V6,
            _ => Family::Unix,
        };
        Self {
            backend: backend(a),
            family,
            connected: c % 4 == 3 || family == Family::Unix,
            kinds: [kind(d), kind(e)],
            threads: [1, 1, 1, 1, 2, 2, 3, 3][usize::from(f % 8)],
        }
    }
}

impl Op {
    pub fn decode(record: Record) -> Self {
        let [op, who, a, b, c, d, ..] = record;
        let batch = || Batch::decode(a / 4, b, c);
        let what = match op % 32 {
            0..12 => What::Send { way: Sending::decode(d), batch: batch() },
            12..14 => What::Push { batch: batch() },
            14..16 => What::Flush,
            16..26 => What::Receive { way: Receiving::decode(d), space: RecvSpace::decode(b, c) },
            26 | 27 => What::Drain,
            28 => What::Clone,
            29 => What::Close,
            _ => What::SetGso(b % 3 > 0),
        };
        Self { thread: usize::from(who / 16), at: usize::from(a % 2), own: a & 2 > 0, what }
    }
}

impl Sending {
    fn decode(byte: u8) -> Self {
        match byte % 8 {
            0..4 => Self::Batch,
            _ => Self::Each,
        }
    }
}

impl Receiving {
    fn decode(byte: u8) -> Self {
        if byte % 2 == 0 { Self::Batch } else { Self::Into }
    }
}

impl RecvSpace {
    fn decode(count: u8, byte: u8) -> Self {
        Self {
            messages: COUNTS[usize::from(count % 16)],
            bytes: [3_000, 3_000, 3_000, 3_000, 200, 20, 5, 0][usize::from(byte % 8)],
        }
    }
}

impl Batch {
    fn decode(to: u8, count: u8, shape: u8) -> Self {
        let kind = match shape % 8 {
            0..3 => Shape::Alike,
            3 => Shape::Runs,
            4 | 5 => Shape::Mixed,
            6 => Shape::OwnSegments,
            _ => Shape::Bad,
        };
        let (to, count) = (usize::from(to % 2), COUNTS[usize::from(count % 16)]);
        Self { to, count, shape: kind, seed: shape / 8 }
    }
}

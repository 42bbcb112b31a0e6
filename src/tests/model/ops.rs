//! Operations out of the bytes of a generator or a fuzzer, eight bytes an operation.
//!
//! Any bytes are operations, each independent of those before it: if some are removed, the others stay the same.

use super::kernel::{Direction, Event};
use crate::Backend;
use crate::sys::fault::errno;

/// The bytes of one operation.
pub(super) type Record = [u8; 8];

/// The configuration of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) backend: Backend,
    pub(super) sockets: [Kind; 2],
    /// Whether ICMP errors are reported (`Ancillary::ERRORS`).
    pub(super) errors: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Offload { gso: bool, gro: bool },
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Send {
        socket: usize,
        clone: usize,
        way: Sending,
        batch: Batch,
        again: bool,
        thread: bool,
    },
    Receive {
        socket: usize,
        clone: usize,
        way: Receiving,
        space: RecvSpace,
        thread: bool,
    },
    /// Datagrams from outside into a socket.
    Fill {
        socket: usize,
        batch: Batch,
    },
    Push {
        batch: Batch,
    },
    Flush {
        socket: usize,
        clone: usize,
        thread: bool,
    },
    /// Gives up on the queue's first datagrams.
    Drop(usize),
    Clone {
        socket: usize,
    },
    Close {
        socket: usize,
        clone: usize,
    },
    Select(Backend),
    ClearPool,
    SetGso {
        socket: usize,
        clone: usize,
        on: bool,
    },
    /// Up to three events for the next headers, each after a number of headers that go through.
    Script {
        direction: Direction,
        events: [(usize, Event); 3],
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Batch,
    Dyn,
    Iter,
    Each,
    Flush,
    /// An arena with a backend of its own.
    Arena(Backend),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    Batch,
    Peek,
    Into,
    PeekInto,
    Arena(Backend),
}

/// The memory that a receive offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecvSpace {
    pub(super) messages: usize,
    /// Bytes for each of them.
    pub(super) bytes: usize,
    /// Whether each has two buffers.
    pub(super) scattered: bool,
}

/// Messages to be sent: how many, and a seed of what they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) count: usize,
    pub(super) shape: Shape,
    pub(super) seed: u8,
}

/// The pattern of a batch's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One length and one destination: the longest GSO batches.
    Alike,
    /// Runs of several lengths, to and fro.
    Runs,
    Mixed,
    /// Some with a segment size of their own.
    OwnSegments,
}

/// Numbers of messages worth trying: around the steps in which the library works.
const COUNTS: [usize; 32] = [
    0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 12, 15, 16, 17, 18, 20, 24, 31, 32, 33, 40, 63,
    64, 65, 100, 140,
];

/// Errors of sends and of receives: sendmmsg(2), recvmmsg(2), udp(7), ip(7), and what firewalls,
/// devices and tunnels add.
const ERRNOS: [i32; 32] = [
    errno::EINTR,
    errno::EINTR,
    errno::EAGAIN,
    errno::EAGAIN,
    errno::ECONNREFUSED,
    errno::ECONNREFUSED,
    errno::EPERM,
    errno::EPERM,
    errno::EMSGSIZE,
    errno::EINVAL,
    errno::EIO,
    errno::EOPNOTSUPP,
    errno::ENOBUFS,
    errno::ENOMEM,
    errno::ENETUNREACH,
    errno::EHOSTUNREACH,
    errno::EACCES,
    errno::EPIPE,
    errno::ENOTCONN,
    errno::EDESTADDRREQ,
    errno::EISCONN,
    errno::ECONNRESET,
    errno::EAFNOSUPPORT,
    errno::EADDRNOTAVAIL,
    errno::ENETDOWN,
    errno::EHOSTDOWN,
    errno::ENOPROTOOPT,
    errno::EFAULT,
    errno::EPROTO,
    errno::ETIMEDOUT,
    errno::ENODEV,
    errno::EBADF,
];

fn backend(byte: u8) -> Backend {
    if byte % 2 == 0 { Backend::Mmsg } else { Backend::Msg }
}

impl Config {
    pub(super) fn decode(record: Record) -> Self {
        let [a, b, c, d, ..] = record;
        let kind = |byte: u8| match byte % 8 {
            0..3 => Kind::Plain,
            3 | 4 => Kind::Offload { gso: true, gro: false },
            5 => Kind::Offload { gso: false, gro: false },
            6 => Kind::Offload { gso: false, gro: true },
            _ => Kind::Offload { gso: true, gro: true },
        };
        Self { backend: backend(a), sockets: [kind(b), kind(c)], errors: d % 4 == 3 }
    }
}

impl Op {
    pub(super) fn decode(record: Record) -> Self {
        let [op, a, b, c, d, e, f, g] = record;
        let (socket, clone, thread) = (usize::from(a % 2), usize::from(b), g % 8 == 7);
        match op % 32 {
            0..8 => {
                let (way, batch) = (Sending::decode(c), Batch::decode(d, e, f));
                Self::Send { socket, clone, way, batch, again: a & 2 > 0, thread }
            }
            8..14 => Self::Receive {
                socket,
                clone,
                way: Receiving::decode(c),
                space: RecvSpace::decode(d, e),
                thread,
            },
            14..18 => Self::Fill { socket, batch: Batch::decode(d, e, f) },
            18 => Self::Push { batch: Batch::decode(d, e, f) },
            19 => Self::Flush { socket, clone, thread },
            20 => Self::Drop(usize::from(c % 4)),
            21 => Self::Clone { socket },
            22 => Self::Close { socket, clone },
            23 => Self::Select(backend(c)),
            24 => Self::ClearPool,
            25 => Self::SetGso { socket, clone, on: c % 3 > 0 },
            _ => Self::Script {
                direction: if a % 2 == 0 { Direction::Send } else { Direction::Receive },
                events: [(b, c), (d, e), (f, g)]
                    .map(|(after, event)| (usize::from(after % 16) / 2, decode_event(event))),
            },
        }
    }
}

fn decode_event(byte: u8) -> Event {
    match byte % 128 {
        0..64 => {
            let errno = ERRNOS[usize::from(byte % 32)];
            // An error about the socket does not stay with a message.
            let of_the_socket = [errno::EINTR, errno::EAGAIN, errno::ECONNREFUSED].contains(&errno);
            Event::Fail { errno, stays: byte & 32 > 0 && !of_the_socket }
        }
        64..72 => Event::Short,
        72..76 => Event::Missing,
        76..80 => Event::Forbidden,
        _ => Event::Pass,
    }
}

impl Sending {
    fn decode(byte: u8) -> Self {
        match byte % 8 {
            0 | 1 => Self::Batch,
            2 => Self::Dyn,
            3 => Self::Iter,
            4 | 5 => Self::Each,
            6 => Self::Flush,
            _ => Self::Arena(backend(byte / 8)),
        }
    }
}

impl Receiving {
    fn decode(byte: u8) -> Self {
        match byte % 8 {
            0..3 => Self::Batch,
            3 => Self::Peek,
            4 | 5 => Self::Into,
            6 => Self::PeekInto,
            _ => Self::Arena(backend(byte / 8)),
        }
    }
}

impl RecvSpace {
    fn decode(count: u8, byte: u8) -> Self {
        let messages = COUNTS[usize::from(count % 32)];
        let bytes = [2_000, 2_000, 2_000, 2_000, 40, 39, 4, 0][usize::from(byte % 8)];
        Self { messages, bytes, scattered: byte & 8 > 0 }
    }
}

impl Batch {
    fn decode(count: u8, shape: u8, seed: u8) -> Self {
        let shape = match shape % 8 {
            0..3 => Shape::Alike,
            3..5 => Shape::Runs,
            5..7 => Shape::Mixed,
            _ => Shape::OwnSegments,
        };
        Self { count: COUNTS[usize::from(count % 32)], shape, seed }
    }
}

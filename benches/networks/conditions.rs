//! The conditions: faults of the network and the outcome that each must have.

use std::io;

use mmsg::options::Fragmentation;

use crate::common::firewall;
use crate::link::{self, Rules};
use crate::packet::Unreachable;
use crate::run::Outcome;
use crate::tun::Device;
use crate::world::{Family, World};

/// A row of the table.
pub struct Condition {
    pub name: &'static str,
    /// The families this row applies to; another row of the same name covers the other.
    pub families: &'static [Family],
    /// The effect at the socket and the crate's reaction, for the table.
    pub sees: &'static str,
    pub does: &'static str,
    pub device: Device,
    pub rules: Rules,
    /// The length of the `n`th datagram.
    pub len: fn(usize) -> usize,
    pub connected: bool,
    /// Whether `Ancillary::ERRORS` is on.
    pub errors: bool,
    pub fragmentation: Option<Fragmentation>,
    /// The path MTU that the client's kernel learns from the first batch.
    pub learned: Option<usize>,
    pub prepare: fn(&World) -> io::Result<()>,
    /// What happens after half of the datagrams, and what ends it after another quarter.
    pub midway: Option<[fn(&World); 2]>,
    /// Whether the client's own queue silently loses datagrams.
    pub lossy_queue: bool,
    /// What else must hold, for each way to send.
    pub holds: fn(&Outcome),
}

const QUIET: Condition = Condition {
    name: "nothing",
    families: &[Family::V4, Family::V6],
    sees: "",
    does: "",
    device: Device::Checksums,
    rules: link::QUIET,
    len: |_| 1_000,
    connected: false,
    errors: false,
    fragmentation: None,
    learned: None,
    prepare: |_| Ok(()),
    midway: None,
    lossy_queue: false,
    holds: |_| {},
};

const V4: &[Family] = &[Family::V4];
const V6: &[Family] = &[Family::V6];

pub const CONDITIONS: [Condition; 24] = [
    Condition {
        sees: "nothing",
        does: "GSO batches, segmented by the client's kernel",
        holds: |outcome| {
            outcome.all_arrive();
            outcome.batches(true);
        },
        ..QUIET
    },
    Condition {
        name: "device that segments (a cloud's network)",
        device: Device::Segmentation,
        sees: "nothing",
        does: "GSO batches, which pass the link whole",
        holds: |outcome| {
            outcome.all_arrive();
            outcome.batches(true);
            assert!(!outcome.offload || outcome.whole_batches > 0, "{outcome:?}");
        },
        ..QUIET
    },
    Condition {
        name: "device without checksum offload",
        device: Device::Plain,
        sees: "before Linux 6.11 `EIO` for a GSO batch; later nothing",
        does: "its datagrams one by one, then no GSO for a minute",
        holds: |outcome| {
            outcome.all_arrive();
            assert!(outcome.counters.rejected_unsupported <= 1, "{outcome:?}");
        },
        ..QUIET
    },
    Condition {
        name: "5 % loss",
        rules: Rules { lose: 50, ..QUIET.rules },
        sees: "nothing",
        does: "nothing",
        holds: Outcome::no_errors,
        ..QUIET
    },
    Condition {
        name: "5 % duplication",
        rules: Rules { double: 50, ..QUIET.rules },
        sees: "datagrams that come twice",
        does: "delivers both",
        holds: Outcome::no_errors,
        ..QUIET
    },
    Condition {
        name: "10 % reordered",
        rules: Rules { delay: 100, ..QUIET.rules },
        sees: "datagrams up to 8 places late",
        does: "delivers them as they come",
        holds: Outcome::all_arrive,
        ..QUIET
    },
    Condition {
        name: "loss, duplication, reordering, batches whole on the link",
        device: Device::Segmentation,
        rules: Rules { lose: 50, double: 50, delay: 100, ..QUIET.rules },
        sees: "whole batches lost, doubled, late",
        does: "delivers what comes",
        holds: Outcome::no_errors,
        ..QUIET
    },
    Condition {
        name: "MTU 1280 behind a router, default setting",
        families: V4,
        len: |_| 1_300,
        learned: Some(1_280),
        sees: "nothing: the kernel fragments once it knows the path MTU",
        does: "GSO batches leave without the don't-fragment bit, and the router fragments",
        holds: Outcome::no_errors,
        ..QUIET
    },
    Condition {
        name: "MTU 1280 behind a router, default setting",
        families: V6,
        len: |_| 1_300,
        learned: Some(1_280),
        sees: "nothing: the kernel fragments once it knows the path MTU",
        does: "the kernel rejects GSO batches then; their datagrams one by one, which it fragments",
        holds: |outcome| {
            outcome.no_errors();
            // The datagrams of the first batch.
            assert!(outcome.lost_by_network <= 64, "{outcome:?}");
            assert!(!outcome.offload || outcome.counters.rejected_size > 0, "{outcome:?}");
        },
        ..QUIET
    },
    Condition {
        name: "MTU 1280 behind a router, `Fragmentation::Never`",
        len: |_| 1_300,
        learned: Some(1_280),
        fragmentation: Some(Fragmentation::Never),
        sees: "`EMSGSIZE` once the path MTU is known",
        does: "reports it for each datagram",
        holds: |outcome| {
            outcome.errors(&[libc::EMSGSIZE]);
            assert!(outcome.received == 0 && outcome.sent <= 64, "{outcome:?}");
        },
        ..QUIET
    },
    Condition {
        name: "MTU 1280 behind a router, `Fragmentation::Probe`",
        len: |_| 1_300,
        learned: Some(1_280),
        fragmentation: Some(Fragmentation::Probe),
        errors: true,
        sees: "`TooBig` with the MTU in the error queue, and calls that fail",
        does: "makes the calls that fail again; sends all the same",
        holds: |outcome| {
            outcome.errors_among(&[libc::EMSGSIZE]);
            assert_eq!(outcome.received, 0, "{outcome:?}");
            assert!(outcome.reports > 0, "{outcome:?}");
        },
        ..QUIET
    },
    Condition {
        name: "router that drops over 1,200 bytes without a report",
        rules: Rules { longest: Some(1_200), ..QUIET.rules },
        len: |number| if number % 4 == 3 { 1_250 } else { 1_100 },
        fragmentation: Some(Fragmentation::Probe),
        sees: "nothing",
        does: "nothing: only the protocol can find out (RFC 8899)",
        holds: Outcome::no_errors,
        ..QUIET
    },
    Condition {
        name: "tiny queue",
        prepare: World::tiny_queue,
        lossy_queue: true,
        sees: "nothing: Linux hides `ENOBUFS` (`nstat UdpSndbufErrors`)",
        does: "nothing",
        holds: |outcome| {
            outcome.no_errors();
            assert!(outcome.lost_by_network > 0, "{outcome:?}");
        },
        ..QUIET
    },
    Condition {
        name: "tiny queue, `Ancillary::ERRORS`",
        prepare: World::tiny_queue,
        errors: true,
        sees: "`ENOBUFS`",
        does: "a GSO batch again one by one; each datagram's own error",
        holds: |outcome| {
            outcome.errors(&[libc::ENOBUFS]);
            assert_eq!(outcome.lost_by_network, 0, "{outcome:?}");
        },
        ..QUIET
    },
    Condition {
        name: "firewall that drops 1 in 10",
        rules: Rules { lose: 100, ..QUIET.rules },
        connected: true,
        sees: "nothing",
        does: "nothing",
        holds: Outcome::no_errors,
        ..QUIET
    },
    Condition {
        name: "firewall that rejects 1 in 10 (port unreachable), connected",
        rules: Rules { reject: (100, Unreachable::Port), ..QUIET.rules },
        connected: true,
        sees: "\"connection refused\" about an earlier datagram",
        does: "fails one call, or none; the caller offers the same datagrams again",
        holds: |outcome| {
            // `send_each` reports the error and goes on. The kernel drops an error in the middle of a `sendmmsg`.
            outcome.errors_among(if outcome.is_each { &[libc::ECONNREFUSED] } else { &[] });
        },
        ..QUIET
    },
    Condition {
        name: "firewall that rejects 1 in 10 (prohibited), connected",
        families: V4,
        rules: Rules { reject: (100, Unreachable::Prohibited), ..QUIET.rules },
        connected: true,
        sees: "\"no route to host\" about an earlier datagram",
        does: "reports it for the datagram offered, which is not sent",
        holds: |outcome| outcome.errors_among(&[libc::EHOSTUNREACH]),
        ..QUIET
    },
    Condition {
        name: "firewall that rejects 1 in 10 (prohibited), connected",
        families: V6,
        rules: Rules { reject: (100, Unreachable::Prohibited), ..QUIET.rules },
        connected: true,
        sees: "\"permission denied\" about an earlier datagram",
        does: "reports it for the datagram offered, which is not sent",
        holds: |outcome| outcome.errors_among(&[libc::EACCES]),
        ..QUIET
    },
    Condition {
        name: "firewall that rejects 1 in 10, `Ancillary::ERRORS`",
        rules: Rules { reject: (100, Unreachable::Port), ..QUIET.rules },
        errors: true,
        sees: "reports in the error queue, and calls that fail",
        does: "makes the calls that fail again",
        holds: |outcome| {
            outcome.errors_among(&[libc::ECONNREFUSED]);
            assert!(outcome.reports > 0, "{outcome:?}");
        },
        ..QUIET
    },
    Condition {
        name: "the host's own firewall, by length",
        len: |number| if number % 4 == 3 { 1_000 } else { 500 },
        prepare: |world| world.client.within(|| firewall::reject_longer(608)),
        sees: "`EPERM` for long datagrams and for GSO batches",
        does: "a batch's datagrams one by one; each long one's own error",
        holds: |outcome| {
            outcome.errors(&[libc::EPERM]);
            assert_eq!(outcome.received, outcome.sent);
            assert_eq!(outcome.reported * 4, outcome.sent + outcome.reported);
        },
        ..QUIET
    },
    Condition {
        name: "link that goes down and comes back",
        midway: Some([
            |world| world.link.set_rules(|rules| rules.down = true),
            |world| world.link.set_rules(|rules| rules.down = false),
        ]),
        sees: "nothing",
        does: "nothing",
        holds: |outcome| {
            outcome.no_errors();
            assert_eq!(outcome.lost_by_network, outcome.sent / 4);
        },
        ..QUIET
    },
    Condition {
        name: "the host's device goes down and comes back",
        midway: Some([World::device_down, World::device_up]),
        sees: "`ENETUNREACH`",
        does: "reports it for each datagram; GSO stays on",
        holds: |outcome| {
            outcome.errors(&[libc::ENETUNREACH]);
            outcome.quarter_reported();
        },
        ..QUIET
    },
    Condition {
        name: "the host's address goes away and comes back",
        families: V4,
        midway: Some([World::address_away, World::address_back]),
        sees: "`EINVAL` or `ENETUNREACH`",
        does: "reports it for each datagram; GSO stays on",
        holds: |outcome| {
            outcome.errors(&[libc::EINVAL, libc::ENETUNREACH]);
            outcome.quarter_reported();
        },
        ..QUIET
    },
    Condition {
        name: "the host's address goes away and comes back",
        families: V6,
        midway: Some([World::address_away, World::address_back]),
        sees: "nothing: Linux sends from an IPv6 address that the host no longer has",
        does: "nothing; answers do not come",
        holds: Outcome::all_arrive,
        ..QUIET
    },
];

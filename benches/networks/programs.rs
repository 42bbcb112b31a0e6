//! The programs behind the network: each request that reaches one is answered exactly once.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::{TIME_LIMIT, payload};
use crate::link::{QUIET, Rules, Tally, Way};
use crate::requests::{DNS, Request};
use crate::running::{Program, find};
use crate::tun::Device;
use crate::world::{Family, World};

pub struct Case {
    pub name: &'static str,
    pub program: &'static str,
    pub family: Family,
    /// Its command line, for an address to listen on.
    pub args: fn(SocketAddr) -> Vec<String>,
    pub request: fn(u16) -> Vec<u8>,
}

pub const PROGRAMS: [Case; 3] = [
    Case {
        name: "`echo`",
        program: "echo",
        family: Family::V4,
        args: |at| words(&["serve", &at.to_string()]),
        request: |number| numbered(number, 900),
    },
    Case {
        name: "`echo --mode offload`",
        program: "echo",
        family: Family::V6,
        args: |at| words(&["serve", &at.to_string(), "--mode", "offload"]),
        request: |number| numbered(number, 900),
    },
    Case {
        name: "`dns`",
        program: "dns",
        family: Family::V4,
        // One network asks for everything here, so the limit of answers is off.
        args: |at| words(&["--listen", &at.to_string(), "--zone", ZONE, "--rate-limit", "0"]),
        request: |number| (REQUEST.make)(number.into()),
    },
];

const ZONE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/dns/example.zone");
const REQUEST: Request = DNS;

const ALL: Rules = Rules { lose: 50, double: 50, delay: 100, ..QUIET };

pub const CONDITIONS: [(&str, Device, Rules); 7] = [
    ("none", Device::Checksums, QUIET),
    ("device without checksum offload", Device::Plain, QUIET),
    ("5 % loss", Device::Checksums, Rules { lose: 50, ..QUIET }),
    ("5 % duplication", Device::Checksums, Rules { double: 50, ..QUIET }),
    ("10 % reordered", Device::Checksums, Rules { delay: 100, ..QUIET }),
    ("all three, batches whole on the link", Device::Segmentation, ALL),
    ("firewall that rejects 1 in 10", Device::Checksums, Rules { reject: 100, ..QUIET }),
];

/// Requests of a round.
const COUNT: u16 = 2_048;
/// How many requests are sent before waiting for answers.
const WINDOW: u16 = 64;

/// A request of `len` bytes that begins with its number.
fn numbered(number: u16, len: usize) -> Vec<u8> {
    let mut bytes = payload(number.into(), len);
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub requests: u64,
    pub answers: u64,
    pub lost_by_network: u64,
    pub doubled_by_network: u64,
    pub lost: u64,
    pub doubled: u64,
}

impl Outcome {
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.answers += other.answers;
        self.lost_by_network += other.lost_by_network;
        self.doubled_by_network += other.doubled_by_network;
        self.lost += other.lost;
        self.doubled += other.doubled;
    }
}

/// Sends requests to the program under these rules, and accounts for every request and answer.
pub fn round(
    world: &World,
    client: &UdpSocket,
    request: fn(u16) -> Vec<u8>,
    rules: Rules,
    seed: u64,
) -> Outcome {
    let addr = client.peer_addr().expect("it is connected");
    client.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    world.link.begin(rules, addr.port(), seed);
    let mut answered = vec![0u8; 1 << 16];
    for first in (0..COUNT).step_by(WINDOW.into()) {
        for number in first..first + WINDOW {
            ask(client, &request(number));
        }
        answers(world, client, u64::from(first + WINDOW), &mut answered);
    }
    // A last request after which all surplus answers have arrived.
    world.link.set_rules(|rules| *rules = QUIET);
    ask(client, &request(COUNT));
    answers(world, client, u64::from(COUNT) + 1, &mut answered);
    let tallies = [Way::ToServer, Way::ToClient].map(|way| world.link.tally(way));
    account(&tallies, &answered)
}

fn account([there, back]: &[Tally; 2], answered: &[u8]) -> Outcome {
    let mut outcome = Outcome {
        lost_by_network: there.lost + back.lost,
        doubled_by_network: there.doubled + back.doubled,
        ..Outcome::default()
    };
    for (number, answers) in answered[..COUNT.into()].iter().enumerate() {
        outcome.requests += u64::from(there.seen[number]);
        outcome.answers += u64::from(*answers);
        // Between program and link, and between link and client.
        let pairs = [(there.passed[number], back.seen[number]), (back.passed[number], *answers)];
        for (expected, came) in pairs {
            outcome.lost += u64::from(expected.saturating_sub(came));
            outcome.doubled += u64::from(came.saturating_sub(expected));
        }
    }
    outcome
}

/// Starts a program on the server.
pub fn start(
    world: &World,
    path: PathBuf,
    args: impl Fn(SocketAddr) -> Vec<String> + Send + Sync,
    port: u16,
) -> (Program, SocketAddr) {
    let at = SocketAddr::new(world.family.server(), port);
    let program = world.server.enter(|| Program::start(&path, args(at)));
    let line = program.line();
    let said = line.strip_prefix("listening on ").expect("the first line says where");
    (program, said.parse().expect("an address and a port"))
}

/// Sends a request, again if it meets an ICMP error about an earlier one.
fn ask(client: &UdpSocket, request: &[u8]) {
    while let Err(error) = client.send(request) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{error}");
    }
}

/// Receives until the link has seen `asked` requests, each passed request is answered and each passed answer is here.
/// Gives up after so long that one must be lost.
fn answers(world: &World, client: &UdpSocket, asked: u64, answered: &mut [u8]) {
    let (mut buffer, begin) = (vec![0; 65_535], Instant::now());
    let mut received: u64 = answered.iter().map(|count| u64::from(*count)).sum();
    loop {
        if let Ok(2..) = client.recv(&mut buffer) {
            answered[usize::from(u16::from_be_bytes([buffer[0], buffer[1]]))] += 1;
            received += 1;
            continue;
        }
        let is_complete = world.link.wait_for(Duration::from_millis(20), |[there, back]| {
            let is_answered = |(asked, seen): (&u8, &u8)| asked <= seen;
            let all = there.passed.iter().zip(&back.seen).all(is_answered);
            there.datagrams >= asked && all && received >= back.all_passed()
        });
        if is_complete || begin.elapsed() > TIME_LIMIT {
            return;
        }
    }
}

/// The QUIC server, and its client that asks for bytes.
pub struct Quic {
    pub server: Program,
    program: PathBuf,
    addr: SocketAddr,
}

impl Quic {
    pub fn start(world: &World) -> Option<Self> {
        let program = find("quic")?;
        let serve = |at: SocketAddr| words(&["serve", &at.to_string()]);
        let (server, addr) = start(world, program.clone(), serve, 7_000);
        Some(Self { server, program, addr })
    }

    /// Asks for a mebibyte, which must arrive whole. Returns the link's counts: datagrams, lost, duplicated.
    pub fn get(&self, world: &World, condition: &str, rules: Rules, seed: u64) -> [u64; 3] {
        world.link.begin(rules, self.addr.port(), seed);
        let args = words(&["load", &self.addr.to_string(), "--bytes", "1048576"]);
        let program = &self.program;
        let ended = world.client.enter(|| Program::start(program, args)).wait();
        assert_eq!(ended.status, Some(0), "{condition}: {ended:?}");
        let tallies = [Way::ToServer, Way::ToClient].map(|way| world.link.tally(way));
        let sum = |count: fn(&Tally) -> u64| tallies.iter().map(count).sum();
        [sum(|tally| tally.datagrams), sum(|tally| tally.lost), sum(|tally| tally.doubled)]
    }
}

pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

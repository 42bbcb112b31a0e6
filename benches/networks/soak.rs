//! All programs at once behind the network for minutes: each datagram is accounted for, and no program gains memory,
//! descriptors or threads.
//!
//! ```text
//! cargo build --release --workspace --all-features --bins --examples &&
//! SOAK_SECONDS=60 cargo test --release -p networks -- --ignored --nocapture soak::
//! ```

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::programs::{CONDITIONS, Case, Outcome, PROGRAMS, Quic, round, start};
use crate::running::{Program, find};
use crate::tun::Device;
use crate::world::{Family, World};

/// Growth of resident memory that is no leak: pages used for the first time, and memory that the allocator keeps.
const SLACK_KIB: u64 = 2_048;

/// The resources of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
}

impl Usage {
    fn of(program: &Program) -> Self {
        let process = PathBuf::from(format!("/proc/{}", program.child.id()));
        let status = fs::read_to_string(process.join("status")).expect("the program runs");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let words = line.and_then(|line| line.split_whitespace().next());
            words.and_then(|number| number.parse().ok()).expect("Linux has it")
        };
        let descriptors = fs::read_dir(process.join("fd")).expect("the program runs").count();
        Self {
            resident_kib: number("VmRSS:"),
            descriptors: descriptors as u64,
            threads: number("Threads:"),
        }
    }

    fn most(self, other: Self) -> Self {
        Self {
            resident_kib: self.resident_kib.max(other.resident_kib),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
        }
    }
}

/// A program's highest usage in the first tenth of the time and afterwards.
struct Watch {
    begin: Instant,
    time: Duration,
    usage: [Usage; 2],
}

impl Watch {
    fn new(time: Duration) -> Self {
        Self { begin: Instant::now(), time, usage: Default::default() }
    }

    /// Records the program's usage. Returns whether the time is over.
    fn look(&mut self, program: &Program) -> bool {
        let period = usize::from(self.begin.elapsed() > self.time / 10);
        self.usage[period] = self.usage[period].most(Usage::of(program));
        self.begin.elapsed() > self.time
    }

    /// The usage as text.
    fn words(&self) -> String {
        let [first, later] = self.usage;
        format!(
            "resident {} -> {} KiB, descriptors {} -> {}, threads {} -> {}",
            first.resident_kib,
            later.resident_kib,
            first.descriptors,
            later.descriptors,
            first.threads,
            later.threads,
        )
    }

    fn check(&self, name: &str) {
        let ([first, later], words) = (self.usage, self.words());
        assert!(later.resident_kib <= first.resident_kib + SLACK_KIB, "{name}: {words}");
        assert!(later.descriptors <= first.descriptors, "{name}: {words}");
        assert!(later.threads <= first.threads, "{name}: {words}");
    }
}

#[test]
#[ignore = "takes half an hour"]
fn every_program_keeps_its_memory_and_loses_nothing_for_minutes() {
    let seconds = std::env::var("SOAK_SECONDS").ok().map(|text| text.parse().expect("a number"));
    let time = Duration::from_secs(seconds.unwrap_or(1_800));
    thread::scope(|scope| {
        for case in &PROGRAMS {
            scope.spawn(move || ask(case, time));
        }
        scope.spawn(move || fetch(time));
    });
}

/// Sends requests to one of the programs, round after round.
fn ask(case: &Case, time: Duration) {
    let Some(program) = find(case.program) else { return };
    let Some(world) = World::new(case.name, Device::Segmentation, case.family) else { return };
    let (program, addr) = start(&world, program, case.args, 7_000);
    let client = world.client_socket(addr);
    // The first request opens resources that stay open.
    round(&world, &client, case.request, CONDITIONS[0].2, 0);
    let (mut all, mut rounds, mut watch) = (Outcome::default(), 0, Watch::new(time));
    while !watch.look(&program) {
        let (condition, _, rules) = CONDITIONS[rounds % CONDITIONS.len()];
        let outcome = round(&world, &client, case.request, rules, rounds as u64);
        assert_eq!((outcome.lost, outcome.doubled), (0, 0), "{} over {condition}", case.name);
        all.add(&outcome);
        rounds += 1;
    }
    println!(
        "{}: {rounds} rounds, {} requests, {} answers; lost by the network {}, doubled by it {}; \
         lost by the program 0, doubled by it 0; {}",
        case.name,
        all.requests,
        all.answers,
        all.lost_by_network,
        all.doubled_by_network,
        watch.words(),
    );
    watch.check(case.name);
}

/// Asks for bytes over QUIC again and again.
fn fetch(time: Duration) {
    let Some(world) = World::new("quic", Device::Segmentation, Family::V6) else { return };
    let Some(quic) = Quic::start(&world) else { return };
    let [mut datagrams, mut lost, mut doubled] = [0; 3];
    let (mut transfers, mut watch) = (0, Watch::new(time));
    while !watch.look(&quic.server) {
        let (condition, _, rules) = CONDITIONS[transfers % CONDITIONS.len()];
        let counts = quic.get(&world, condition, rules, transfers as u64);
        datagrams += counts[0];
        lost += counts[1];
        doubled += counts[2];
        transfers += 1;
    }
    println!(
        "`quic`: {transfers} transfers of a mebibyte, all whole, in {datagrams} datagrams; lost by the network \
         {lost}, doubled by it {doubled}; {}",
        watch.words(),
    );
    watch.check("quic");
}

//! All ways take turns of a few milliseconds, and another one begins each round. All loads take turns, too: a slow
//! phase of the machine then meets some rounds of many loads, not all rounds of one.

use std::io;
use std::time::{Duration, Instant};

use crate::Extent;
use crate::counting::counted;
use crate::load::Load;
use crate::peers::{self, Turn};
use crate::process::Clock;
use crate::tables::Tables;

/// How long a turn takes.
const SLICE: Duration = Duration::from_millis(2);
/// Calls of a turn whose allocations are counted.
const COUNTED: usize = 50;

struct Contender {
    way: &'static str,
    turn: Turn,
    /// Calls that fill a slice.
    times: usize,
    /// Datagrams per call.
    datagrams: usize,
}

/// Measures and prints every load. Returns false if a way of this crate allocated.
pub fn run(loads: &[Load], extent: Extent, tables: &mut Tables) -> io::Result<bool> {
    let (passes, rounds) = match extent {
        Extent::Test => (1, 1),
        Extent::Quick => (3, 5),
        Extent::Full => (5, 20),
    };
    let mut frugal = true;
    let mut cpu_times = vec![Vec::new(); loads.len()];
    let in_turn = (0..passes).flat_map(|pass| loads.iter().enumerate().map(move |l| (pass, l)));
    for (pass, (number, load)) in in_turn {
        let mut contenders: Vec<_> =
            peers::names(load).iter().filter_map(|way| Contender::new(way, load, extent)).collect();
        for contender in &mut contenders {
            let (way, allocations) = (contender.way, contender.allocations());
            if pass == 0 {
                tables.allocated(load, way, allocations)?;
            }
            if way.starts_with("mmsg") && allocations > 0 {
                eprintln!("{way} allocates {allocations} times in {COUNTED} turns of {load:?}");
                frugal = false;
            }
        }
        let times = measure(&mut contenders, rounds);
        let cpu_times = &mut cpu_times[number];
        cpu_times.resize(contenders.len(), Vec::new());
        for ((contender, times), cpu_times) in contenders.iter().zip(&times).zip(&mut *cpu_times) {
            for (round, ns) in times.iter().enumerate() {
                tables.time(load, contender.way, pass * rounds + round, *ns)?;
                cpu_times.push(ns[0]);
            }
        }
        if extent != Extent::Test && pass + 1 == passes {
            tell(load, &contenders, cpu_times);
        }
    }
    if extent == Extent::Test {
        println!("{} loads, each by all of its ways: every datagram arrived", loads.len());
    }
    Ok(frugal)
}

/// CPU and elapsed time of each contender in each round, ns per datagram.
fn measure(contenders: &mut [Contender], rounds: usize) -> Vec<Vec<[f64; 2]>> {
    let mut times = vec![Vec::with_capacity(rounds); contenders.len()];
    for round in 0..rounds {
        for step in 0..contenders.len() {
            // Every other round reverses the order, so that no way always follows the same one.
            let step = if round % 2 == 0 { step } else { contenders.len() - 1 - step };
            let i = (step + round / 2) % contenders.len();
            times[i].push(contenders[i].slice());
        }
    }
    times
}

impl Contender {
    fn new(way: &'static str, load: &Load, extent: Extent) -> Option<Self> {
        let mut turn = peers::turn(way, load)?;
        // A queue has two stages, which grow in their first turns.
        (0..4).for_each(|_| turn(true));
        let mut times = 1;
        if extent != Extent::Test {
            // First warm the caches, then count.
            (0..10).for_each(|_| turn(false));
            let begin = Instant::now();
            let mut done = 0;
            while begin.elapsed() < SLICE {
                turn(false);
                done += 1;
            }
            times = done;
        }
        Some(Self { way, turn, times, datagrams: load.datagrams() })
    }

    fn allocations(&mut self) -> usize {
        let (_, counts) = counted(|| (0..COUNTED).for_each(|_| (self.turn)(false)));
        counts.allocations
    }

    fn slice(&mut self) -> [f64; 2] {
        let (begin, clock) = (Instant::now(), Clock::start());
        (0..self.times).for_each(|_| (self.turn)(false));
        let (cpu, wall) = (clock.elapsed(), begin.elapsed());
        let datagrams = (self.times * self.datagrams) as f64;
        [cpu, wall].map(|time| time.as_nanos() as f64 / datagrams)
    }
}

/// One side of `benches/compare/xnet/compare.sh`, which repeats x/net's own benchmark. Prints way, size of the
/// batch, and per datagram: elapsed time, CPU time, allocations. The Go program prints the same.
pub fn beside_xnet(milliseconds: u64) -> io::Result<()> {
    for size in (0..=9).map(|power| 1 << power) {
        for way in ["mmsg RecvMsg", "mmsg RecvBatch", "mmsg Offload"] {
            let contender = Contender::new(way, &Load::new("batch", 15, size), Extent::Test);
            let mut turn = contender.expect("no way needs metadata").turn;
            (0..3).for_each(|_| turn(false));
            let (begin, cpu) = (Instant::now(), Clock::start());
            let (mut datagrams, slice) = (0, Duration::from_millis(milliseconds));
            let (_, counts) = counted(|| {
                loop {
                    turn(false);
                    datagrams += size;
                    if begin.elapsed() >= slice {
                        break;
                    }
                }
            });
            let each = |total: f64| total / datagrams as f64;
            let [wall, cpu] = [begin.elapsed(), cpu.elapsed()].map(|t| each(t.as_nanos() as f64));
            println!("{way},{size},{wall:.1},{cpu:.1},{:.3}", each(counts.allocations as f64));
        }
    }
    Ok(())
}

/// Prints the median CPU times.
fn tell(load: &Load, contenders: &[Contender], cpu_times: &mut [Vec<f64>]) {
    let Load { workload, payload, dests, each, slots, metadata, .. } = load;
    let meta = if *metadata { ", ECN and destination" } else { "" };
    println!("{workload}: {dests} x {each} x {payload} B, {slots} slots{meta} (ns per datagram)");
    for (contender, cpu) in contenders.iter().zip(cpu_times) {
        cpu.sort_by(f64::total_cmp);
        println!("    {:16} {:9.1}", contender.way, cpu[cpu.len() / 2]);
    }
}

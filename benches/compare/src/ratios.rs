//! Measures the promises that are ratios.
//!
//! Two sides take many turns of a few milliseconds. Each pair of turns gives a ratio of CPU times. Other load of the
//! machine meets both sides of a pair, so the median ratio is stable where times are not; quartiles show the
//! spread. A row over its promise is marked, but does not fail the run.
//!
//! `compare ratios ready send_each 'x 64 x 15 B'` measures the rows whose names contain all of these.

use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use mmsg::{BatchSocket, SendMsg, SendQueue};

use crate::load::{self, Load};
use crate::peers::one::SendOne;
use crate::process::Clock;
use crate::{peers, wire};

/// Datagrams per turn of about two milliseconds.
const TURN: usize = 2048;
/// Pairs of turns.
const PAIRS: usize = 200;
/// Datagrams per turn with GSO.
const SEGMENTED_TURN: usize = 16_384;

/// A turn of one side, which returns its time. With true, it compares received datagrams with sent ones instead,
/// where it can.
type Side = Box<dyn FnMut(bool) -> Duration>;

struct Row {
    name: String,
    /// The highest ratio that keeps the promise.
    promise: Option<f64>,
    pairs: usize,
    /// Datagrams per turn of each side.
    datagrams: [usize; 2],
    sides: Box<dyn FnOnce() -> [Side; 2]>,
}

pub fn run(filters: &[String], test: bool) -> io::Result<()> {
    let mut rows = all(wire::capacity()?);
    rows.retain(|row| filters.iter().all(|filter| row.name.contains(filter)));
    if test {
        let count = rows.len();
        rows.into_iter().flat_map(|row| (row.sides)()).for_each(|mut side| _ = side(true));
        println!("both sides of {count} ratios took a turn; all datagrams arrived unchanged");
        return Ok(());
    }
    let [promised, ratio] = ["promised", "ratio"];
    println!("{:72} {promised:>9} {ratio:>7}  {:15} {:>15}", "", "quartiles", "ns per datagram");
    rows.into_iter().for_each(measure);
    Ok(())
}

fn all(capacity: usize) -> Vec<Row> {
    let load = |each, payload| Load::new("batch", payload, each);
    let mut rows = ready();
    rows.extend(one_message());
    rows.extend(few());
    for payload in [15, 1200] {
        for batch in (3..=9).map(|power| 1 << power).filter(|batch| *batch <= capacity) {
            rows.push(of(["mmsg RecvBatch", "raw"], load(batch, payload), Some(1.03)));
            rows.push(of(["mmsg RecvMsg", "raw"], load(batch, payload), Some(1.06)));
        }
        rows.push(of(["mmsg RecvBatch", "std"], load(1, payload), Some(1.05)));
        rows.push(of(["mmsg RecvMsg", "std"], load(1, payload), Some(1.05)));
        let (small, batch) = (payload == 15, load(64, payload));
        let promise = |speed_up: f64| Some(1.0 / speed_up);
        let [found, apart] = if small { [40.0, 25.0] } else { [10.0, 8.5] };
        rows.push(of(["mmsg Offload", "std"], batch, promise(found)));
        rows.push(of(["mmsg Offload scattered", "std"], batch, promise(apart)));
        let promise = (!small).then_some(1.05);
        rows.push(of(["mmsg Offload", "raw GSO"], batch, promise));
        rows.push(of(["mmsg Offload scattered", "raw GSO scattered"], batch, promise));
    }
    // One datagram waits in 512 slots. The empty slots must cost little.
    let idle = Load { workload: "idle", slots: 512, ..load(1, 15) };
    for (way, promise) in [("mmsg RecvBatch", 1.20), ("mmsg RecvMsg", 1.30)] {
        rows.push(of([way, "std"], idle, Some(promise)));
    }
    // Many destinations: 32 with four datagrams each, and 512 with one, which make no GSO batch.
    let fan_out = Load { workload: "fan-out", dests: 32, ..load(4, 1200) };
    rows.push(of(["mmsg Offload", "raw GSO"], fan_out, Some(1.05)));
    let fan_out = Load { dests: 512, each: 1, slots: 1, ..fan_out };
    rows.push(of(["mmsg Offload", "mmsg RecvBatch"], fan_out, Some(1.02)));
    for len in [1, 8, 1_000, 10_000, 100_000, 1_000_000] {
        rows.push(queue(len));
    }
    rows
}

/// Separate payloads, beside quinn-udp with a copy; contiguous payloads, beside its segmentation.
fn ready() -> Vec<Row> {
    let mut rows = Vec::new();
    for load in load::ready() {
        let copied = if load.payload < 1200 { 1.0 } else { 0.9 };
        for way in ["mmsg list", "mmsg send_each", "mmsg queue"] {
            rows.push(of([way, "quinn-udp copied"], load, Some(copied)));
        }
        rows.push(of(["mmsg gathered", "quinn-udp copied"], load, None));
        rows.push(of(["mmsg segments", "quinn-udp GSO"], load, Some(0.95)));
        rows.push(of(["mmsg send_each", "mmsg list"], load, Some(1.0)));
        rows.push(of(["mmsg list", "raw GSO"], load, None));
        if load.metadata {
            rows.push(with_ecn("mmsg list", load, Some(1.03)));
            // The kernel's share: headers and control messages are prepared.
            rows.push(with_ecn("raw GSO", load, None));
        }
    }
    let large = Load::new("ready", 1200, 512);
    for (way, promise) in [("mmsg list", 1.03), ("mmsg send_each", 1.03), ("mmsg queue", 1.10)] {
        rows.push(of([way, "quinn-udp copied"], large, Some(promise)));
    }
    // As a queue must, it stores all payloads before it sends the first.
    rows.push(of(["mmsg queue", "quinn-udp stored"], large, Some(1.10)));
    // 32 destinations with four datagrams each, in the order a b c ... a b c ...
    let load = Load { workload: "interleaved", dests: 32, ..load::ready()[0] };
    rows.push(of(["mmsg grouped", "mmsg queue"], Load { payload: 1200, ..load }, Some(0.5)));
    rows
}

/// Sends of one message with ECN bits and a source address, as QUIC stacks make them.
fn one_message() -> Vec<Row> {
    let way = |offload: bool| if offload { "mmsg Offload" } else { "mmsg" };
    let side = |send: SendOne| -> Side {
        Box::new(move |check| {
            let begin = Clock::start();
            (0..if check { 1 } else { TURN }).for_each(|_| send());
            begin.elapsed()
        })
    };
    let row_of = |(offload, promise)| {
        let name = format!("{} / quinn-udp, one message with ECN and source", way(offload));
        row(name, Some(promise), TURN, move || {
            let ours = if offload { peers::one::by_offload() } else { peers::one::by_mmsg() };
            [ours, peers::one::by_quinn_udp()].map(side)
        })
    };
    [(false, 1.02), (true, 1.04)].map(row_of).into()
}

/// Few datagrams, from separate payloads.
fn few() -> Vec<Row> {
    let sizes = [1, 2, 4, 8, 16, 54].map(|each| (each, 1200));
    let sizes = sizes.into_iter().chain([200, 600, 1472].map(|payload| (8, payload)));
    let load = |(each, payload)| Load { slots: 16, ..Load::new("few", payload, each) };
    sizes.map(|s| of(["mmsg list", "quinn-udp copied"], load(s), Some(1.03))).collect()
}

/// A load with ECN bits beside the same load without.
fn with_ecn(way: &'static str, load: Load, promise: Option<f64>) -> Row {
    let name = format!("{way}{} / without", described(&load));
    between(name, promise, [true, false].map(|metadata| (way, Load { metadata, ..load })))
}

/// Two ways on one load.
fn of(ways: [&'static str; 2], load: Load, promise: Option<f64>) -> Row {
    let name = format!("{}{}", ways.join(" / "), described(&load));
    between(name, promise, ways.map(|way| (way, load)))
}

/// Two ways on loads with the same number of datagrams.
fn between(name: String, promise: Option<f64>, sides: [(&'static str, Load); 2]) -> Row {
    let (_, load) = sides[0];
    let segmented = ["ready", "interleaved"].contains(&load.workload);
    let turn = if segmented { SEGMENTED_TURN } else { TURN };
    let times = turn.div_ceil(load.datagrams());
    let sides = move || sides.map(|(way, load)| side(way, load, times));
    row(name, promise, times * load.datagrams(), sides)
}

fn side(way: &str, load: Load, times: usize) -> Side {
    let mut turn = peers::turn(way, &load).expect("it has every feature of the load");
    Box::new(move |check| {
        if check {
            turn(true);
            return Duration::ZERO;
        }
        let begin = Clock::start();
        (0..times).for_each(|_| turn(false));
        begin.elapsed()
    })
}

fn row(
    name: String,
    promise: Option<f64>,
    datagrams: usize,
    sides: impl FnOnce() -> [Side; 2] + 'static,
) -> Row {
    Row { name, promise, pairs: PAIRS, datagrams: [datagrams; 2], sides: Box::new(sides) }
}

fn described(load: &Load) -> String {
    let Load { workload, payload, dests, each, slots, metadata } = load;
    let ecn = if *metadata { ", ECN" } else { "" };
    match *workload {
        "ready" | "interleaved" => {
            format!(", {workload} {dests} x {each} x {payload} B{ecn}")
        }
        _ => format!(", {dests} x {each} x {payload} B, {slots} slots{ecn}"),
    }
}

/// Push and flush of many datagrams beside those of 64: a datagram's cost does not depend on the queue's
/// length.
fn queue(len: usize) -> Row {
    let lengths = [len, 64];
    let times = lengths.map(|len| (2 * TURN).div_ceil(len));
    Row {
        name: format!("queue of {len} / of 64"),
        promise: Some(1.20),
        pairs: if len > 10 * TURN { 20 } else { 200 },
        datagrams: [times[0] * len, times[1] * 64],
        sides: Box::new(move || [flushes(len, times[0]), flushes(64, times[1])]),
    }
}

/// Sends to a socket that nobody reads. The kernel drops what does not fit.
fn flushes(len: usize, times: usize) -> Side {
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    let (near, far) = (bind(), bind());
    let msg = SendMsg::to(far.local_addr().expect("it is bound"), b"fifteen bytes !");
    let mut queue = SendQueue::new(usize::MAX);
    Box::new(move |check| {
        let begin = Clock::start();
        for _ in 0..if check { 1 } else { times } {
            (0..len).for_each(|_| queue.push(&msg).expect("it has no bound"));
            while !queue.is_empty() {
                near.flush(&mut queue).expect("loopback takes them");
            }
        }
        // Keeps the socket open: a closed port answers, which costs more.
        black_box(&far);
        begin.elapsed()
    })
}

/// Takes the turns of a row and prints its ratio.
fn measure(row: Row) {
    let mut sides = (row.sides)();
    let mut times = [Vec::new(), Vec::new()];
    // The first turns allocate, also those of both stages of a queue; they are not measured.
    for _ in 0..2 {
        sides.iter_mut().for_each(|side| _ = side(false));
    }
    for pair in 0..row.pairs {
        // Each side goes first as often as the other.
        for side in [pair % 2, 1 - pair % 2] {
            let ns = sides[side](false).as_nanos() as f64;
            times[side].push(ns / row.datagrams[side] as f64);
        }
    }
    let ratios = times[0].iter().zip(&times[1]).map(|(ours, theirs)| ours / theirs).collect();
    let [low, ratio, high] = quartiles(ratios);
    let [ours, theirs] = times.map(|times| quartiles(times)[1]);
    let promised = row.promise.map_or("-".into(), |most| format!("<= {most:.3}"));
    let mark = if row.promise.is_some_and(|most| ratio > most) { "  OVER" } else { "" };
    println!(
        "{:72} {promised:>9} {ratio:7.3}  {low:.3} .. {high:.3} {ours:7.0} /{theirs:6.0}{mark}",
        row.name
    );
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

//! The goals of the comparison, and where they are missed.

use std::collections::BTreeMap;

use super::tables::{Echo, Measured, ratio};
use crate::load::Load;

/// Ratios nearer to 1 than this are ties.
pub const TIE: f64 = 0.03;
/// Ways of this crate whose system calls move one datagram in each pass through the network stack,
/// and the others of which that is true.
const OURS: [&str; 2] = ["mmsg RecvMsg", "mmsg RecvBatch"];
const THEIRS: [&str; 4] = ["std", "nix", "quinn-udp", "raw"];

/// The goals, as the page states them.
pub const GOALS: [&str; 6] = [
    "In the workloads of one thread `mmsg` takes at most the time of every other way whose kernel work is the same; within 3 % is a tie.",
    "`Offload` takes less time than quinn-udp's segmentation in bulk and in fan-out.",
    "At most 0.70 of x/net's time at every batch size, and at most 0.02 of it with `Offload` at 512.",
    "No allocations.",
    "Echo, load without GSO: at least 1.3 times the datagrams per CPU second of std and of tokio.",
    "Echo, load with GSO: at least 4 times with `Offload`.",
];

/// Missed goals: the compared ways, and the ratios with their workloads.
pub type Missed = BTreeMap<String, Vec<String>>;

/// All that fall short.
pub fn missed(measured: &Measured) -> Missed {
    let mut missed = Missed::new();
    times(measured, &mut missed);
    beside_xnet(measured, &mut missed);
    for (cell, ways) in &measured.allocations {
        for (way, n) in ways.iter().filter(|(way, n)| way.starts_with("mmsg") && **n > 0.0) {
            note(&mut missed, format!("{way} allocates"), *n, &title(cell));
        }
    }
    for (echo, rounds) in &measured.echo {
        let (ours, least) = if echo.load == "GSO" { ("mmsg Offload", 4.0) } else { ("mmsg", 1.3) };
        for other in ["std", "tokio"] {
            if let Some(ratio) = ratio(rounds, ours, other).filter(|ratio| *ratio < least) {
                let what = format!("echo, datagrams a CPU second of {ours} / {other}");
                note(&mut missed, what, ratio, &place(echo));
            }
        }
    }
    missed
}

fn note(missed: &mut Missed, what: String, ratio: f64, place: &str) {
    missed.entry(what).or_default().push(format!("{ratio:.2} {place}"));
}

fn times(measured: &Measured, missed: &mut Missed) {
    for (cell, rounds) in &measured.times {
        let mut over = |one: &str, other: &str, most: f64| {
            if let Some(ratio) = ratio(rounds, one, other).filter(|ratio| *ratio > most) {
                note(missed, format!("time of {one} / {other}"), ratio, &title(cell));
            }
        };
        for (one, other) in OURS.iter().flat_map(|one| THEIRS.map(|other| (one, other))) {
            over(one, other, 1.0 + TIE);
        }
        if ["bulk", "fan-out"].contains(&cell.workload) {
            // One datagram to each destination is no GSO batch.
            let most = if cell.each == 1 { 1.0 + TIE } else { 1.0 };
            over("mmsg Offload", "quinn-udp GSO", most);
        }
    }
}

fn beside_xnet(measured: &Measured, missed: &mut Missed) {
    for row in &measured.xnet {
        let most = match (row.way.as_str(), row.batch) {
            ("mmsg Offload", 512) => 0.02,
            ("mmsg RecvMsg" | "mmsg RecvBatch", _) => 0.70,
            _ => continue,
        };
        if row.wall_ratio > most {
            let what = format!("time of {} / x/net", row.way);
            let batch = format!("{:.3} batch of {}", row.wall_ratio, row.batch);
            missed.entry(what).or_default().push(batch);
        }
    }
}

/// The workload in words.
pub fn title(cell: &Load) -> String {
    let Load { metadata, workload, payload, dests, each, slots, .. } = cell;
    let meta = if *metadata { ", ECN and destination" } else { "" };
    match *workload {
        "batch" => format!("batch of {each}, {payload} B{meta}"),
        "bulk" => format!("bulk, {payload} B{meta}"),
        "fan-out" => format!("fan-out, {dests} x {each}, {payload} B{meta}"),
        _ => format!("one waiting of 512, {each} of {slots}, {payload} B{meta}"),
    }
}

pub fn place(echo: &Echo) -> String {
    let Echo { net, load, threads } = echo;
    let load = if load == "GSO" { "with GSO" } else { "without GSO" };
    let threads = if *threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
    format!("over {net}, {load}, {threads}")
}

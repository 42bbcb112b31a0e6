//! What the comparison is to show, and where it does not.

use super::tables::{Cell, Echo, Measured, ratio};

/// Ratios nearer to 1 than this are ties.
pub const TIE: f64 = 0.03;
/// Ways of this crate whose system calls move one datagram in each pass through the network stack,
/// and the others of which that is true.
const OURS: [&str; 2] = ["mmsg borrowed", "mmsg owned"];
const THEIRS: [&str; 4] = ["std", "nix", "quinn-udp", "raw"];

/// The goals, as the page tells them.
pub const GOALS: [&str; 7] = [
    "In the workloads of one thread `mmsg` takes at most the time of every other way whose kernel work is the same; within 3 % is a tie.",
    "`Offload` takes less time than quinn-udp's segmentation in bulk and in fan-out.",
    "At most 0.70 of x/net's time at every batch size, and at most 0.02 of it with `Offload` at 512.",
    "No allocations.",
    "Instructions a datagram: at most a third of quinn-udp's and half of nix's.",
    "Echo, load coming singly: at least 1.3 times the datagrams per CPU second of std and of tokio.",
    "Echo, load coming in trains: at least 4 times with `Offload`.",
];

/// The cells that fall short, a line each.
pub fn missed(measured: &Measured) -> Vec<String> {
    let mut missed = Vec::new();
    for (cell, rounds) in &measured.times {
        let mut over = |one: &str, other: &str, most: f64| {
            if let Some(ratio) = ratio(rounds, one, other).filter(|ratio| *ratio > most) {
                missed.push(format!("{}: {one} takes {ratio:.2} of {other}'s time", title(cell)));
            }
        };
        for (one, other) in OURS.iter().flat_map(|one| THEIRS.map(|other| (one, other))) {
            over(one, other, 1.0 + TIE);
        }
        if ["bulk", "fan-out"].contains(&cell.workload.as_str()) {
            // One datagram to each destination is no train.
            let most = if cell.each == 1 { 1.0 + TIE } else { 1.0 };
            over("mmsg Offload", "quinn-udp GSO", most);
        }
    }
    for row in measured.xnet.iter().filter(|row| row.way.starts_with("mmsg")) {
        let offloaded = row.way == "mmsg Offload" && row.batch == 512;
        let most = if offloaded { 0.02 } else { 0.70 };
        if row.wall_ratio > most {
            let (batch, way, ratio) = (row.batch, &row.way, row.wall_ratio);
            missed.push(format!("batch of {batch}: {way} takes {ratio:.3} of x/net's time"));
        }
    }
    for (cell, ways) in &measured.allocations {
        let ours = ways.iter().filter(|(way, n)| way.starts_with("mmsg") && **n > 0.0);
        missed.extend(ours.map(|(way, n)| format!("{}: {way} allocates {n:.3}", title(cell))));
    }
    instructions(measured, &mut missed);
    for (echo, rounds) in &measured.echo {
        let (ours, least) =
            if echo.load == "trains" { ("mmsg Offload", 4.0) } else { ("mmsg", 1.3) };
        for other in ["std", "tokio"] {
            if let Some(ratio) = ratio(rounds, ours, other).filter(|ratio| *ratio < least) {
                let place = place(echo);
                missed
                    .push(format!("echo {place}: {ours} does {ratio:.2} times what {other} does"));
            }
        }
    }
    missed
}

fn instructions(measured: &Measured, missed: &mut Vec<String>) {
    let count = |told, way: &str| measured.instructions.get(&(told, way.to_string())).copied();
    let pairs = [
        ("mmsg borrowed", "quinn-udp", 3.0),
        ("mmsg owned", "quinn-udp", 3.0),
        ("mmsg borrowed", "nix", 2.0),
        ("mmsg owned", "nix", 2.0),
        ("mmsg Offload", "quinn-udp GSO", 3.0),
    ];
    for told in [false, true] {
        for (ours, theirs, times) in pairs {
            let (Some(a), Some(b)) = (count(told, ours), count(told, theirs)) else { continue };
            if a * times > b {
                let part = a / b;
                let told = if told { "with metadata" } else { "without metadata" };
                missed.push(format!("instructions {told}: {ours} takes {part:.2} of {theirs}'s"));
            }
        }
    }
}

/// What is moved, in words.
pub fn title(cell: &Cell) -> String {
    let Cell { told, workload, payload, dests, each, slots } = cell;
    let told = if *told { ", ECN and destination" } else { "" };
    match workload.as_str() {
        "batch" => format!("batch of {each}, {payload} B{told}"),
        "bulk" => format!("bulk, {payload} B{told}"),
        "fan-out" => format!("fan-out, {dests} x {each}, {payload} B{told}"),
        _ => format!("nearly idle, {each} of {slots}, {payload} B{told}"),
    }
}

pub fn place(echo: &Echo) -> String {
    let Echo { net, load, threads } = echo;
    let load = if load == "trains" { "in trains" } else { "singly" };
    let threads = if *threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
    format!("over {net}, {load}, {threads}")
}

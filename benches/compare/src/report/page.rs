//! The page.

use std::fmt::Write;
use std::io;

use super::about;
use super::charts::Chart;
use super::goals::{self, TIE};
use crate::peers::{READY, WAYS};

use super::tables::{Measured, Rounds, middle, ratio};
use crate::load::Load;

/// The columns of each row: our way, and the way it is compared with.
const RATIOS: [(&str, &str); 10] = [
    ("mmsg RecvMsg", "std"),
    ("mmsg RecvMsg", "nix"),
    ("mmsg RecvMsg", "quinn-udp"),
    ("mmsg RecvMsg", "raw"),
    ("mmsg RecvBatch", "std"),
    ("mmsg RecvBatch", "nix"),
    ("mmsg RecvBatch", "quinn-udp"),
    ("mmsg RecvBatch", "raw"),
    ("mmsg Offload", "quinn-udp GSO"),
    ("mmsg Offload", "raw GSO"),
];

pub fn text(measured: &Measured, charts: &[Chart]) -> io::Result<String> {
    let mut page = String::from(include_str!("head.md"));
    for line in about::lines(measured) {
        add(&mut page, &format!("- {line}"));
    }
    for chart in charts {
        add(&mut page, &format!("\n![{}]({})", chart.says, chart.file));
    }
    ready(&mut page, measured);
    one_thread(&mut page, measured);
    echo(&mut page, measured);
    xnet(&mut page, measured);
    goals(&mut page, measured);
    Ok(page)
}

fn add(page: &mut String, line: &str) {
    page.push_str(line);
    page.push('\n');
}

/// A table: the head, then rows. The first column is text, the others are numbers.
fn table(page: &mut String, head: &[String], rows: impl IntoIterator<Item = Vec<String>>) {
    add(page, "");
    add(page, &format!("| {} |", head.join(" | ")));
    add(page, &format!("|---|{}", "---:|".repeat(head.len() - 1)));
    for row in rows {
        add(page, &format!("| {} |", row.join(" | ")));
    }
}

/// The names of all columns but the first.
fn head(names: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
    let names = names.into_iter().map(|name| name.to_string());
    [String::new()].into_iter().chain(names).collect()
}

fn asked(meta: bool) -> &'static str {
    if meta { ", ECN and destination" } else { "" }
}

/// The first table: separate datagrams to one destination.
fn ready(page: &mut String, measured: &Measured) {
    const RATIOS: [(&str, &str); 6] = [
        ("mmsg list", "quinn-udp copied"),
        ("mmsg send_each", "quinn-udp copied"),
        ("mmsg queue", "quinn-udp copied"),
        ("mmsg gathered", "quinn-udp copied"),
        ("mmsg segments", "quinn-udp GSO"),
        ("mmsg send_each", "mmsg list"),
    ];
    page.push_str(include_str!("ready.md"));
    for meta in [false, true] {
        let chosen = |(cell, _): &(&Load, _)| cell.workload == "ready" && cell.metadata == meta;
        let chosen: Vec<_> = measured.times.iter().filter(chosen).collect();
        let name = |cell: &Load| format!("{} B x {}", cell.payload, cell.each);
        add(page, &format!("\nNanoseconds a datagram{}:", asked(meta)));
        table(
            page,
            &head(READY),
            chosen.iter().map(|(cell, rounds)| times(name(cell), rounds, &READY, 1)),
        );
        ratios(page, &RATIOS, &chosen, name);
    }
}

fn one_thread(page: &mut String, measured: &Measured) {
    for meta in [false, true] {
        for payload in [15, 1200] {
            add(page, &format!("\n## Batches of {payload} bytes{}", asked(meta)));
            let chosen = |cell: &Load| {
                cell.workload == "batch" && cell.payload == payload && cell.metadata == meta
            };
            cells(page, measured, chosen, |cell| cell.each.to_string());
        }
    }
    for meta in [false, true] {
        add(page, &format!("\n## Bulk, fan-out, one waiting of 512{}", asked(meta)));
        let chosen =
            |cell: &Load| !["batch", "ready"].contains(&cell.workload) && cell.metadata == meta;
        cells(page, measured, chosen, |cell| goals::title(&Load { metadata: false, ..*cell }));
        if let Some((cell, rounds)) =
            measured.times.iter().find(|(cell, _)| cell.workload == "bulk" && cell.metadata == meta)
        {
            bulk(page, cell, rounds);
        }
    }
}

/// Times, allocations and ratios of some cells.
fn cells(
    page: &mut String,
    measured: &Measured,
    chosen: impl Fn(&Load) -> bool,
    name: impl Fn(&Load) -> String,
) {
    let chosen: Vec<_> = measured.times.iter().filter(|(cell, _)| chosen(cell)).collect();
    let rows = chosen.iter().map(|(cell, rounds)| times(name(cell), rounds, &WAYS, 0));
    let mut rows: Vec<_> = rows.collect();
    let most = |way: &str| {
        let of = |(cell, _): &(&Load, &Rounds)| measured.allocations.get(cell)?.get(way).copied();
        chosen.iter().filter_map(of).reduce(f64::max)
    };
    let allocations = WAYS.map(|way| number(most(way), 0));
    rows.push(["allocations, at most".into()].into_iter().chain(allocations).collect());
    add(page, "\nNanoseconds a datagram:");
    table(page, &head(WAYS), rows);
    ratios(page, &RATIOS, &chosen, name);
}

/// A row: its name, and the times of the ways with this number of decimals.
fn times(name: String, rounds: &Rounds, ways: &[&str], places: usize) -> Vec<String> {
    let times = ways.iter().map(|way| number(middle(rounds, way), places));
    [name].into_iter().chain(times).collect()
}

fn ratios(
    page: &mut String,
    pairs: &[(&str, &str)],
    chosen: &[(&Load, &Rounds)],
    name: impl Fn(&Load) -> String,
) {
    add(page, "\nTime of the first by that of the second:");
    let rows = chosen.iter().map(|(cell, rounds)| {
        let ratios = pairs.iter().map(|(one, other)| judged(ratio(rounds, one, other)));
        [name(cell)].into_iter().chain(ratios).collect()
    });
    table(page, &head(pairs.iter().map(|(one, other)| format!("{one} / {other}"))), rows);
}

fn bulk(page: &mut String, cell: &Load, rounds: &Rounds) {
    let mut line = String::from("\n10 MiB in bulk take");
    for (i, way) in WAYS.into_iter().enumerate() {
        if let Some(ns) = middle(rounds, way) {
            let comma = if i == 0 { "" } else { "," };
            let milliseconds = ns * (10 << 20) as f64 / cell.payload as f64 / 1e6;
            let _ = write!(line, "{comma} {milliseconds:.1} ms by {way}");
        }
    }
    add(page, &format!("{}.", line.replacen("take,", "take", 1)));
}

fn echo(page: &mut String, measured: &Measured) {
    page.push_str(include_str!("echo.md"));
    let ways = ["std", "tokio", "mmsg", "mmsg Offload"];
    let pairs = ["mmsg", "mmsg Offload"].map(|ours| [(ours, "std"), (ours, "tokio")]);
    let rows = measured.echo.iter().map(|(echo, rounds)| {
        let mut row = times(goals::place(echo), rounds, &ways, 0);
        let ratio = |(one, other): &(&str, &str)| number(ratio(rounds, one, other), 2);
        row.extend(pairs.as_flattened().iter().map(ratio));
        let (lost, all) = measured.lost.get(echo).copied().unwrap_or_default();
        row.push(if lost == 0.0 { "0".into() } else { format!("{:.3} %", 100.0 * lost / all) });
        row
    });
    let names = ["mmsg / std", "mmsg / tokio", "Offload / std", "Offload / tokio", "lost"];
    table(page, &head(ways.into_iter().chain(names)), rows);
}

fn xnet(page: &mut String, measured: &Measured) {
    page.push_str(include_str!("xnet.md"));
    if measured.xnet.is_empty() {
        add(page, "\nNot measured: there was no Go, or it could not get the module.");
        return;
    }
    let rows = measured.xnet.iter().map(|row| {
        vec![
            format!("{} x 15 B, {}", row.batch, row.way),
            number(Some(row.wall), 0),
            format!("{:.3}", row.wall_ratio),
            format!("{:.3}", row.cpu_ratio),
            number(Some(row.allocations), 0),
        ]
    });
    let names = ["ns a datagram", "of x/net's time", "of its processors' time", "allocations"];
    table(page, &head(names), rows);
}

fn goals(page: &mut String, measured: &Measured) {
    add(page, "\n## Targets, and where they are missed\n");
    for goal in goals::GOALS {
        add(page, &format!("- {goal}"));
    }
    let missed = goals::missed(measured);
    if missed.is_empty() {
        add(page, "\nAll of this is so in this run.");
        return;
    }
    add(page, "\nShort of it, in this run:\n");
    for (what, places) in missed {
        add(page, &format!("- {what}: {}", places.join("; ")));
    }
    add(page, &format!("\n{}", include_str!("notes.md").trim_end()));
}

/// With this number of decimals; values under 10 have one or two more.
fn number(value: Option<f64>, places: usize) -> String {
    match value {
        None => "–".into(),
        Some(0.0) => "0".into(),
        Some(value) if places == 0 && value < 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.places$}"),
    }
}

/// Ahead, a tie, or behind.
fn judged(ratio: Option<f64>) -> String {
    match ratio {
        None => "–".into(),
        Some(ratio) if (ratio - 1.0).abs() <= TIE => format!("tie {ratio:.2}"),
        Some(ratio) if ratio > 1.0 => format!("**{ratio:.2}**"),
        Some(ratio) => format!("{ratio:.2}"),
    }
}

//! The page with every table.

use super::goals::{self, TIE};
use super::markdown::{about, or_dash, table};
use super::tables::{Measured, Rounds, middle, ratio};
use crate::load::Load;
use crate::peers::{READY, WAYS};

/// Columns of ratios: a way, and the way to compare it with.
type Pairs = [(&'static str, &'static str)];
const WAY_PAIRS: [(&str, &str); 10] = [
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
const READY_PAIRS: [(&str, &str); 6] = [
    ("mmsg list", "quinn-udp copied"),
    ("mmsg send_each", "quinn-udp copied"),
    ("mmsg queue", "quinn-udp copied"),
    ("mmsg gathered", "quinn-udp copied"),
    ("mmsg segments", "quinn-udp GSO"),
    ("mmsg send_each", "mmsg list"),
];

pub fn text(measured: &Measured) -> String {
    let mut page = include_str!("record.md").replace("VERSION", measured.version());
    page.push_str(&about(measured));
    page.push_str(include_str!("ready.md"));
    for meta in [false, true] {
        let chosen = |load: &Load| load.workload == "ready" && load.metadata == meta;
        let name = |load: &Load| format!("{} B x {}", load.payload, load.each);
        times(&mut page, measured, meta, (&READY, 1), &READY_PAIRS, chosen, name);
    }
    for meta in [false, true] {
        for payload in [15, 1200] {
            page.push_str(&format!("\n## Batches of {payload} bytes{}\n", with(meta)));
            let chosen = |load: &Load| {
                (load.workload, load.payload, load.metadata) == ("batch", payload, meta)
            };
            let name = |load: &Load| load.each.to_string();
            times(&mut page, measured, meta, (&WAYS, 0), &WAY_PAIRS, chosen, name);
        }
    }
    for meta in [false, true] {
        page.push_str(&format!("\n## Bulk, fan-out, one waiting of 512{}\n", with(meta)));
        let chosen =
            |load: &Load| !["batch", "ready"].contains(&load.workload) && load.metadata == meta;
        let name = |load: &Load| goals::title(&Load { metadata: false, ..*load });
        times(&mut page, measured, meta, (&WAYS, 0), &WAY_PAIRS, chosen, name);
    }
    echo(&mut page, measured);
    xnet(&mut page, measured);
    page
}

fn with(meta: bool) -> &'static str {
    if meta { ", ECN and destination" } else { "" }
}

/// Two tables: the times of the chosen loads with `places` decimals, and the ratios of `pairs`.
fn times(
    page: &mut String,
    measured: &Measured,
    meta: bool,
    (ways, places): (&[&str], usize),
    pairs: &Pairs,
    chosen: impl Fn(&Load) -> bool,
    name: impl Fn(&Load) -> String,
) {
    let chosen: Vec<_> = measured.times.iter().filter(|(load, _)| chosen(load)).collect();
    let rows = |cells: &dyn Fn(&Rounds) -> Vec<String>| -> Vec<Vec<String>> {
        let row = |(load, rounds): &(&Load, &Rounds)| [vec![name(load)], cells(rounds)].concat();
        chosen.iter().map(row).collect()
    };
    let time = |rounds: &Rounds, way| or_dash(middle(rounds, way), |ns| format!("{ns:.places$}"));
    let times = rows(&|rounds| ways.iter().map(|way| time(rounds, way)).collect());
    let head = [&["load"], ways].concat();
    table(page, &format!("CPU time, ns per datagram{}", with(meta)), &head, times);
    let ratio = |rounds: &Rounds, one, other| or_dash(ratio(rounds, one, other), judged);
    let ratios =
        rows(&|rounds| pairs.iter().map(|(one, other)| ratio(rounds, one, other)).collect());
    let names = pairs.iter().map(|(one, other)| format!("{one} / {other}"));
    let head: Vec<_> = [String::from("load")].into_iter().chain(names).collect();
    table(page, &format!("Ratio of CPU times{}", with(meta)), &head, ratios);
}

fn echo(page: &mut String, measured: &Measured) {
    page.push_str(include_str!("echo.md"));
    let ways = ["std", "tokio", "mmsg", "mmsg Offload"];
    let pairs = ["mmsg", "mmsg Offload"].map(|ours| [(ours, "std"), (ours, "tokio")]);
    let rows = measured.echo.iter().map(|(echo, rounds)| {
        let rates =
            ways.iter().map(|way| or_dash(middle(rounds, way), |rate| format!("{rate:.0}")));
        let ratios = pairs.as_flattened().iter();
        let ratios = ratios.map(|(one, other)| ratio(rounds, one, other));
        let ratios = ratios.map(|ratio| or_dash(ratio, |ratio| format!("{ratio:.2}")));
        let (lost, all) = measured.lost.get(echo).copied().unwrap_or_default();
        let lost = if lost == 0.0 { "0".into() } else { format!("{:.3} %", 100.0 * lost / all) };
        [goals::place(echo)].into_iter().chain(rates).chain(ratios).chain([lost]).collect()
    });
    let names = ["mmsg / std", "mmsg / tokio", "Offload / std", "Offload / tokio", "lost"];
    let head = [&["load"], &ways[..], &names].concat();
    table(page, "Echoed datagrams per CPU second, and ratios", &head, rows);
}

fn xnet(page: &mut String, measured: &Measured) {
    page.push_str(include_str!("xnet.md"));
    if measured.xnet.is_empty() {
        page.push_str("\nNot measured: Go or the module was missing.\n");
        return;
    }
    let rows = measured.xnet.iter().map(|row| {
        let load = format!("{} x 15 B, {}", row.batch, row.way);
        let [wall, cpu] = [row.wall_ratio, row.cpu_ratio].map(|ratio| format!("{ratio:.3}"));
        let allocations = format!("{:.2}", row.allocations).replace("0.00", "0");
        vec![load, format!("{:.0}", row.wall), wall, cpu, allocations]
    });
    let head = ["load", "ns per datagram", "ratio to x/net", "CPU time, ratio", "allocations"];
    table(page, "Elapsed time, ratios to x/net, allocations per datagram", &head, rows);
}

/// Ahead, a tie, or behind.
fn judged(ratio: f64) -> String {
    match ratio {
        _ if (ratio - 1.0).abs() <= TIE => format!("tie {ratio:.2}"),
        _ if ratio > 1.0 => format!("**{ratio:.2}**"),
        _ => format!("{ratio:.2}"),
    }
}

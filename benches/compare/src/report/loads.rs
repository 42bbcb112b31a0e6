//! The loads on the short page and in its charts.

use super::tables::{Measured, middle, ratio};
use crate::load::Load;

/// The ways shown beside std, with their labels.
pub const SHOWN: [(&str, &str); 5] = [
    ("nix", "nix"),
    ("quinn-udp", "quinn-udp"),
    ("mmsg RecvBatch", "mmsg"),
    ("quinn-udp GSO", "quinn-udp with GSO"),
    ("mmsg Offload", "mmsg with Offload"),
];

/// A load and its label: workload, payload bytes, datagrams to each destination, and the two parts of the label.
type Named = (&'static str, usize, usize, [&'static str; 2]);
const NAMED: [Named; 7] = [
    ("batch", 15, 1, ["one at a time", "15 bytes"]),
    ("batch", 15, 64, ["batches of 64", "15 bytes"]),
    ("batch", 1200, 64, ["batches of 64", "1,200 bytes"]),
    ("bulk", 1280, 64, ["bulk", "1,280 bytes"]),
    ("fan-out", 1200, 1, ["to 32 peers", "1 to each"]),
    ("fan-out", 1200, 16, ["to 32 peers", "16 to each"]),
    ("idle", 15, 1, ["room for 512", "1 waiting"]),
];

pub struct Row {
    pub name: [&'static str; 2],
    /// std's nanoseconds per datagram.
    pub by_std: Option<f64>,
    /// The speed of each way in [`SHOWN`], as a multiple of std's.
    pub speed_ups: Vec<Option<f64>>,
}

/// The measured single-threaded loads.
pub fn one_thread(measured: &Measured) -> Vec<Row> {
    let row = |(workload, payload, each, name): Named| {
        let is_it = |load: &Load| {
            (load.workload, load.payload, load.each, load.metadata)
                == (workload, payload, each, false)
        };
        let (_, rounds) = measured.times.iter().find(|(load, _)| is_it(load))?;
        let speed_ups = SHOWN.iter().map(|(way, _)| ratio(rounds, "std", way)).collect();
        Some(Row { name, by_std: middle(rounds, "std"), speed_ups })
    };
    NAMED.into_iter().filter_map(row).collect()
}

/// The single-threaded echo servers over loopback.
pub fn echo(measured: &Measured) -> Vec<Row> {
    let servers = measured.echo.iter().filter(|(echo, _)| echo.net == "loopback");
    let servers = servers.filter(|(echo, _)| echo.threads == 1);
    let row = |load, words| {
        let (_, rounds) = servers.clone().find(|(echo, _)| echo.load == load)?;
        let ours = |way: &str| ratio(rounds, way, "std");
        Some(Row {
            name: ["echo server", words],
            by_std: middle(rounds, "std").map(|rate| 1e9 / rate),
            speed_ups: vec![None, None, ours("mmsg"), None, ours("mmsg Offload")],
        })
    };
    let rows = [row("single", "single datagrams"), row("GSO", "GSO batches")];
    rows.into_iter().flatten().collect()
}

//! The loads in the page's first table and in its chart.

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

/// A load and its label: workload, payload bytes, datagrams to each destination, and the label.
type Named = (&'static str, usize, usize, &'static str);
const NAMED: [Named; 7] = [
    ("batch", 15, 1, "1 x 15 B"),
    ("batch", 15, 64, "64 x 15 B"),
    ("batch", 1200, 64, "64 x 1,200 B"),
    ("bulk", 1280, 64, "bulk"),
    ("fan-out", 1200, 1, "32 peers x 1"),
    ("fan-out", 1200, 16, "32 peers x 16"),
    ("idle", 15, 1, "1 in 512"),
];

pub struct Row {
    pub name: &'static str,
    /// std's nanoseconds per datagram.
    pub by_std: Option<f64>,
    /// The speed of each way in [`SHOWN`], as a multiple of std's.
    pub speed_ups: Vec<Option<f64>>,
}

/// The measured loads of one thread, and its echo servers over loopback.
pub fn all(measured: &Measured) -> Vec<Row> {
    let row = |(workload, payload, each, name): Named| {
        let is_it = |load: &Load| {
            (load.workload, load.payload, load.each, load.metadata)
                == (workload, payload, each, false)
        };
        let (_, rounds) = measured.times.iter().find(|(load, _)| is_it(load))?;
        let speed_ups = SHOWN.iter().map(|(way, _)| ratio(rounds, "std", way)).collect();
        Some(Row { name, by_std: middle(rounds, "std"), speed_ups })
    };
    let echo = |(load, name): (&str, _)| {
        let ns = |way: &str| {
            let is_it = |row: &&Vec<String>| row[..3] == ["blocking", load, way];
            measured.echo.iter().find(is_it)?[3].parse::<f64>().ok()
        };
        let ours = |way| Some(ns("std")? / ns(way)?);
        let speed_ups = vec![None, None, ours("mmsg"), None, ours("mmsg Offload")];
        Some(Row { name, by_std: Some(ns("std")?), speed_ups })
    };
    let echoes = [("64 in flight", "echo"), ("512 in flight by GSO", "echo, GSO")];
    let echoes = echoes.into_iter().filter_map(echo);
    NAMED.into_iter().filter_map(row).chain(echoes).collect()
}

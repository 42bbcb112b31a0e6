//! The measurements, read from the tables, and the loads in the page's first table and in its chart.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::load::Load;

/// A way compared with golang.org/x/net at one batch size.
pub struct XnetRow {
    pub batch: usize,
    pub way: String,
    /// Elapsed time, divided by the other's.
    pub ratio: f64,
}

/// For each way, one value per round.
pub type Rounds = BTreeMap<String, Vec<f64>>;

#[derive(Default)]
pub struct Measured {
    about: BTreeMap<String, String>,
    /// CPU time per datagram in nanoseconds.
    pub times: BTreeMap<Load, Rounds>,
    /// Allocations per datagram.
    pub allocations: BTreeMap<Load, BTreeMap<String, f64>>,
    pub xnet: Vec<XnetRow>,
    /// Echo servers: the cells of each row.
    pub echo: Vec<Vec<String>>,
}

/// The rows of a table, without its header.
fn rows(folder: &Path, name: &str) -> io::Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(folder.join(name)).map_err(|error| {
        io::Error::new(error.kind(), format!("{name}: {error}; `compare run` makes it"))
    })?;
    Ok(text.lines().skip(1).map(|line| line.split(',').map(String::from).collect()).collect())
}

/// The rows of a table that may be missing, because not every machine can measure it.
fn rows_if_any(folder: &Path, name: &str) -> io::Result<Vec<Vec<String>>> {
    if fs::exists(folder.join(name))? { rows(folder, name) } else { Ok(Vec::new()) }
}

fn number<T: std::str::FromStr>(row: &[String], at: usize) -> io::Result<T> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("field {at} of {row:?}"));
    row.get(at).and_then(|field| field.parse().ok()).ok_or_else(wrong)
}

fn load(row: &[String]) -> io::Result<Load> {
    let [payload, dests, each, slots] =
        [number(row, 1)?, number(row, 2)?, number(row, 3)?, number(row, 4)?];
    // Leaked, as a `Load` has a static name. There are only a few.
    let workload = number::<String>(row, 0)?.leak();
    Ok(Load {
        metadata: number::<String>(row, 5)? == "meta",
        workload,
        payload,
        dests,
        each,
        slots,
    })
}

impl Measured {
    /// A line of `about.csv`.
    pub fn about(&self, what: &str) -> &str {
        self.about.get(what).map_or("unknown", String::as_str)
    }

    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut measured = Self::default();
        for row in rows(folder, "about.csv")? {
            measured.about.insert(number(&row, 0)?, number(&row, 1)?);
        }
        for row in rows(folder, "times.csv")? {
            let ways = measured.times.entry(load(&row)?).or_default();
            ways.entry(number(&row, 6)?).or_default().push(number(&row, 8)?);
        }
        for row in rows(folder, "allocations.csv")? {
            let ways = measured.allocations.entry(load(&row)?).or_default();
            let [datagrams, allocations]: [f64; 2] = [number(&row, 7)?, number(&row, 8)?];
            ways.insert(number(&row, 6)?, allocations / datagrams);
        }
        measured.echo = rows(folder, "echo.csv")?;
        for row in rows_if_any(folder, "xnet.csv")? {
            measured.xnet.push(XnetRow {
                batch: number(&row, 0)?,
                way: number(&row, 1)?,
                ratio: number(&row, 4)?,
            });
        }
        Ok(measured)
    }
}

/// The median, the lower of two middle values. `None` without values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The median over the rounds of one way's value divided by the other's.
pub fn ratio(rounds: &Rounds, one: &str, other: &str) -> Option<f64> {
    let (one, other) = (rounds.get(one)?, rounds.get(other)?);
    median(one.iter().zip(other).map(|(one, other)| one / other).collect())
}

pub fn middle(rounds: &Rounds, way: &str) -> Option<f64> {
    median(rounds.get(way)?.clone())
}

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
pub fn loads(measured: &Measured) -> Vec<Row> {
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

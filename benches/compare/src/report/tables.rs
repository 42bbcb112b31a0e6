//! The measurements, read from the tables.

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

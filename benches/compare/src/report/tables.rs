//! The measurements, read from the tables.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::load::Load;

/// Where an echo server was, and under what load.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Echo {
    pub net: String,
    pub load: String,
    pub threads: usize,
}

/// A batch size and way beside golang.org/x/net.
pub struct XnetRow {
    pub batch: usize,
    pub way: String,
    pub wall: f64,
    pub wall_ratio: f64,
    pub cpu_ratio: f64,
    pub allocations: f64,
}

/// By way, a value a round.
pub type Rounds = BTreeMap<String, Vec<f64>>;

#[derive(Default)]
pub struct Measured {
    about: BTreeMap<String, String>,
    /// Nanoseconds of the processor a datagram.
    pub times: BTreeMap<Load, Rounds>,
    /// Allocations a datagram.
    pub allocations: BTreeMap<Load, BTreeMap<String, f64>>,
    /// Datagrams a second of the server's processors.
    pub echo: BTreeMap<Echo, Rounds>,
    /// Datagrams of each that were lost, and of how many.
    pub lost: BTreeMap<Echo, (f64, f64)>,
    pub xnet: Vec<XnetRow>,
}

/// A table's rows, without its head.
fn rows(folder: &Path, name: &str) -> io::Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(folder.join(name)).map_err(|error| {
        io::Error::new(error.kind(), format!("{name}: {error}; `compare run` makes it"))
    })?;
    Ok(text.lines().skip(1).map(|line| line.split(',').map(String::from).collect()).collect())
}

/// The rows of a table that not every machine can measure; none if it is missing.
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
    // Leaked: there are a few.
    let workload = number::<String>(row, 0)?.leak();
    Ok(Load {
        metadata: number::<String>(row, 5)? == "meta",
        workload,
        payload,
        dests,
        each,
        slots,
        place: None,
    })
}

impl Measured {
    /// A line of `about.csv`.
    pub fn about(&self, what: &str) -> &str {
        self.about.get(what).map_or("unknown", String::as_str)
    }

    /// The version of this crate that was measured.
    pub fn version(&self) -> &str {
        let mut packages = self.about("packages").split("; ");
        packages.find_map(|package| package.strip_prefix("mmsg ")).unwrap_or("unknown")
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
        measured.read_echo(folder)?;
        for row in rows_if_any(folder, "xnet.csv")? {
            measured.xnet.push(XnetRow {
                batch: number(&row, 0)?,
                way: number(&row, 1)?,
                wall: number(&row, 2)?,
                wall_ratio: number(&row, 4)?,
                cpu_ratio: number(&row, 5)?,
                allocations: number(&row, 6)?,
            });
        }
        Ok(measured)
    }

    fn read_echo(&mut self, folder: &Path) -> io::Result<()> {
        for row in rows(folder, "echo.csv")? {
            let echo =
                Echo { net: number(&row, 0)?, load: number(&row, 1)?, threads: number(&row, 2)? };
            let [datagrams, lost, cpu]: [f64; 3] =
                [number(&row, 5)?, number(&row, 6)?, number(&row, 7)?];
            let all = self.lost.entry(echo.clone()).or_default();
            *all = (all.0 + lost, all.1 + datagrams + lost);
            let ways = self.echo.entry(echo).or_default();
            ways.entry(number(&row, 3)?).or_default().push(datagrams / (cpu / 1e9));
        }
        Ok(())
    }
}

/// The middle one; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The median of what one way has in a round by what the other has in the same.
pub fn ratio(rounds: &Rounds, one: &str, other: &str) -> Option<f64> {
    let (one, other) = (rounds.get(one)?, rounds.get(other)?);
    median(one.iter().zip(other).map(|(one, other)| one / other).collect())
}

pub fn middle(rounds: &Rounds, way: &str) -> Option<f64> {
    median(rounds.get(way)?.clone())
}

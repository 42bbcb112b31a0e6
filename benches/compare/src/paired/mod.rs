//! The promises that are ratios, measured as ratios.
//!
//! Two sides take turns of a few milliseconds, many times, and each pair of turns gives a ratio of
//! the processor's time that they took.
//! What else the machine does meets both of a pair, so the median of the ratios stays put where
//! times do not; the quartiles beside it tell how far to trust it. Nothing is asserted: a row over
//! its promise is marked, and the status is 0 all the same.
//!
//! `compare ratios [FILTER]` measures the rows whose name holds `FILTER`;
//! `--test` takes every turn once, compares what came with what was sent, and measures nothing.

mod queue;
mod rows;
mod waiting;

use std::io;
use std::time::Duration;

use crate::clock::Clock;
use crate::support;

/// One of two sides that are compared.
pub struct Side<'a> {
    /// Takes a turn and gives its time. With true, also compares what came with what was sent.
    turn: Box<dyn FnMut(bool) -> Duration + 'a>,
    /// Datagrams that a turn moves.
    datagrams: usize,
}

impl<'a> Side<'a> {
    /// A side that times its turns by itself.
    pub fn timed(turn: impl FnMut(bool) -> Duration + 'a, datagrams: usize) -> Self {
        Self { turn: Box::new(turn), datagrams }
    }

    /// A side that repeats what moves `batch` datagrams until a turn has moved about `datagrams`.
    pub fn repeated(mut part: impl FnMut(bool) + 'a, batch: usize, datagrams: usize) -> Self {
        let times = datagrams.div_ceil(batch);
        let turn = move |check| {
            let times = if check { 1 } else { times };
            let begin = Clock::start();
            (0..times).for_each(|_| part(check));
            begin.elapsed()
        };
        Self::timed(turn, times * batch)
    }

    fn nanoseconds(&mut self) -> f64 {
        (self.turn)(false).as_nanos() as f64 / self.datagrams as f64
    }
}

/// What is promised of a ratio.
#[derive(Clone, Copy)]
pub enum Promise {
    AtMost(f64),
    /// No further from 1 than this, either way.
    Within(f64),
    Nothing,
}

impl Promise {
    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {most:.2}"),
            Self::Within(part) => format!("1 +- {part:.2}"),
            Self::Nothing => "-".into(),
        }
    }

    fn is_kept(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::Within(part) => (ratio - 1.0).abs() <= part,
            Self::Nothing => true,
        }
    }
}

/// A comparison, made when its turn comes.
pub struct Row<'a> {
    pub name: String,
    pub promise: Promise,
    pub pairs: usize,
    /// The side that is measured, and the one that it is measured by.
    pub sides: Box<dyn FnOnce() -> [Side<'a>; 2] + 'a>,
}

pub fn run(filter: &str, test: bool) -> io::Result<()> {
    let wire = support::Wire::new()?;
    let rows = rows::all(&wire).into_iter().chain(waiting::all()).chain(queue::all());
    let rows = rows.filter(|row| row.name.contains(filter));
    if test {
        let mut count = 0;
        for row in rows {
            for mut side in (row.sides)() {
                (side.turn)(true);
                count += 1;
            }
        }
        println!("{count} sides took a turn; what came is what was sent");
        return Ok(());
    }
    println!(
        "{:44} {:>9} {:>7}  {:15} {:>15}",
        "", "promised", "ratio", "quartiles", "ns a datagram"
    );
    rows.for_each(measure);
    Ok(())
}

/// Takes the turns of a row and prints what they come to.
fn measure(row: Row<'_>) {
    let mut sides = (row.sides)();
    let mut times = [Vec::new(), Vec::new()];
    // What is allocated and grown at first is no part of it.
    for side in &mut sides {
        (side.turn)(false);
    }
    for pair in 0..row.pairs {
        // Each side goes first as often as the other.
        let first = pair % 2;
        for side in [first, 1 - first] {
            times[side].push(sides[side].nanoseconds());
        }
    }
    let ratios = times[0].iter().zip(&times[1]).map(|(ours, theirs)| ours / theirs).collect();
    let [low, ratio, high] = quartiles(ratios);
    let [ours, theirs] = times.map(|times| quartiles(times)[1]);
    let mark = if row.promise.is_kept(ratio) { "" } else { "  OVER" };
    println!(
        "{:44} {:>9} {ratio:7.3}  {low:.3} .. {high:.3} {ours:7.0} /{theirs:6.0}{mark}",
        row.name,
        row.promise.text(),
    );
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

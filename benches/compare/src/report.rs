//! Writes the page about a run, with its charts.

mod charts;
mod goals;
mod loads;
mod markdown;
mod page;
mod tables;

use std::fs;
use std::io;
use std::path::Path;

use tables::Measured;

pub fn write(from: &Path, to: &Path) -> io::Result<()> {
    let measured = Measured::read(from)?;
    let goals = goals::judged(&measured);
    fs::create_dir_all(to)?;
    for (file, chart) in charts::all(&measured)? {
        fs::write(to.join(file), chart)?;
    }
    fs::write(to.join("benchmarks.md"), page::text(&measured, &goals))?;
    println!("wrote benchmarks.md and its charts");
    // The figures of a test run mean nothing.
    if measured.about("extent") != "test" {
        for goal in goals.iter().filter(|goal| goal.met < goal.of) {
            println!("missed in {} of {}: {}", goal.of - goal.met, goal.of, goal.says);
        }
    }
    Ok(())
}

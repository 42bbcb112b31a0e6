//! Writes two pages about a run: a short one with charts, and one with every table.

mod charts;
mod goals;
mod loads;
mod markdown;
mod page;
mod record;
mod tables;

use std::fs;
use std::io;
use std::path::Path;

use tables::Measured;

pub fn write(from: &Path, to: &Path) -> io::Result<()> {
    let measured = Measured::read(from)?;
    let record = Path::new("record").join(measured.version());
    fs::create_dir_all(to.join(&record))?;
    for (file, chart) in charts::all(&measured) {
        fs::write(to.join(file), chart)?;
    }
    let goals = goals::judged(&measured);
    let record = record.join("benchmarks.md");
    fs::write(to.join("benchmarks.md"), page::text(&measured, &goals))?;
    fs::write(to.join(&record), record::text(&measured))?;
    println!("wrote benchmarks.md, its charts and {}", record.display());
    // The figures of a test run mean nothing.
    if measured.about("extent") != "test" {
        for goal in goals.iter().filter(|goal| goal.met < goal.of) {
            println!("missed in {} of {}: {}", goal.of - goal.met, goal.of, goal.says);
        }
    }
    Ok(())
}

//! Makes a page with charts of a run's measurements.

mod about;
mod charts;
mod goals;
mod page;
mod tables;

use std::fs;
use std::io;
use std::path::Path;

use tables::Measured;

pub fn write(from: &Path, to: &Path) -> io::Result<()> {
    let measured = Measured::read(from)?;
    fs::create_dir_all(to)?;
    let charts = charts::draw(&measured, to).map_err(io::Error::other)?;
    fs::write(to.join("benchmarks.md"), page::text(&measured, &charts)?)?;
    println!("benchmarks.md is written, and {} charts", charts.len());
    // Tests measure nothing worth printing.
    if measured.about.get("extent").is_some_and(|extent| extent == "test") {
        return Ok(());
    }
    for (what, places) in goals::missed(&measured) {
        println!("short of its goal: {what}: {}", places.join("; "));
    }
    Ok(())
}

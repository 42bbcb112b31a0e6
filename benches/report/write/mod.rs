//! The report; main.rs says what it is.

mod about;
mod charts;
mod goals;
mod page;
mod tables;

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use tables::Measured;

pub fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let after = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).map(PathBuf::from)
    };
    if !args.iter().any(|arg| arg == "--write") {
        println!("nothing is written without `-- --write`; benches/report.sh measures and writes");
        return Ok(());
    }
    let from = match after("--from") {
        Some(folder) => folder,
        // This program lies two folders below the target folder.
        None => env::current_exe()?.ancestors().nth(3).unwrap_or("".as_ref()).join("throughput"),
    };
    let to = after("--to").unwrap_or_else(|| PathBuf::from("docs"));
    let measured = Measured::read(&from)?;
    fs::create_dir_all(&to)?;
    let charts = charts::draw(&measured, &to).map_err(io::Error::other)?;
    fs::write(to.join("benchmarks.md"), page::text(&measured, &charts)?)?;
    println!("benchmarks.md is written, and {} charts", charts.len());
    // What a test has measured is nothing to tell.
    if measured.about.get("extent").is_some_and(|extent| extent == "test") {
        return Ok(());
    }
    for (what, places) in goals::missed(&measured) {
        println!("short of its goal: {what}: {}", places.join("; "));
    }
    Ok(())
}

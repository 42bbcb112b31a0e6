//! The comparison itself; main.rs says what it is.

#[path = "../../../tests/common/counting.rs"]
mod counting;
mod echo;
mod in_turn;
mod load;
mod once;
mod peers;
mod processors;
#[allow(dead_code)] // The other benchmarks need more of it.
#[path = "../../support/mod.rs"]
mod support;
mod sweep;
mod tables;
mod wire;

use std::env;
use std::io;
use std::process::ExitCode;

use counting::Counting;
use tables::Tables;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything once, each arrival checked.
    Test,
    Quick,
    Full,
}

pub fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        // Programs within the program, for the scripts beside it and for the echo servers.
        ["--serve", way, threads, net] => echo::server::main(way, threads, net),
        ["--instructions", way, told] => once::for_instructions(way, told == "told"),
        ["--beside-xnet", milliseconds] => once::beside_xnet(milliseconds),
        _ => compare(&words),
    };
    done.unwrap_or_else(|error| {
        eprintln!("throughput: {error}");
        ExitCode::FAILURE
    })
}

fn compare(args: &[&str]) -> io::Result<ExitCode> {
    let extent = if args.contains(&"--test") {
        Extent::Test
    } else if args.contains(&"--quick") {
        Extent::Quick
    } else {
        Extent::Full
    };
    let filter = args.iter().find(|arg| !arg.starts_with('-')).copied().unwrap_or("");
    let mut tables = Tables::create(extent, filter.is_empty())?;
    let mut loads = load::all(wire::room()?);
    if loads.iter().all(|load| load.each < 512) {
        println!("skipped: batches that the receive buffer has no room for (root has more)");
    }
    loads.retain(|load| load.workload.contains(filter));

    if extent == Extent::Full && !args.contains(&"--no-criterion") {
        sweep::run(&loads);
    }
    let frugal = in_turn::run(&loads, extent, &mut tables)?;
    if "echo".contains(filter) {
        echo::run(extent, &mut tables)?;
    }
    tables.finish()?;
    if !frugal {
        eprintln!("throughput: a way of this crate allocates, which none may");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

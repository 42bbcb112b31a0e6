//! Compares what a user could pick, on the same work, in the same run: `cargo run --release -p compare`.
//!
//! One thread sends and receives over loopback with std, nix, quinn-udp, raw calls and this crate; `peers/` has a
//! file for each. Echo servers, also on tokio, run in processes of their own. The ways take turns of a few milliseconds, for many
//! rounds. A ratio compares turns of one round, which meet the same load of the machine. The run fails if a way of
//! this crate allocates.
//!
//! `target/throughput/` gets the figures. `compare report` makes `docs/benchmarks.md` from them, and
//! `benches/compare/report.sh` does both. `compare ratios` compares two ways of doing one thing, to judge a change.

mod about;
#[path = "../../../tests/common/counting.rs"]
mod counting;
mod echo;
mod in_turn;
mod load;
mod peers;
mod process;
mod ratios;
mod report;
mod tables;
mod wire;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use counting::Counting;
use tables::Tables;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Compares what a user could pick, on the same work, in the same run.
#[derive(Parser)]
#[command(name = "compare")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure all ways in turn, and write tables to target/throughput.
    Run(Part),
    /// Measure echo servers, on tokio and on a thread. The filter is a part of the rows' names, such as
    /// `current_thread 1 in flight`, `GSO` or `sockets`.
    Tokio(Part),
    /// Compare pairs of ways in turn, and print each ratio beside its promise.
    Ratios {
        /// Only rows whose name contains all of these.
        filters: Vec<String>,
        /// Every way once, no figures.
        #[arg(long)]
        test: bool,
    },
    /// Write benchmarks.md and its charts from the tables of a run.
    Report {
        /// The folder of the tables.
        #[arg(long, default_value = "target/throughput")]
        from: PathBuf,
        /// The folder to write to.
        #[arg(long, default_value = "docs")]
        to: PathBuf,
    },
    /// One side of xnet/compare.sh.
    #[command(hide = true)]
    BesideXnet { milliseconds: u64 },
    /// An echo server, started by a run.
    #[command(hide = true)]
    Serve { way: String, flavor: String, sockets: usize },
}

#[derive(Args)]
struct Part {
    /// Only workloads whose name contains this: ready, batch, bulk, fan-out, idle, echo.
    #[arg(default_value = "")]
    filter: String,
    /// Fewer rounds, for rough figures.
    #[arg(long)]
    quick: bool,
    /// Everything once, every datagram checked, no figures.
    #[arg(long, conflicts_with = "quick")]
    test: bool,
}

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything once, every datagram checked.
    Test,
    Quick,
    Full,
}

impl Part {
    fn extent(&self) -> Extent {
        match (self.quick, self.test) {
            (_, true) => Extent::Test,
            (true, _) => Extent::Quick,
            _ => Extent::Full,
        }
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(part) => compare(&part.filter, part.extent()),
        Command::Tokio(part) => on_tokio(&part.filter, part.extent()),
        Command::Ratios { filters, test } => ratios::run(&filters, test),
        Command::Report { from, to } => report::write(&from, &to),
        Command::BesideXnet { milliseconds } => in_turn::beside_xnet(milliseconds),
        Command::Serve { way, flavor, sockets } => echo::servers::main(&way, &flavor, sockets),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(filter: &str, extent: Extent) -> io::Result<()> {
    let mut tables = Tables::create(extent, filter.is_empty())?;
    let mut loads = load::all(wire::capacity()?);
    if loads.iter().all(|load| load.each < 512) {
        println!("skipped: batches that do not fit the receive buffer (root gets a larger one)");
    }
    loads.retain(|load| load.workload.contains(filter));

    let frugal = in_turn::run(&loads, extent, &mut tables)?;
    if "echo".contains(filter) {
        echo::run("", extent, &mut tables)?;
    }
    tables.finish()?;
    if !frugal {
        return Err(io::Error::other("a way of this crate allocates; none may"));
    }
    Ok(())
}

fn on_tokio(filter: &str, extent: Extent) -> io::Result<()> {
    let mut tables = Tables::create(extent, false)?;
    echo::run(filter, extent, &mut tables)?;
    tables.finish()
}

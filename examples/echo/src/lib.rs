//! The echo example; `main.rs` says how to run it.

mod demo;
mod flights;
mod load;
mod serve;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mmsg::Offload;
use mmsg::offload::OffloadBuilder;
use socket2::Socket;

/// A UDP echo server and a load generator that checks it. Without a command, runs a demonstration of both on
/// loopback, which ends by itself.
#[derive(Parser)]
#[command(name = "echo", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Send every datagram back to its sender, until SIGINT or SIGTERM.
    Serve(serve::Options),
    /// Send datagrams to an echo server and check every byte that comes back.
    Load(load::Options),
}

/// How to move datagrams.
#[derive(Clone, Copy, Args)]
struct Way {
    #[arg(long, value_enum, default_value_t = Mode::Batch)]
    mode: Mode,

    /// Send without GSO (mode offload).
    #[arg(long)]
    no_gso: bool,

    /// Receive without GRO (mode offload).
    #[arg(long)]
    no_gro: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// One datagram a call, with the standard library.
    Std,
    /// Batches, with this crate.
    Batch,
    /// Batches with GSO and GRO, where the system has them.
    Offload,
}

impl Way {
    fn offload(self) -> OffloadBuilder {
        Offload::<()>::builder().gso(!self.no_gso).gro(!self.no_gro)
    }

    /// Checks that the options go together, which clap cannot.
    fn check(self) -> Result<Self, Failure> {
        if (self.no_gso || self.no_gro) && self.mode != Mode::Offload {
            return Err(usage("--no-gso and --no-gro need --mode offload (see --help)"));
        }
        Ok(self)
    }
}

/// The program's exit status and the reason, in one line.
struct Failure(u8, String);

/// Status 2: the request cannot be met.
fn usage(text: impl Display) -> Failure {
    Failure(2, text.to_string())
}

/// Status 1: the run went wrong.
fn outcome(text: impl Display) -> Failure {
    Failure(1, text.to_string())
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Cli::try_parse() {
        Err(error) if error.use_stderr() => Err(usage(one_line(&error.render().to_string()))),
        Err(help) => return help.print().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        Ok(cli) => match cli.command {
            None => demo::run(),
            Some(Command::Serve(options)) => serve::run(&options),
            Some(Command::Load(options)) => load::run(&options),
        },
    };
    let Err(Failure(status, text)) = result else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "error: {text}");
    ExitCode::from(status)
}

/// The first paragraph of clap's message, in one line.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    format!("{} (see --help)", lines.join(" "))
}

/// Prints a line and flushes it, for readers behind a pipe. A closed pipe does not end the program.
fn say(line: impl Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Asks for space for bursts, and makes calls return after `wait`.
fn prepare(socket: &Socket, wait: Duration) -> io::Result<()> {
    // The system limits these sizes, Linux to net.core.rmem_max and wmem_max.
    let _ = socket.set_recv_buffer_size(4 << 20);
    let _ = socket.set_send_buffer_size(4 << 20);
    socket.set_read_timeout(Some(wait))?;
    socket.set_write_timeout(Some(wait))
}

/// Whether an error only says that the timeout expired or a signal arrived.
fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// 1234567.0 as "1,234,567".
fn grouped(number: f64) -> String {
    indicatif::HumanCount(number.round() as u64).to_string()
}

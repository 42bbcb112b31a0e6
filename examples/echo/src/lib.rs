//! The example; `main.rs` beside it says how to try it.

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

/// A UDP echo server and a load generator that checks it. Without a command: a demonstration of
/// both on loopback, which ends by itself.
#[derive(Parser)]
#[command(name = "echo", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Send every datagram back to where it came from, until SIGINT or SIGTERM.
    Serve(serve::Options),
    /// Send datagrams to an echo server and check every byte that comes back.
    Load(load::Options),
}

/// How datagrams are moved.
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
    /// One datagram a call, by the standard library.
    Std,
    /// In batches, by this crate.
    Batch,
    /// In batches, with GSO and GRO as far as the system has them.
    Offload,
}

impl Way {
    fn offload(self) -> OffloadBuilder {
        Offload::<()>::builder().gso(!self.no_gso).gro(!self.no_gro)
    }

    /// Checks what clap cannot: whether the options go together.
    fn check(self) -> Result<Self, Failure> {
        if (self.no_gso || self.no_gro) && self.mode != Mode::Offload {
            return Err(usage("--no-gso and --no-gro need --mode offload (see --help)"));
        }
        Ok(self)
    }
}

/// The program's exit status and why, in one line.
struct Failure(u8, String);

/// A request that cannot be met: status 2.
fn usage(text: impl Display) -> Failure {
    Failure(2, text.to_string())
}

/// A run that went wrong: status 1.
fn outcome(text: impl Display) -> Failure {
    Failure(1, text.to_string())
}

/// The program.
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

/// Prints a line at once, also into a pipe. A pipe that was closed does not end the work.
fn say(line: impl Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Gives a socket space for bursts, and ends its calls after `wait`.
fn prepare(socket: &Socket, wait: Duration) -> io::Result<()> {
    // The system limits these sizes: on Linux to net.core.rmem_max and wmem_max.
    let _ = socket.set_recv_buffer_size(4 << 20);
    let _ = socket.set_send_buffer_size(4 << 20);
    socket.set_read_timeout(Some(wait))?;
    socket.set_write_timeout(Some(wait))
}

/// Whether an error says only that a call's time is over, or that a signal ended it.
fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// 1234567.0 as "1,234,567".
fn grouped(number: f64) -> String {
    indicatif::HumanCount(number.round() as u64).to_string()
}

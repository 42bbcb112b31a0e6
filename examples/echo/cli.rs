//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use mmsg::Backend;

use crate::{Failure, out};

/// A UDP echo server and a load generator that checks it. Without a command: a demonstration of
/// both on loopback, which ends by itself.
#[derive(Parser)]
#[command(name = "echo", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
pub enum Command {
    /// One datagram at a time, then in batches, and a table of both.
    #[command(skip)]
    Demo,
    /// Send every datagram back to where it came from, until SIGINT or SIGTERM.
    Serve(Serve),
    /// Send datagrams to an echo server and check every byte that comes back.
    Load(Load),
}

#[derive(Args)]
pub struct Serve {
    /// Address and port to listen on; with port 0 the system picks one.
    #[arg(value_parser = address)]
    pub addr: SocketAddr,

    /// Datagrams to receive at most in one call (mode batch).
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u16).range(1..=1024))]
    pub batch: u16,

    /// Threads, each with a socket of its own on the same port; the system spreads the clients.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    pub threads: u16,

    /// One datagram a call by the standard library, or batches by this crate.
    #[arg(long, value_enum, default_value_t = Mode::Batch)]
    pub mode: Mode,

    /// System calls that carry a batch (mode batch): recvmmsg and sendmmsg, or recvmsg and
    /// sendmsg one by one; without this option, the best that the system has.
    #[arg(long, value_enum)]
    backend: Option<BackendName>,
}

#[derive(Args)]
pub struct Load {
    /// Address and port of the server.
    #[arg(value_parser = address)]
    pub addr: SocketAddr,

    /// Bytes of payload, up to 65507. From 8 bytes on, each datagram carries a number of its own
    /// and is told from any other. With fewer the numbers repeat; with none replies are counted,
    /// each taken for one to the oldest datagram in flight.
    #[arg(long, value_name = "BYTES", default_value_t = 1200, value_parser = value_parser!(u16).range(0..=65507))]
    pub size: u16,

    /// How long to send for; what is in flight then is waited for.
    #[arg(long = "seconds", value_name = "S", default_value = "5", value_parser = seconds)]
    pub duration: Duration,

    /// Datagrams in flight. One that does not come back gives up its place after half a second.
    /// No more than 128 for a size of 1, no more than 32768 for a size of 2.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub window: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Std,
    Batch,
}

#[derive(Clone, Copy, ValueEnum)]
enum BackendName {
    Mmsg,
    Msg,
}

impl Serve {
    pub fn backend(&self) -> Option<Backend> {
        self.backend.map(|name| match name {
            BackendName::Mmsg => Backend::Mmsg,
            BackendName::Msg => Backend::Msg,
        })
    }
}

/// Why there is no command to be carried out.
pub enum Ended {
    /// The help or the version was asked for, and printed.
    Helped,
    Refused(Failure),
}

pub fn parse() -> Result<Command, Ended> {
    match Cli::try_parse() {
        Ok(cli) => Ok(cli.command.unwrap_or(Command::Demo)),
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            out::text(error.render());
            Err(Ended::Helped)
        }
        Err(error) => Err(Ended::Refused(Failure::usage(one_line(&error.render().to_string())))),
    }
}

/// What clap says in several lines, without its advice, in one.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let said: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    format!("{} (see --help)", said.join(" "))
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an IP address and a port, as in 127.0.0.1:7777 or [::1]:7777")
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.001..=1e6).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("not a number of seconds from 0.001 to 1000000")
}

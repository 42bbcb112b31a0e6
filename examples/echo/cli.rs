//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use mmsg::{Backend, Offload, OffloadBuilder};

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
    /// One datagram at a time, then in batches, then with offload, and a table of all.
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

    /// Messages to receive at most in one call, not in mode std; a train of datagrams is one.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u16).range(1..=1024))]
    pub batch: u16,

    /// Threads, each with a socket of its own on the same port; the system spreads the clients.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    pub threads: u16,

    #[command(flatten)]
    pub way: Way,

    /// System calls that carry a batch, not in mode std: recvmmsg and sendmmsg, or recvmsg and
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

    #[command(flatten)]
    pub way: Way,
}

/// The mode, and what of it is switched off.
#[derive(Clone, Copy, Args)]
pub struct Way {
    /// How datagrams are moved.
    #[arg(long, value_enum, default_value_t = Mode::Batch)]
    pub mode: Mode,

    /// Send no trains (mode offload).
    #[arg(long)]
    pub no_gso: bool,

    /// Receive no trains (mode offload).
    #[arg(long)]
    pub no_gro: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// One datagram a call, by the standard library.
    Std,
    /// In batches, by this crate.
    Batch,
    /// In batches of trains, which the kernel takes apart and puts together (UDP_SEGMENT and
    /// UDP_GRO), as far as it can.
    Offload,
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

impl Way {
    pub fn offload(&self) -> OffloadBuilder {
        Offload::<()>::builder().gso(!self.no_gso).gro(!self.no_gro)
    }

    fn check(&self) -> Result<(), Failure> {
        if (self.no_gso || self.no_gro) && self.mode != Mode::Offload {
            return Err(Failure::usage("--no-gso and --no-gro need --mode offload (see --help)"));
        }
        Ok(())
    }
}

/// All that the mode stands for.
impl From<Mode> for Way {
    fn from(mode: Mode) -> Self {
        Self { mode, no_gso: false, no_gro: false }
    }
}

impl Command {
    /// What clap cannot tell: whether the options go together.
    fn check(self) -> Result<Self, Failure> {
        match &self {
            Self::Demo => {}
            Self::Serve(serve) => serve.way.check()?,
            Self::Load(load) => load.way.check()?,
        }
        Ok(self)
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
        Ok(cli) => cli.command.unwrap_or(Command::Demo).check().map_err(Ended::Refused),
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

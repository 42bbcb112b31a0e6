//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum, value_parser};

/// Serves files over QUIC, and gets them.
#[derive(Parser)]
#[command(name = "quic", version)]
pub enum Command {
    /// Serve the files in a folder until SIGINT or SIGTERM.
    Serve(Serve),
    /// Get a file.
    Get(Get),
    /// Get a file over many connections at once, and keep nothing of it.
    Load(Load),
}

#[derive(Args)]
pub struct Serve {
    /// Address and port to listen on; with port 0 the system picks one.
    #[arg(value_parser = address)]
    pub addr: SocketAddr,

    /// The folder. Nothing outside of it is served.
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,

    /// Connections at once; more are refused.
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = value_parser!(u16).range(1..))]
    pub connections: u16,

    #[command(flatten)]
    pub common: Common,
}

#[derive(Args)]
pub struct Get {
    /// Address and port of the server.
    #[arg(value_parser = address)]
    pub addr: SocketAddr,

    /// The file, as a path in the server's folder.
    pub path: String,

    /// Where to write it; without this option, under its own name here.
    #[arg(short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Move to another port halfway, as a phone does that changes from one network to another.
    #[arg(long)]
    pub rebind: bool,

    #[command(flatten)]
    pub common: Common,
}

#[derive(Args)]
pub struct Load {
    /// Address and port of the server.
    #[arg(value_parser = address)]
    pub addr: SocketAddr,

    /// The file, as a path in the server's folder.
    pub path: String,

    /// Connections at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=1000))]
    pub connections: u16,

    /// How often each of them gets the file.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub times: u32,

    #[command(flatten)]
    pub common: Common,
}

#[derive(Args)]
pub struct Common {
    /// The server's certificate: the server writes it there, the client trusts no other.
    #[arg(long, value_name = "FILE", default_value = "quic.pem")]
    pub cert: PathBuf,

    /// Whose sockets quinn works on.
    #[arg(long, value_enum, default_value_t = SocketKind::Mmsg)]
    pub socket: SocketKind,

    /// Print at the end how datagrams were moved.
    #[arg(long)]
    pub stats: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SocketKind {
    /// This crate's.
    Mmsg,
    /// Quinn's own.
    Quinn,
}

/// The command; ends the program, with what clap says, if there is none.
pub fn parse() -> Command {
    Command::parse()
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an IP address and a port, as in 127.0.0.1:4433 or [::1]:4433")
}

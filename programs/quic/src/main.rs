//! Serves and downloads files over QUIC: quinn on this crate's sockets or on its own.
//!
//! ```text
//! cargo run --release -p quic -- serve 127.0.0.1:4433 --root . --cert target/quic.pem
//! cargo run --release -p quic -- get 127.0.0.1:4433 README.md --cert target/quic.pem -o target/copy.md
//! ```
//!
//! The client prints the file's length and the time taken. It trusts the certificate that the server wrote to `--cert`.
//! `--socket quinn` selects quinn's own sockets, `--stats` prints how datagrams moved. `peer.rs` puts quinn on this
//! crate's sockets; `compare.sh` compares the two.

mod counted;
mod get;
mod peer;
mod protocol;
mod serve;

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, ValueEnum, value_parser};
use tokio::runtime::Builder;

/// An error that ends the program, printed in one line.
type Failure = Box<dyn Error + Send + Sync>;

/// Serve and download files over QUIC.
#[derive(Parser)]
#[command(name = "quic", version)]
enum Command {
    /// Serve the files in a folder until SIGINT or SIGTERM.
    Serve {
        /// Address and port to listen on, as in 127.0.0.1:4433 or [::1]:4433; with port 0 the system picks one.
        addr: SocketAddr,
        /// The folder to serve. Nothing outside it is served.
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
        /// Maximum number of connections; more are refused. One host may hold all of them.
        #[arg(long, value_name = "N", default_value_t = 250, value_parser = value_parser!(u16).range(1..))]
        connections: u16,
        #[command(flatten)]
        common: Common,
    },
    /// Download a file.
    Get {
        #[command(flatten)]
        from: From,
        /// Where to write the file (default: its own name in the current folder).
        #[arg(short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Change the port halfway, as a phone does when it changes networks.
        #[arg(long)]
        rebind: bool,
    },
    /// Download a file over many connections at once, without saving it.
    Load {
        #[command(flatten)]
        from: From,
        /// Connections at once.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=1000))]
        connections: u16,
        /// How often each connection downloads the file.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        times: u32,
    },
    /// Measure how long one byte takes to the server and back while other connections download a file.
    Echo {
        #[command(flatten)]
        from: From,
        /// Connections that download the file over and over.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(..=1000))]
        connections: u16,
        /// How long to measure, after a warm-up of one second.
        #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = value_parser!(u16).range(1..))]
        seconds: u16,
    },
}

#[derive(Args)]
struct From {
    /// Address and port of the server.
    addr: SocketAddr,
    /// The file, as a path in the server's folder.
    path: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// The server's certificate, which the server writes and the client reads. The client trusts no other.
    #[arg(long, value_name = "FILE", default_value = "quic.pem")]
    cert: PathBuf,
    /// The sockets that quinn uses.
    #[arg(long, value_enum, default_value_t = SocketKind::Mmsg)]
    socket: SocketKind,
    /// Print at the end how datagrams moved.
    #[arg(long)]
    stats: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SocketKind {
    /// This crate's.
    Mmsg,
    /// Quinn's own.
    Quinn,
}

fn main() -> ExitCode {
    let command = Command::parse();
    // One thread, so that figures do not depend on scheduling, and two more to read files.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
    let result = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            match command {
                Command::Serve { addr, root, connections, common } => {
                    serve::run(addr, &root, connections.into(), common).await
                }
                Command::Get { from, output, rebind } => get::one(from, output, rebind).await,
                Command::Load { from, connections, times } => {
                    get::many(from, connections, times).await
                }
                Command::Echo { from, connections, seconds } => {
                    get::echo(from, connections, seconds).await
                }
            }
        })
    });
    let Err(failure) = result else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "error: {failure}");
    ExitCode::FAILURE
}

/// Prints a line and flushes it, for readers behind a pipe. A closed pipe does not end the program.
fn say(line: impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

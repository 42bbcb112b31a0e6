//! Files over QUIC, by quinn on this crate's sockets or on its own.
//!
//! ```text
//! cargo run --release -p quic -- serve 127.0.0.1:4433 --root . --cert target/quic.pem
//! cargo run --release -p quic -- get 127.0.0.1:4433 README.md --cert target/quic.pem \
//!     -o target/copy.md
//! ```
//!
//! The server makes a self-signed certificate and writes it to a file, `quic.pem` if none is named;
//! the client reads it there. With `--socket quinn` either end uses quinn's own socket layer instead, and with
//! `--stats` it prints how datagrams were moved. `compare.sh` measures one against the other.
//!
//! `peer.rs` makes quinn's endpoints on this crate's sockets.

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

/// Serves files over QUIC, and gets them.
#[derive(Parser)]
#[command(name = "quic", version)]
enum Command {
    /// Serve the files in a folder until SIGINT or SIGTERM.
    Serve {
        /// Address and port to listen on, as in 127.0.0.1:4433 or [::1]:4433; with port 0 the system picks one.
        addr: SocketAddr,
        /// The folder. Nothing outside of it is served.
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
        /// Connections at once; more are refused.
        #[arg(long, value_name = "N", default_value_t = 250, value_parser = value_parser!(u16).range(1..))]
        connections: u16,
        #[command(flatten)]
        common: Common,
    },
    /// Get a file.
    Get {
        #[command(flatten)]
        from: From,
        /// Where to write it; without this option, under its own name here.
        #[arg(short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Move to another port halfway, as a phone does that changes from one network to another.
        #[arg(long)]
        rebind: bool,
    },
    /// Get a file over many connections at once, without storing it.
    Load {
        #[command(flatten)]
        from: From,
        /// Connections at once.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=1000))]
        connections: u16,
        /// How often each of them gets the file.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        times: u32,
    },
    /// Measure how long one byte takes to the server and back while other connections get a file.
    Echo {
        #[command(flatten)]
        from: From,
        /// Connections that get the file, again and again.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(..=1000))]
        connections: u16,
        /// How long to measure, after a second that does not count.
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
    /// The server's certificate: the server writes it there, the client trusts no other.
    #[arg(long, value_name = "FILE", default_value = "quic.pem")]
    cert: PathBuf,
    /// The sockets that quinn works on.
    #[arg(long, value_enum, default_value_t = SocketKind::Mmsg)]
    socket: SocketKind,
    /// Print at the end how datagrams were moved.
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
    // One thread, so that figures do not depend on how work is spread, and two to read files.
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

/// Prints a line at once, also into a pipe. A pipe that was closed does not end the work.
fn say(line: impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

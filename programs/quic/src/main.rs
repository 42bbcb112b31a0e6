//! A QUIC load generator and its server, as quinn's `perf`: quinn on this crate's sockets or on its own.
//!
//! ```text
//! cargo run --release -p quic -- serve 127.0.0.1:4433
//! cargo run --release -p quic -- load 127.0.0.1:4433 --bytes 100000000
//! ```
//!
//! A request is the number of bytes that the server shall send. `load` prints their rate and the CPU time of the client,
//! `echo` the latency of requests for one byte beside such downloads. `peer.rs` puts quinn on this crate's sockets;
//! `--socket quinn` selects quinn's own, and `compare.sh` compares the two. Only for networks of your own: the certificate
//! proves nothing, and the server sends whatever it is asked for.

mod client;
mod identity;
mod peer;
mod serve;

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Parser, ValueEnum, value_parser};
use nix::sys::resource::{UsageWho, getrusage};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// An error that ends the program, printed in one line.
type Failure = Box<dyn Error + Send + Sync>;

/// Measure QUIC: ask a server for bytes.
#[derive(Parser)]
#[command(name = "quic", version)]
enum Command {
    /// Send the bytes that clients ask for, until SIGINT or SIGTERM.
    Serve {
        /// Address and port to listen on, as in 127.0.0.1:4433 or [::1]:4433; with port 0 the system picks one.
        addr: SocketAddr,
        /// Maximum number of connections; more are refused. One host may hold all of them.
        #[arg(long, value_name = "N", default_value_t = 250, value_parser = value_parser!(u16).range(1..))]
        connections: u16,
        /// The sockets that quinn uses.
        #[arg(long, value_enum, default_value_t = SocketKind::Mmsg)]
        socket: SocketKind,
    },
    /// Ask for bytes over many connections at once.
    Load {
        #[command(flatten)]
        to: To,
    },
    /// Measure the latency of requests for one byte while other connections ask for many, again and again.
    Echo {
        #[command(flatten)]
        to: To,
        /// How long to measure, after a warm-up of one second.
        #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = value_parser!(u16).range(1..))]
        seconds: u16,
    },
}

#[derive(Args)]
struct To {
    /// Address and port of the server.
    addr: SocketAddr,
    /// Bytes for each request.
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    bytes: u64,
    /// Connections that ask for so many bytes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(..=1000))]
    connections: u16,
    /// The sockets that quinn uses.
    #[arg(long, value_enum, default_value_t = SocketKind::Mmsg)]
    socket: SocketKind,
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
    // One thread, so that figures do not depend on scheduling.
    let runtime = Builder::new_current_thread().enable_all().build();
    let result = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            match command {
                Command::Serve { addr, connections, socket } => {
                    serve::run(addr, connections.into(), socket).await
                }
                Command::Load { to } => peer::unless_refused(to.addr, client::load(to)).await,
                Command::Echo { to, seconds } => {
                    peer::unless_refused(to.addr, client::echo(to, seconds)).await
                }
            }
        })
    });
    let Err(failure) = result else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "error: {failure}");
    ExitCode::FAILURE
}

/// Takes SIGINT and SIGTERM from now on. The future ends after one of them.
fn stopped() -> Result<impl Future<Output = ()>, Failure> {
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
    })
}

/// CPU time of this process, in seconds.
fn cpu() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return f64::NAN };
    let time = usage.user_time() + usage.system_time();
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// Prints a line and flushes it, for readers behind a pipe. A closed pipe does not end the program.
fn say(line: impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

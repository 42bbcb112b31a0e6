//! A UDP forwarder and load balancer.
//!
//! ```text
//! cargo run --release -p forward -- 127.0.0.1:5300 127.0.0.1:5301 127.0.0.1:5302
//! ```
//!
//! Each client (address and port) has a session with each address that it asks, until it is idle: a socket of its own,
//! connected to the next upstream in turn. An upstream that refuses a datagram (ICMP) gets no new session for 30
//! seconds, and its session ends, so that the client's next datagram goes to another. Prints its address, and after
//! SIGINT what it received, forwarded and dropped. Batches and GSO move the datagrams. Datagrams that a socket does not
//! accept wait in a `SendQueue` (`outlet.rs`); a full queue drops and counts them. `forward.rs` is the event loop, on
//! mio.
//!
//! Forged sources open sessions, too. A flood of them ends the sessions that are used less often than the table turns over.

mod figures;
mod forward;
mod outlet;
mod sessions;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, value_parser};
use forward::Forwarder;

/// Forwards UDP datagrams to upstreams, a session for each client, until SIGINT or SIGTERM.
#[derive(Parser)]
#[command(name = "forward", version)]
struct Options {
    /// Address and port to listen on, as in 127.0.0.1:5300 or [::1]:5300; with port 0 the system picks one.
    listen: SocketAddr,

    /// Where to forward datagrams. New sessions take the upstreams in turn; a session keeps its upstream. Datagrams that
    /// come from these addresses are dropped: they can only be forged.
    #[arg(required = true)]
    upstream: Vec<SocketAddr>,

    /// Seconds without a datagram in either direction after which a session ends.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    idle: Duration,

    /// Maximum number of sessions, each with a descriptor; fewer if the process may not open as many. Another client
    /// ends the session that was idle longest. One source address gets at most a quarter.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    sessions: u32,

    /// Bytes that may wait for one session's upstream, and for all clients together, while a socket accepts nothing.
    /// A datagram counts about 100 bytes besides its payload. Datagrams beyond the limit are dropped and counted.
    /// Memory use is two to three times as much, taken only when needed.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = value_parser!(u32).range(1..))]
    queue: u32,

    /// Bytes that may wait in all queues together.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = value_parser!(u32).range(1..))]
    queues: u32,
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.001..=1e6).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("not a number of seconds from 0.001 to 1000000")
}

fn main() -> ExitCode {
    let Err(error) = run(&Options::parse()) else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::FAILURE
}

fn run(options: &Options) -> io::Result<()> {
    let forwarder = Forwarder::new(options)?;
    say(format_args!("listening on {}\n", forwarder.addr()));
    let figures = forwarder.run()?;
    say(figures);
    Ok(())
}

/// Prints and flushes, for readers behind a pipe. A closed pipe does not end the program.
fn say(text: impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

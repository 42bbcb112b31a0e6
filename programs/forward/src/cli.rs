//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, value_parser};

/// Forwards UDP datagrams to upstreams, a session for each client, until SIGINT or SIGTERM.
#[derive(Parser)]
#[command(name = "forward", version)]
pub struct Options {
    /// Address and port to listen on; with port 0 the system picks one.
    #[arg(value_parser = address)]
    pub listen: SocketAddr,

    /// Where datagrams go. New sessions take the upstreams in turn; a session stays with its own.
    #[arg(required = true, value_parser = address)]
    pub upstream: Vec<SocketAddr>,

    /// Seconds without a datagram either way after which a session ends.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    pub idle: Duration,

    /// Sessions at once. Beyond them, datagrams of new clients are dropped and counted. Each takes
    /// a descriptor.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub sessions: u32,

    /// Bytes that may wait for a session's upstream, and for all clients together, while a socket
    /// takes no more; datagrams count some 100 bytes beside their payload. Beyond them datagrams
    /// are dropped and counted. Memory is twice as much, and taken only while it is needed.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = value_parser!(u32).range(1..))]
    pub queue: u32,
}

/// The options; ends the program, with what clap says, if there are none.
pub fn parse() -> Options {
    Options::parse()
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an IP address and a port, as in 127.0.0.1:5300 or [::1]:5300")
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.001..=1e6).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("not a number of seconds from 0.001 to 1000000")
}

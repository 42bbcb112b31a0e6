//! An authoritative DNS server over UDP, in batches.
//!
//! ```text
//! cargo run --release -p dns -- --listen 127.0.0.1:5300 --zone programs/dns/example.zone
//! dig @127.0.0.1 -p 5300 www.example.test
//! ```
//!
//! Read first `batch.rs`, which is the loop: a `RecvBatch` received into, a `SendQueue` for
//! the answers. `plain.rs` is the same server on tokio's own socket, to compare with. What
//! both answer is in `answer.rs`.

mod answer;
mod batch;
mod cli;
mod metrics;
mod net;
mod plain;
mod query;
mod reply;
mod stop;
#[cfg(test)]
mod tests;
mod zone;

use std::io::{self, Write};
use std::net::UdpSocket;
use std::ops::AddAssign;
use std::process::ExitCode;

use clap::Parser;

use cli::{Args, Mode};
use stop::{RaiseAtEnd, Stop};
use zone::Zone;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// What a thread has done.
#[derive(Clone, Copy, Default)]
struct Totals {
    received: u64,
    answered: u64,
    /// Answers that the system would not send.
    failed: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.answered += other.answered;
        self.failed += other.failed;
    }
}

fn run(args: &Args) -> Result<(), String> {
    let zone = Zone::load(&args.zone)?;
    let destinations = args.mode != Mode::Tokio;
    let group = net::listen(args.listen, args.threads.into(), destinations)
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    let stop = Stop::on_signals().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let sockets = net::with_counters(&group, args.mode == Mode::Offload)
        .map_err(|error| format!("cannot serve: {error}"))?;
    if let Some(addr) = args.metrics {
        metrics::start(addr, sockets.clone())
            .map_err(|error| format!("cannot serve metrics on {addr}: {error}"))?;
    }
    // The sockets are bound: what is sent from now on waits there, at the worst.
    let _ = writeln!(io::stdout(), "listening on {}", group.local_addr());

    let serve = |index: usize, socket: &UdpSocket| {
        // If one ends, by whatever fault, so do all.
        let _raise = RaiseAtEnd(&stop);
        match args.mode {
            Mode::Batch => Ok(batch::Server::new(&sockets[index], &zone, false).run(&stop)),
            Mode::Offload => Ok(batch::Server::new(&sockets[index], &zone, true).run(&stop)),
            Mode::Tokio => plain::run(socket, &zone, &stop),
        }
    };
    let mut totals = Totals::default();
    for outcome in group.run(serve).map_err(|error| format!("cannot start a thread: {error}"))? {
        totals += outcome.map_err(|error| format!("cannot serve: {error}"))?;
    }
    let Totals { received, answered, failed } = totals;
    let _ =
        writeln!(io::stdout(), "total: received {received}, answered {answered}, failed {failed}");
    Ok(())
}

//! A UDP echo server, a load generator that checks it, and a demonstration of both.
//!
//! ```text
//! cargo run --release --example echo                          the demonstration
//! cargo run --release --example echo -- serve 127.0.0.1:7777  the server
//! cargo run --release --example echo -- load 127.0.0.1:7777   the load generator
//! ```
//!
//! The server's loop is in `echo_batch.rs`: a `RecvBatch` received into, sent from, and a
//! `SendQueue` for what the socket does not take at once; with `--mode offload` the socket is in an
//! `Offload`, and the loop is the same. `echo_std.rs` is the same server
//! without this crate.

mod cli;
mod client;
mod counters;
mod demo;
mod echo_batch;
mod echo_std;
mod figures;
mod flights;
mod load;
mod net;
mod offloaded;
mod out;
mod payload;
mod percentiles;
mod refusal;
mod serve;
mod stop;

use std::process::ExitCode;

use cli::Command;

/// Why the program ends with a status other than 0: told in one line on the standard error.
pub struct Failure {
    status: u8,
    text: String,
}

impl Failure {
    /// What was asked for cannot be done: status 2.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { status: 2, text: text.into() }
    }

    /// What was done went wrong: status 1.
    pub fn outcome(text: impl Into<String>) -> Self {
        Self { status: 1, text: text.into() }
    }

    /// No signal can be waited for.
    pub fn no_signals(error: ctrlc::Error) -> Self {
        Self::outcome(format!("cannot wait for signals: {error}"))
    }
}

fn main() -> ExitCode {
    let command = match cli::parse() {
        Ok(command) => command,
        Err(cli::Ended::Helped) => return ExitCode::SUCCESS,
        Err(cli::Ended::Refused(failure)) => return report(&failure),
    };
    let result = match command {
        Command::Demo => demo::run(),
        Command::Serve(serve) => serve::run(&serve),
        Command::Load(load) => load::run(&load),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    out::error(&failure.text);
    ExitCode::from(failure.status)
}

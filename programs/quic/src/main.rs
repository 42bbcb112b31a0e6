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
//! `--stats` it says how datagrams were moved. `compare.sh` measures one against the other.
//!
//! `endpoint.rs` has what it takes to use this crate's sockets: its feature `quinn`, and another runtime.

mod certificate;
mod cli;
mod counted;
mod endpoint;
mod files;
mod get;
mod load;
mod protocol;
mod serve;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use cli::Command;
use tokio::runtime::Builder;

/// Whatever ends the program, in one line.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let command = cli::parse();
    // One thread, so that what is measured is not how work is spread, and two to read files.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
    let result = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            match &command {
                Command::Serve(options) => serve::run(options).await,
                Command::Get(options) => get::run(options).await,
                Command::Load(options) => load::run(options).await,
            }
        })
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line at once, also into a pipe. If nobody reads it any more, the work goes on.
fn say(line: impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

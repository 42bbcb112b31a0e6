//! A UDP forwarder and load balancer.
//!
//! ```text
//! cargo run --release -p forward -- 127.0.0.1:5300 127.0.0.1:5301 127.0.0.1:5302
//! ```
//!
//! Each client, known by its source address and port, has a session with an upstream: a socket of
//! its own, connected to it, by which its datagrams go there and the replies come back. New
//! sessions take the upstreams in turn. A session without a datagram either way for a while ends.
//!
//! Datagrams move by batches, and coalesced messages leave as GSO batches (`Offload`). What a socket
//! does not take at once waits in a `SendQueue` (`outlet.rs`): nothing is lost unless the queue is
//! full, and then it is counted. `forward.rs` is the loop around it, on mio's readiness.

mod cli;
mod figures;
mod forward;
mod outlet;
mod sessions;
mod stop;

use std::io::{self, Write};
use std::process::ExitCode;

use forward::Forwarder;

fn main() -> ExitCode {
    let options = cli::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &cli::Options) -> io::Result<()> {
    let mut forwarder = Forwarder::new(options)?;
    say(&format!("listening on {}\n", forwarder.addr()?));
    forwarder.run()?;
    say(&forwarder.figures().to_string());
    Ok(())
}

/// Prints at once, also into a pipe. If nobody reads it any more, the work goes on.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

//! The word to stop.

use std::io;

use mio::{Registry, Token, Waker};

/// Wakes the loop with an event of `token` at SIGINT and SIGTERM (on Windows: at Ctrl-C).
pub fn on_signals(registry: &Registry, token: Token) -> io::Result<()> {
    let waker = Waker::new(registry, token)?;
    // A second signal finds the loop ending already, and a waker that cannot wake finds nobody.
    ctrlc::set_handler(move || drop(waker.wake())).map_err(io::Error::other)
}

//! Starts the server, and programs that ask it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub use crate::running::{Ended, Program, Server, client, has_ipv6, loopbacks, skip};

pub fn zone() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("example.zone")
}

/// Starts `dns --listen ADDR --zone (the example's) ARGS`. Without a limit on answers unless ARGS set one, because
/// all these clients are in one network.
pub fn serve(addr: &str, args: &[&str]) -> Server {
    let zone = zone();
    let zone = zone.to_str().expect("a plain path");
    let all = ["--listen", addr, "--zone", zone];
    let unlimited: &[&str] =
        if args.contains(&"--rate-limit") { &[] } else { &["--rate-limit", "0"] };
    Server::start(env!("CARGO_BIN_EXE_dns"), all.iter().chain(unlimited).chain(args))
}

/// Runs a program to its end; prints why and returns `None` if it is not installed.
pub fn run(name: &str, args: &[&str]) -> Option<Output> {
    match Command::new(name).args(args).stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            skip("dns_cli", format_args!("{name} is not installed"));
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

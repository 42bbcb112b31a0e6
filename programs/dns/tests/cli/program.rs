//! The server as a running program, and programs that ask it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub use crate::running::{Ended, PATIENCE, Program, has_ipv6, loopbacks, skip};

pub fn zone() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("example.zone")
}

/// A server that runs, and its address, as it says.
pub struct Server {
    program: Program,
    pub addr: SocketAddr,
}

impl Server {
    /// Starts `dns --listen ADDR --zone (the example's) ARGS`.
    pub fn start(addr: &str, args: &[&str]) -> Self {
        let zone = zone();
        let zone = zone.to_str().expect("a plain path");
        let all = ["--listen", addr, "--zone", zone].into_iter().chain(args.iter().copied());
        let program = Program::start(env!("CARGO_BIN_EXE_dns"), all);
        let line = program.line();
        let said = line.strip_prefix("listening on ").expect("the first line says where");
        let addr = said.parse().expect("an address and a port");
        Self { program, addr }
    }

    /// Ends it by SIGTERM and gives the line of its totals.
    pub fn stop(self) -> String {
        self.program.signal(libc::SIGTERM);
        let ended = self.program.wait();
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
        ended.out.join("\n")
    }
}

/// Runs a program to its end; none, with a word about it, where it is not installed.
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

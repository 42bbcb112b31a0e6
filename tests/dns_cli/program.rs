//! The server as a running program, and programs that ask it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// How long to wait for what will come, if nothing is wrong.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where cargo has built the example; none, with a word about it, on a machine to which only test
/// binaries were brought.
pub fn example() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.parent().and_then(Path::parent).expect("it is in PROFILE/deps");
    let path = profile.join("examples").join("dns");
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CROSS_RUN").is_some(), "the example is not there: {path:?}");
    skip("dns_cli", "the example is not on this machine");
    None
}

pub fn zone() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/dns/example.zone")
}

pub fn skip(test: &str, reason: &str) {
    let _ = io::stderr().lock().write_all(format!("skipped: {test}: {reason}\n").as_bytes());
}

/// A server that runs, and is ended with the test.
pub struct Server {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    pub addr: SocketAddr,
}

impl Server {
    /// Starts `dns --listen ADDR --zone (the example's) ARGS`.
    pub fn start(addr: &str, args: &[&str]) -> Option<Self> {
        let mut child = Command::new(example()?)
            .args(["--listen", addr, "--zone"])
            .arg(zone())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        let said =
            line.trim_end().strip_prefix("listening on ").expect("the first line says where");
        let addr = said.parse().expect("an address and a port");
        Some(Self { child, out, addr })
    }

    /// Ends it by SIGTERM and gives the line of its totals.
    pub fn stop(mut self) -> String {
        let pid = self.child.id().try_into().expect("a pid is a pid_t");
        // SAFETY: kill takes no pointers; the pid is of a child that was not waited for, so that
        // it cannot be another's.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        assert_eq!(self.child.wait().expect("a child can be waited for").code(), Some(0));
        rest.trim_end().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop` both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end; none, with a word about it, where it is not installed.
pub fn run(name: &str, args: &[&str]) -> Option<Output> {
    match Command::new(name).args(args).stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            skip("dns_cli", &format!("{name} is not installed"));
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

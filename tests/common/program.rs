//! An example as a running program: started, written to, read from and stopped.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// The longest wait for anything that a program does at once, in an emulated machine as well.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Where cargo has built the example of this name: `.../PROFILE/examples/NAME`, where this test is
/// `.../PROFILE/deps/TEST-HASH`. None, with a word about it, on a machine to which only test
/// binaries were brought. A test binary asks for one example only.
pub fn example(name: &str) -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| find(name)).as_deref()
}

/// The same, for a test binary that asks for several, and for programs of other packages, which are
/// in `.../PROFILE/`. None, with a word about it, of a program that was not built.
pub fn find(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.parent().and_then(Path::parent).expect("it is in PROFILE/deps");
    let is_program = profile.join(name).exists() || ["dns", "forward", "quic"].contains(&name);
    let path = if is_program { profile.join(name) } else { profile.join("examples").join(name) };
    let build = if is_program {
        format!("`cargo test --workspace` builds it, and so does `cargo build -p {name}`")
    } else {
        format!(
            "`cargo test` builds it, and so does `cargo build --example {name}` (with the options of this test)"
        )
    };
    let Ok(built) = path.metadata().and_then(|meta| meta.modified()) else {
        if is_program || std::env::var_os("CROSS_RUN").is_some() {
            skip(name, format_args!("the program is not there: {}; {build}", path.display()));
            return None;
        }
        panic!("the example is not there: {}\n{build}", path.display());
    };
    let sources = std::fs::read_to_string(path.with_extension("d")).unwrap_or_default();
    let changed = sources
        .split_whitespace()
        .filter_map(|path| Path::new(path).metadata().ok()?.modified().ok());
    assert!(
        changed.max() <= Some(built),
        "the program is older than its source: {}\n{build}",
        path.display()
    );
    Some(path)
}

/// Prints what is not tested here and why, past the capture of the test harness.
pub fn skip(what: &str, reason: impl std::fmt::Display) {
    let line = format!("skipped: {what}: {reason}\n");
    // A skipped test that cannot print is no failure.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Receives a datagram. Linux ends a receive that has a timeout where the process is stopped for a
/// moment (signal(7)); it is made again then.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Whether this machine has IPv6 loopback; a word about it, once, if not.
pub fn has_ipv6() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let bound = UdpSocket::bind("[::1]:0");
        bound.inspect_err(|error| skip("what needs IPv6", error)).is_ok()
    })
}

/// Any port on loopback, of each family that this machine has.
pub fn loopbacks() -> impl Iterator<Item = &'static str> {
    ["127.0.0.1:0"].into_iter().chain(has_ipv6().then_some("[::1]:0"))
}

/// A program that was started, and is ended with the test.
pub struct Program {
    pub child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

/// How a program has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    /// The lines that were not read before.
    pub out: Vec<String>,
    pub err: Vec<String>,
}

impl Program {
    pub fn start<A: AsRef<OsStr>>(
        path: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut child = Command::new(path)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = lines(child.stdout.take().expect("it is piped"));
        let err = lines(child.stderr.take().expect("it is piped"));
        Self { child, out, err }
    }

    /// The next line that it prints.
    pub fn line(&self) -> String {
        self.out.recv_timeout(PATIENCE).expect("a line is printed")
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        // A program that does not end keeps its pipes open: then there is no end of lines.
        let (out, err) = (until_end(&self.out), until_end(&self.err));
        let status = self.child.wait().expect("a child can be waited for").code();
        Ended { status, out, err }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        let pid = self.child.id().try_into().expect("a pid is a pid_t");
        // SAFETY: kill takes no pointers; the pid is of a child that was not waited for, so that
        // it cannot be another's.
        let result = unsafe { libc::kill(pid, signal) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

/// A program that serves, and its address, as its first line says.
pub struct Server {
    pub program: Program,
    pub addr: SocketAddr,
}

impl Server {
    pub fn start<A: AsRef<OsStr>>(
        path: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let program = Program::start(path, args);
        let line = program.line();
        let addr = line.strip_prefix("listening on ").expect("the first line says where");
        let addr = addr.parse().expect("an address and a port");
        Self { program, addr }
    }

    /// Ends it by SIGTERM, without an error, and returns the lines that were not read before.
    #[track_caller]
    pub fn stop(self) -> Vec<String> {
        self.program.signal(libc::SIGTERM);
        let ended = self.program.wait();
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
        ended.out
    }
}

/// A socket on loopback of the same family as `addr`.
pub fn client(addr: SocketAddr) -> UdpSocket {
    let local = if addr.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(local).expect("a loopback socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    socket
}

impl Drop for Program {
    fn drop(&mut self) {
        // After `wait` both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines on a thread of its own, so that a test can give up waiting for one.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    receiver
}

fn until_end(lines: &Receiver<String>) -> Vec<String> {
    let mut read = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => read.push(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => return read,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no end; printed so far: {read:#?}"),
        }
    }
}

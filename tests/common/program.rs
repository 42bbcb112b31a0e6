//! A program under test: started, written to, read from and stopped.

// Each test binary uses only a part.
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

/// Time limit for anything that a program does at once, long enough for an emulated machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The path of a built example: `.../PROFILE/examples/NAME`, where this test is `.../PROFILE/deps/TEST-HASH`. Prints
/// why and returns `None` on a machine that has only test binaries. A test binary may use only one name.
pub fn example(name: &str) -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| find(name)).as_deref()
}

/// The path of any built example, or of another package's program in `.../PROFILE/`. Prints why and returns `None` if
/// it was not built.
pub fn find(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile = test.parent().and_then(Path::parent).expect("it is in PROFILE/deps");
    let is_program = profile.join(name).exists() || ["dns", "quic", "wireguard"].contains(&name);
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

/// Prints what is not tested and why, where the test harness does not capture it.
pub fn skip(what: &str, reason: impl std::fmt::Display) {
    let line = format!("skipped: {what}: {reason}\n");
    // A skipped test must not fail because it cannot print.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Receives a datagram. Tries again after EINTR, which Linux returns on a socket with a timeout when the process is
/// stopped for a moment (signal(7)).
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Whether this machine has IPv6 loopback; prints it once if not.
pub fn has_ipv6() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let bound = UdpSocket::bind("[::1]:0");
        bound.inspect_err(|error| skip("what needs IPv6", error)).is_ok()
    })
}

/// Any port on loopback, for each family that this machine has.
pub fn loopbacks() -> impl Iterator<Item = &'static str> {
    ["127.0.0.1:0"].into_iter().chain(has_ipv6().then_some("[::1]:0"))
}

/// A running program, which ends with the test.
pub struct Program {
    pub child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    /// The lines not read before.
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

    /// The next line that the program prints.
    pub fn line(&self) -> String {
        self.out.recv_timeout(PATIENCE).expect("a line is printed")
    }

    /// The next line of its errors.
    pub fn err_line(&self) -> String {
        self.err.recv_timeout(PATIENCE).expect("an error is printed")
    }

    /// Waits until the program ends.
    pub fn wait(mut self) -> Ended {
        // A hanging program keeps its pipes open, so its lines never end.
        let (out, err) = (until_end(&self.out), until_end(&self.err));
        let status = self.child.wait().expect("a child can be waited for").code();
        Ended { status, out, err }
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: libc::c_int) {
        let pid = self.child.id().try_into().expect("a pid is a pid_t");
        // SAFETY: kill takes no pointers. The child was not waited for, so the pid cannot belong to another process.
        let result = unsafe { libc::kill(pid, signal) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

/// A server and the address that its first line names.
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

    /// Ends the server with SIGTERM, checks that it printed no error, and returns the lines not read before.
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
        // Both fail harmlessly after `wait`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines on another thread, so that a test can stop waiting for one.
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

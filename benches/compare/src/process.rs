//! CPU time, user and kernel, of this thread and of a server's process, which this program starts from itself.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The CPU time of this thread. The measured loops never wait.
pub struct Clock(Duration);

impl Clock {
    pub fn start() -> Self {
        Self(now(libc::CLOCK_THREAD_CPUTIME_ID))
    }

    pub fn elapsed(&self) -> Duration {
        now(libc::CLOCK_THREAD_CPUTIME_ID) - self.0
    }
}

/// The CPU time of all threads of a process so far.
fn of_process(pid: u32) -> Duration {
    let mut clock = 0;
    // SAFETY: the call writes one clock's number.
    let status = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    assert_eq!(status, 0, "the process exists");
    now(clock)
}

fn now(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(status, 0, "the clock exists");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A server's process. Dropping this ends it.
pub struct Server {
    pub way: &'static str,
    pub addrs: Vec<SocketAddr>,
    child: Child,
    /// The server ends when this closes.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Runs this program with these arguments. Its first line has the addresses, as many as `sockets`.
    pub fn start(way: &'static str, args: &[&str], sockets: usize) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut server = Self { way, addrs: Vec::new(), child, stdin, stdout };
        let addrs = server.line()?;
        let addrs = addrs.split_whitespace().map(str::parse).collect::<Result<Vec<_>, _>>();
        server.addrs = addrs.map_err(io::Error::other)?;
        if server.addrs.len() == sockets {
            Ok(server)
        } else {
            Err(io::Error::other(format!("{way}: the server did not start")))
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map(|_| line)
    }

    /// Its CPU time so far.
    pub fn cpu(&self) -> Duration {
        of_process(self.child.id())
    }

    /// The number that a server on tokio answers: its system calls on sockets so far, and those that wait for them.
    pub fn calls(&mut self) -> io::Result<u64> {
        self.stdin.as_mut().expect("it is open until the end").write_all(b"\n")?;
        self.line()?.trim_end().parse().map_err(io::Error::other)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("compare: waiting for a server failed: {error}");
        }
    }
}

//! The demonstration: runs a server process in each mode and loads it from here.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::{Failure, Mode, Way, grouped, load, outcome, prepare, say};

const TIME: Duration = Duration::from_secs(3);
const SIZE: usize = 1200;
/// Enough datagrams in flight that neither side has to wait for the other to wake up, which takes longer than a batch
/// on a virtual machine; and no more than the receive buffers hold.
const WINDOW: usize = 512;
/// Bytes that the kernel charges to the receive buffer for a datagram of this size.
const CHARGE: usize = 2304;

/// Mode, argument and name, in the order of the table.
const MODES: [(Mode, &str, &str); 3] = [
    (Mode::Std, "std", "one at a time (std)"),
    (Mode::Batch, "batch", "in batches (mmsg)"),
    (Mode::Offload, "offload", "with offload (mmsg)"),
];

pub fn run() -> Result<(), Failure> {
    let window = WINDOW.min(receive_buffer() / CHARGE).max(1);
    say(format_args!(
        "An echo server and a load generator on loopback, a process each: {SIZE} bytes, {window} in flight, {} s.",
        TIME.as_secs(),
    ));
    let rows = MODES.map(|(mode, argument, name)| {
        let server = Server::start(argument)
            .map_err(|error| outcome(format!("cannot start a server: {error}")))?;
        let cpu = || [server.child.id(), std::process::id()].map(cpu_time);
        let before = cpu();
        let way = Way { mode, no_gso: false, no_gro: false };
        let report = load::measure(server.addr, way, SIZE, window, TIME, name)?;
        let (after, each) = (cpu(), report.received.max(1) as f64);
        // For the server and the load generator.
        let cpu = [0, 1].map(|side| match (before[side], after[side]) {
            (Some(before), Some(after)) => {
                format!("{:.0} ns each", (after - before).as_nanos() as f64 / each)
            }
            _ => "-".into(),
        });
        Ok((name, report, cpu))
    });
    let rows = rows.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    say(format_args!(
        "\n{:<22}{:>14}{:>14}{:>14}{:>8}",
        "datagrams", "per second", "server's CPU", "client's CPU", "lost"
    ));
    for (name, report, [server, client]) in &rows {
        let (rate, lost) = (grouped(report.rate()), grouped(report.lost() as f64));
        say(format_args!("{name:<22}{rate:>14}{server:>14}{client:>14}{lost:>8}"));
    }
    rows.iter().try_for_each(|(_, report, _)| report.verdict())
}

/// A server process. Dropping it ends the process.
struct Server {
    child: Child,
    addr: SocketAddr,
}

impl Server {
    fn start(mode: &str) -> std::io::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(["serve", "127.0.0.1:0", "--mode", mode])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line)?;
        let addr = line.trim().trim_start_matches("listening on ").parse();
        Ok(Self { child, addr: addr.map_err(std::io::Error::other)? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process, where there is /proc.
fn cpu_time(pid: u32) -> Option<Duration> {
    let of_task = |task: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    tasks.map(|task| of_task(task.ok()?)).sum::<Option<u64>>().map(Duration::from_nanos)
}

/// The size of the receive buffer that the system grants.
fn receive_buffer() -> usize {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None);
    let size = socket.and_then(|socket| prepare(&socket, TIME).and(socket.recv_buffer_size()));
    size.unwrap_or(1 << 16)
}

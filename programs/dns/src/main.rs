//! An authoritative DNS server, over UDP in batches and over TCP.
//!
//! ```text
//! cargo run --release -p dns -- --listen 127.0.0.1:5300 --zone programs/dns/example.zone
//! dig @127.0.0.1 -p 5300 +short ftp.example.test
//! ```
//!
//! The server prints its address; dig prints "www.example.test.", "192.0.2.80" and "192.0.2.81". README.md is for its
//! operator. Start reading at
//! `batch.rs`, which receives into a `RecvBatch` and answers with `send_each`; `plain.rs` does the same on tokio's socket,
//! for comparison. `responder.rs` limits the answers to each network (`limit.rs`) and checks DNS cookies.

mod answer;
mod batch;
mod limit;
mod parameters;
mod places;
mod plain;
mod query;
mod rdata;
mod reply;
mod responder;
mod tcp;
#[cfg(test)]
mod tests;
mod words;
mod zone;
mod zone_file;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Parser, ValueEnum, value_parser};
use mmsg::{Ancillary, Offload};
use mmsg_reuseport::ReusePortGroup;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use reply::UNFRAGMENTED;
use responder::Responder;
use zone::Zone;

/// An authoritative DNS server for one zone, over UDP and TCP.
#[derive(Parser)]
#[command(name = "dns", version)]
struct Args {
    /// Address and port to listen on, such as [fe80::1%eth0]:53; with port 0 the system picks one. May be given several
    /// times. [::]:53 serves IPv6 alone: give 0.0.0.0:53, too.
    #[arg(long, value_name = "ADDR", value_parser = address, required_unless_present = "check")]
    listen: Vec<SocketAddr>,

    /// Read the zone, say what is wrong with it, and end.
    #[arg(long)]
    check: bool,

    /// The zone, as a master file. SIGHUP reads it again; if that fails, the server keeps what it has. Without $ORIGIN, names are relative to the file's name without its last extension.
    #[arg(long, value_name = "FILE")]
    zone: PathBuf,

    /// Threads for each address, each with its own socket on the same port, among which the system spreads the clients.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Maximum of answers per second to each client network (/24, /56) over UDP; 0 for no limit. Every second query
    /// over the limit is told to use TCP, the others are dropped. Clients that return this server's cookie are not
    /// limited.
    #[arg(long, value_name = "N", default_value_t = 200)]
    rate_limit: u32,

    /// The longest answer over UDP, in bytes. Longer ones are truncated, and clients ask over TCP.
    #[arg(long, value_name = "BYTES", default_value_t = UNFRAGMENTED, value_parser = value_parser!(u16).range(512..=4096))]
    max_udp: u16,

    /// Maximum number of TCP connections; another one ends the one that was idle longest.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    tcp_connections: u16,

    /// How to move datagrams.
    #[arg(long, value_enum, default_value_t = Mode::Offload)]
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Batches, with this crate.
    Batch,
    /// Batches with GSO: answers of one length to one client leave as one buffer, which the kernel segments
    /// (UDP_SEGMENT).
    Offload,
    /// One datagram at a time on tokio's socket, without this crate, for comparison. The system chooses the answers'
    /// source address.
    Tokio,
}

/// Reads an address and a port. The system knows an interface by its name, std only by its number.
fn address(text: &str) -> Result<SocketAddr, String> {
    let with_interface = || {
        let (host, port) = text.strip_prefix('[')?.split_once("]:")?;
        let port: u16 = port.parse().ok()?;
        host.contains('%').then(|| (host, port).to_socket_addrs().ok()?.next())?
    };
    let plain = text.parse().ok();
    plain.or_else(with_interface).ok_or_else(|| "expected ADDRESS:PORT or [ADDRESS]:PORT".into())
}

/// How long a call waits before its thread checks whether to stop.
const WAIT: Duration = Duration::from_millis(200);
/// Buffer space to ask for, to hold bursts; the system grants at most net.core.rmem_max and wmem_max.
const BUFFER_BYTES: usize = 4 << 20;

/// Set by SIGINT, SIGTERM, and by a thread that ends or panics. Threads check it between calls.
static STOP: AtomicBool = AtomicBool::new(false);

struct StopAtEnd;

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        STOP.store(true, Relaxed);
    }
}

/// Totals of one thread.
#[derive(Clone, Copy, Default)]
struct Totals {
    received: u64,
    answered: u64,
}

fn main() -> ExitCode {
    let Err(failure) = run(&Args::parse()) else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "error: {failure}");
    ExitCode::FAILURE
}

fn run(args: &Args) -> Result<(), String> {
    let cannot = |what| move |error: io::Error| format!("cannot {what}: {error}");
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot("start"))?;
    // Before the zone is read, which may take seconds: a SIGHUP waits until it can be served.
    let hangup = runtime.block_on(async { signal(SignalKind::hangup()) });
    let hangup = hangup.map_err(cannot("take signals"))?;
    let zone = Zone::load(&args.zone)?;
    if args.check {
        say(format_args!("{}: {zone}", args.zone.display()));
        return Ok(());
    }
    let responder = Arc::new(Responder::new(zone, args.rate_limit, args.max_udp)?);
    let listen_on = |addr: &SocketAddr| {
        listen(args, *addr).map_err(|error| format!("cannot listen on {addr}: {error}"))
    };
    let listeners = args.listen.iter().map(listen_on).collect::<Result<Vec<_>, _>>()?;
    let (groups, tcp): (Vec<_>, Vec<_>) = listeners.into_iter().unzip();
    let addrs: Vec<_> = groups.iter().map(ReusePortGroup::local_addr).collect();
    // GRO off: single queries from many clients never coalesce.
    let offload = Offload::<()>::builder().gso(args.mode == Mode::Offload).gro(false);
    let sockets = groups.into_iter().flatten().map(|socket| offload.build(socket));
    let sockets: Vec<_> = sockets.collect::<Result<_, _>>().map_err(cannot("serve"))?;
    start_streams(runtime, hangup, tcp, args, &responder).map_err(cannot("serve by TCP"))?;

    let serve = |socket: &Offload<UdpSocket>| {
        let _stop = StopAtEnd;
        match args.mode {
            Mode::Batch | Mode::Offload => Ok(batch::run(socket, &responder)),
            Mode::Tokio => plain::run(socket.get_ref(), &responder),
        }
    };
    let all = thread::scope(|scope| {
        let serve = &serve;
        let start = |socket| thread::Builder::new().spawn_scoped(scope, move || serve(socket));
        let threads = sockets.iter().map(start).collect::<io::Result<Vec<_>>>();
        // Without one of its threads, a server would leave that socket's clients without answers.
        let threads = threads.inspect_err(|_| STOP.store(true, Relaxed))?;
        addrs.iter().for_each(|addr| say(format_args!("listening on {addr}")));
        let mut all = Totals::default();
        for thread in threads {
            let totals = thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
            all.received += totals.received;
            all.answered += totals.answered;
        }
        Ok(all)
    });
    let Totals { received, answered } = all.map_err(cannot("serve"))?;
    let (failed, by_tcp) = (&responder.counts.send_errors, &responder.counts.tcp_queries);
    let (failed, by_tcp) = (failed.load(Relaxed), by_tcp.load(Relaxed));
    // For lack of space, also while none was received.
    let dropped = |socket: &Offload<UdpSocket>| mmsg::options::dropped(socket.get_ref());
    let dropped: u64 =
        sockets.iter().filter_map(|socket| dropped(socket).ok()).map(u64::from).sum();
    say(format_args!(
        "total: received {received}, answered {answered}, failed {failed}, dropped by the system {dropped}, by TCP \
         {by_tcp}"
    ));
    Ok(())
}

/// Prints a line. A closed pipe does not end the server.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Starts a thread for signals and DNS over TCP. It runs as long as the process.
fn start_streams(
    runtime: Runtime,
    hangup: Signal,
    tcp: Vec<TcpListener>,
    args: &Args,
    responder: &Arc<Responder>,
) -> io::Result<()> {
    let guard = runtime.enter();
    let listen = |listener: TcpListener| {
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    };
    let connections = max_connections(args) / tcp.len();
    // Tasks, so that they take turns with the connections. None ends but by a panic.
    let mut listeners = JoinSet::new();
    for listener in tcp {
        listeners.spawn(tcp::serve(listen(listener)?, Arc::clone(responder), connections.max(1)));
    }
    runtime.spawn(signals(hangup, args.zone.clone(), Arc::clone(responder))?);
    drop(guard);
    let serve = move || {
        let _stop = StopAtEnd;
        drop(runtime.block_on(listeners.join_next()));
    };
    thread::Builder::new().name("streams".into()).spawn(serve).map(drop)
}

/// Loads the zone again at each SIGHUP, and sets `STOP` at SIGINT or SIGTERM.
fn signals(
    mut hangup: Signal,
    path: PathBuf,
    responder: Arc<Responder>,
) -> io::Result<impl Future<Output = ()>> {
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // A SIGHUP that comes while the zone loads is one more; others beside it are the same.
    let (ask, asked) = mpsc::sync_channel(1);
    let load = move || match Zone::load(&path) {
        Ok(zone) => {
            let loaded = format!("loaded {}: {zone}", path.display());
            responder.replace(zone);
            say(loaded);
        }
        Err(failure) => {
            let _ = writeln!(io::stderr(), "error: {failure}; the zone stays as it was");
        }
    };
    // A thread of its own: a large zone takes seconds.
    thread::Builder::new().name("zone".into()).spawn(move || asked.iter().for_each(|()| load()))?;
    Ok(async move {
        let _stop = StopAtEnd;
        loop {
            tokio::select! {
                _ = hangup.recv() => drop(ask.try_send(())),
                _ = int.recv() => break,
                _ = term.recv() => break,
            }
        }
    })
}

/// The TCP connections asked for, or fewer if the process may not open as many descriptors.
fn max_connections(args: &Args) -> usize {
    // A socket for each thread and tokio's copy, the listeners, the runtime and the standard streams.
    let each = 2 * u64::from(args.threads) + 1;
    let others = each * args.listen.len() as u64 + 16;
    let limit =
        rlimit::increase_nofile_limit(others + u64::from(args.tcp_connections)).unwrap_or(1024);
    limit.saturating_sub(others).clamp(1, args.tcp_connections.into()) as usize
}

/// Binds a UDP socket for each thread and a TCP listener to one port. A port in use by another server is an error.
fn listen(args: &Args, addr: SocketAddr) -> io::Result<(ReusePortGroup, TcpListener)> {
    loop {
        let group = listen_udp(args, addr)?;
        match listen_tcp(group.local_addr()) {
            Ok(tcp) => return Ok((group, tcp)),
            // The port that the system chose for UDP is in use for TCP.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && addr.port() == 0 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Binds a TCP listener as std does, but for IPv6 alone if the address is of IPv6.
fn listen_tcp(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

fn listen_udp(args: &Args, addr: SocketAddr) -> io::Result<ReusePortGroup> {
    // On a wildcard address, answers must leave from the address that was asked: clients take others for forged.
    let needs_dest = args.mode != Mode::Tokio && addr.ip().is_unspecified();
    let prepare = move |socket: &Socket| {
        // If the system rejects the size, the socket keeps its own.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        // In both directions, since a full socket must not delay the end either.
        socket.set_read_timeout(Some(WAIT))?;
        socket.set_write_timeout(Some(WAIT))?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if needs_dest { Ancillary::DEST.require(socket) } else { Ok(()) }
    };
    let (count, group) = (args.threads.into(), ReusePortGroup::builder(addr));
    // Only Linux can reserve an address for one group of sockets.
    let alone = count == 1 || cfg!(target_os = "linux");
    group.members(count).prepare(prepare).exclusive(alone).bind()
}

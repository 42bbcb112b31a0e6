//! The server.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use mmsg::{Ancillary, BatchSocket, BatchSocketExt, Offload, RecvBatch};
use mmsg_reuseport::ReusePortGroup;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::{Failure, Mode, Way, grouped, is_timeout, outcome, prepare, say};

#[derive(Args)]
pub struct Options {
    /// Address and port to listen on; with port 0 the system picks one.
    addr: SocketAddr,

    /// Maximum number of messages in one receive (not in mode std). A coalesced message counts as one.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u16).range(1..=1024))]
    batch: u16,

    /// Threads, each with its own socket on the same port, among which the system spreads the clients (Linux,
    /// Android, FreeBSD, DragonFly).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    threads: u16,

    #[command(flatten)]
    way: Way,
}

/// How long a call waits before its thread checks whether to stop.
const WAIT: Duration = Duration::from_millis(200);
/// Holds any datagram and any coalesced message. Pages that are never written take no memory.
const LARGEST: usize = 65_535;

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Totals of all threads.
static RECEIVED: AtomicU64 = AtomicU64::new(0);
static SENT: AtomicU64 = AtomicU64::new(0);
/// Errors of the system, and replies given up because of them.
static ERRORS: AtomicU64 = AtomicU64::new(0);
/// Datagrams that are not answered: truncated, from a source that takes no replies, or from the server's own port,
/// where another echo server would answer for ever.
static IGNORED: AtomicU64 = AtomicU64::new(0);

fn totals() -> [u64; 4] {
    [&RECEIVED, &SENT, &ERRORS, &IGNORED].map(|counter| counter.load(Relaxed))
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let way = options.way.check()?;
    let cannot = |error| outcome(format!("cannot listen on {}: {error}", options.addr));
    // A second server on the port is rejected. Only Linux can reserve an address for one group of sockets.
    let group = ReusePortGroup::builder(options.addr)
        .members(options.threads.into())
        .exclusive(options.threads == 1 || cfg!(target_os = "linux"))
        .prepare(|socket| prepare(socket, WAIT));
    let group = group.bind().map_err(cannot)?;
    let addr = group.local_addr();
    let server = |socket| server(socket, way, options.batch.into());
    let servers: Vec<_> =
        group.into_iter().map(server).collect::<io::Result<_>>().map_err(cannot)?;
    // SIGHUP ends it too, or is ignored as under nohup: a handler would undo that.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&STOP))
            .map_err(|error| outcome(format!("cannot wait for signals: {error}")))?;
    }
    // Started before the threads, so that the first datagrams count too.
    let start = Instant::now();
    let (mut before, mut then) = (totals(), start);
    let threads: Vec<_> = servers.into_iter().map(thread::spawn).collect();
    say(format_args!("listening on {addr}"));
    // A thread that ends before `STOP` is set has failed.
    while !STOP.load(Relaxed) && !threads.iter().any(thread::JoinHandle::is_finished) {
        thread::sleep(WAIT.min(Duration::from_secs(1).saturating_sub(then.elapsed())));
        if then.elapsed() >= Duration::from_secs(1) {
            let now = totals();
            say_rates(before, now, then.elapsed());
            (before, then) = (now, Instant::now());
        }
    }
    STOP.store(true, Relaxed);
    for thread in threads {
        thread.join().map_err(|_| outcome("a thread of the server failed"))?;
    }
    let ([received, sent, errors, ignored], time) = (totals(), start.elapsed().as_secs_f64());
    say(format_args!(
        "total: received {received}, sent {sent}, errors {errors}, ignored {ignored}, in {time:.1} s"
    ));
    Ok(())
}

/// Prepares a thread's work. Whatever can fail is done here, before the address is printed.
fn server(socket: UdpSocket, way: Way, slots: usize) -> io::Result<Box<dyn FnOnce() + Send>> {
    let batch = RecvBatch::try_new(slots, LARGEST)?;
    let addr = socket.local_addr()?;
    let port = addr.port();
    // On a wildcard address, replies leave from the address that the client asked: it ignores others.
    if addr.ip().is_unspecified() && !matches!(way.mode, Mode::Std) {
        Ancillary::DEST.require(&socket)?;
    }
    Ok(match way.mode {
        Mode::Std => Box::new(move || single(&socket, port)),
        Mode::Batch => Box::new(move || batches(&socket, port, batch)),
        Mode::Offload => {
            let socket = way.offload().build(socket)?;
            Box::new(move || {
                batches(&socket, port, batch);
                say_offload(&socket);
            })
        }
    })
}

/// Uses `recv_from` and `send_to`, which leaves by the system's choice of address.
fn single(socket: &UdpSocket, port: u16) {
    let mut buffer = vec![0; LARGEST];
    while !STOP.load(Relaxed) {
        let (len, source) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) => {
                receive_failed(&error);
                continue;
            }
        };
        RECEIVED.fetch_add(1, Relaxed);
        if [0, port].contains(&source.port()) {
            IGNORED.fetch_add(1, Relaxed);
            continue;
        }
        let sent = loop {
            match socket.send_to(&buffer[..len], source) {
                Err(error) if is_timeout(&error) && !STOP.load(Relaxed) => {}
                result => break result.is_ok(),
            }
        };
        if sent { &SENT } else { &ERRORS }.fetch_add(1, Relaxed);
    }
}

/// Uses `recv_into` and `send_each`.
fn batches(socket: &impl BatchSocket, port: u16, mut batch: RecvBatch) {
    while !STOP.load(Relaxed) {
        if let Err(error) = socket.recv_into(&mut batch) {
            receive_failed(&error);
            continue;
        }
        // A coalesced message that lost its segment size has no datagrams, and counts as one.
        let received: usize =
            batch.messages().map(|message| message.datagrams().len().max(1)).sum();
        let replies = || {
            let whole = batch.iter().filter(|datagram| !datagram.truncated());
            let clients =
                whole.filter(|datagram| datagram.addr().is_some_and(|from| from.port() != port));
            clients.filter_map(|datagram| datagram.reply(datagram.data()))
        };
        let (mut handled, mut errors) = (0, 0);
        loop {
            match socket.send_each(replies().skip(handled), |_, _| errors += 1) {
                Ok(0) => break,
                Ok(count) => handled += count,
                // The socket had no space before its timeout.
                Err(_) if !STOP.load(Relaxed) => {}
                Err(_) => {
                    let given_up = replies().skip(handled).count();
                    (handled, errors) = (handled + given_up, errors + given_up);
                    break;
                }
            }
        }
        RECEIVED.fetch_add(received as u64, Relaxed);
        SENT.fetch_add((handled - errors) as u64, Relaxed);
        ERRORS.fetch_add(errors as u64, Relaxed);
        IGNORED.fetch_add((received - handled) as u64, Relaxed);
    }
}

/// Counts the error of a receive. The pause keeps a repeating error from occupying a core.
fn receive_failed(error: &io::Error) {
    if !is_timeout(error) {
        ERRORS.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Prints the rates if any counter has changed.
fn say_rates(before: [u64; 4], now: [u64; 4], time: Duration) {
    if before != now {
        let rate = |i: usize| grouped((now[i] - before[i]) as f64 / time.as_secs_f64());
        let (received, sent, [.., errors, ignored]) = (rate(0), rate(1), now);
        say(format_args!(
            "received {received:>9}/s  sent {sent:>9}/s  errors {errors}  ignored {ignored}"
        ));
    }
}

pub fn say_offload(socket: &Offload<UdpSocket>) {
    let counters = socket.state().counters();
    let on = |on| if on { "on" } else { "off" };
    say(format_args!(
        "GSO {}, batches sent {} ({} segments), rejected {}; GRO {}, coalesced messages received {} ({} segments)",
        on(socket.state().gso()),
        counters.sent_batches,
        counters.sent_segments,
        counters.rejected_unsupported + counters.rejected_size,
        on(socket.state().gro()),
        counters.received_coalesced,
        counters.received_segments,
    ));
}

//! The server.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use mmsg::{BatchSocket, Offload, RecvBatch, SendQueue};

use crate::{Failure, Mode, Way, grouped, is_timeout, outcome, say, socket, usage};

#[derive(Args)]
pub struct Options {
    /// Address and port to listen on; with port 0 the system picks one.
    addr: SocketAddr,

    /// Messages to receive in one call at most, not in mode std; a coalesced message is one.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u16).range(1..=1024))]
    batch: u16,

    /// Threads, each with a socket of its own on the same port; the system spreads the clients.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    threads: u16,

    #[command(flatten)]
    way: Way,
}

/// How long a thread waits in a call before it checks whether to stop.
const WAIT: Duration = Duration::from_millis(200);
/// Holds any datagram and any coalesced message. Pages that no datagram reaches take no memory.
const LARGEST: usize = 65_535;

static STOP: AtomicBool = AtomicBool::new(false);
static COUNTERS: Counters = Counters::new();

/// What all threads have done.
struct Counters {
    received: AtomicU64,
    sent: AtomicU64,
    /// Errors that the system returned, and replies given up for them.
    errors: AtomicU64,
    /// Datagrams that cannot be sent back: truncated, or without a source that takes replies.
    ignored: AtomicU64,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let way = options.way.check()?;
    let cannot = |error| usage(format!("cannot listen on {}: {error}", options.addr));
    let sockets = listen(options.addr, options.threads).map_err(cannot)?;
    let addr = sockets[0].local_addr().map_err(cannot)?;
    let ready = sockets.into_iter().map(|socket| Ready::new(socket, way));
    let ready: Vec<_> = ready.collect::<io::Result<_>>().map_err(cannot)?;
    let main = thread::current();
    ctrlc::set_handler(move || {
        STOP.store(true, Relaxed);
        main.unpark();
    })
    .map_err(|error| outcome(format!("cannot wait for signals: {error}")))?;
    thread::scope(|scope| {
        let serve = |ready: Ready| scope.spawn(move || ready.serve(options.batch.into()));
        let workers: Vec<_> = ready.into_iter().map(serve).collect();
        say(format_args!("listening on {addr}"));
        let start = Instant::now();
        let (mut before, mut then) = (COUNTERS.totals(), start);
        // A thread that ends before that has failed.
        while !STOP.load(Relaxed) && !workers.iter().any(|worker| worker.is_finished()) {
            thread::park_timeout(Duration::from_secs(1).saturating_sub(then.elapsed()));
            if then.elapsed() >= Duration::from_secs(1) {
                say_rates(before, COUNTERS.totals(), then.elapsed());
                (before, then) = (COUNTERS.totals(), Instant::now());
            }
        }
        STOP.store(true, Relaxed);
        for worker in workers {
            worker
                .join()
                .map_err(|_| outcome("a thread of the server failed"))?
                .map_err(|error| outcome(format!("cannot serve: {error}")))?;
        }
        let [received, sent, errors, ignored] = COUNTERS.totals();
        let time = start.elapsed().as_secs_f64();
        say(format_args!(
            "total: received {received}, sent {sent}, errors {errors}, ignored {ignored}, in {time:.1} s"
        ));
        Ok(())
    })
}

/// Sockets on one port. The first one does not share the port while it binds, so that a second
/// server is rejected.
fn listen(addr: SocketAddr, count: u16) -> io::Result<Vec<UdpSocket>> {
    if count == 1 {
        return Ok(vec![socket(addr, false, WAIT)?]);
    }
    let addr = socket(addr, false, WAIT)?.local_addr()?;
    (0..count).map(|_| socket(addr, true, WAIT)).collect()
}

/// A socket with its options set, before its address is printed.
enum Ready {
    Std(UdpSocket),
    Batch(UdpSocket),
    Offload(Box<Offload<UdpSocket>>),
}

impl Ready {
    fn new(socket: UdpSocket, way: Way) -> io::Result<Self> {
        Ok(match way.mode {
            Mode::Std => Self::Std(socket),
            Mode::Batch => Self::Batch(socket),
            Mode::Offload => Self::Offload(Box::new(way.offload().build(socket)?)),
        })
    }

    fn serve(self, slots: usize) -> io::Result<()> {
        match self {
            Self::Std(socket) => single(&socket),
            Self::Batch(socket) => Batched::new(&socket, slots)?.run(),
            Self::Offload(socket) => {
                Batched::new(&*socket, slots)?.run();
                say_offload(&socket);
            }
        }
        Ok(())
    }
}

/// `recv_from` and `send_to`.
fn single(socket: &UdpSocket) {
    let mut buffer = vec![0; LARGEST];
    while !STOP.load(Relaxed) {
        let (len, source) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) => {
                receive_failed(&error);
                continue;
            }
        };
        COUNTERS.received.fetch_add(1, Relaxed);
        if source.port() == 0 {
            COUNTERS.ignored.fetch_add(1, Relaxed);
            continue;
        }
        let sent = loop {
            match socket.send_to(&buffer[..len], source) {
                Err(error) if is_timeout(&error) && !STOP.load(Relaxed) => {}
                result => break result.is_ok(),
            }
        };
        let counter = if sent { &COUNTERS.sent } else { &COUNTERS.errors };
        counter.fetch_add(1, Relaxed);
    }
}

/// The same in batches. Nothing is received while replies wait, so the queue holds one batch.
struct Batched<'a, S> {
    socket: &'a S,
    batch: RecvBatch,
    replies: SendQueue,
}

impl<'a, S: BatchSocket> Batched<'a, S> {
    fn new(socket: &'a S, slots: usize) -> io::Result<Self> {
        let batch = RecvBatch::try_new(slots, LARGEST)?;
        Ok(Self { socket, batch, replies: SendQueue::new(usize::MAX) })
    }

    fn run(&mut self) {
        while !STOP.load(Relaxed) {
            match self.socket.recv_into(&mut self.batch) {
                Ok(_) => self.reply(),
                Err(error) => receive_failed(&error),
            }
            self.send();
        }
    }

    fn reply(&mut self) {
        let (mut received, mut ignored) = (0, 0);
        for message in self.batch.messages() {
            // One whose segment size was lost has no datagrams.
            received += message.datagrams().len().max(1) as u64;
            ignored += u64::from(message.datagrams().len() == 0);
        }
        for datagram in &self.batch {
            let reply = datagram.reply(datagram.data()).filter(|_| !datagram.truncated());
            match reply.map(|reply| self.replies.push(&reply)) {
                Some(Ok(())) => {}
                _ => ignored += 1,
            }
        }
        COUNTERS.received.fetch_add(received, Relaxed);
        COUNTERS.ignored.fetch_add(ignored, Relaxed);
    }

    /// Sends the replies in order. An error is about the first one: it is dropped, and the others go
    /// on; but "connection refused" may be about a datagram sent before, so that one is tried again.
    fn send(&mut self) {
        let mut refused = false;
        while !self.replies.is_empty() {
            match self.socket.flush(&mut self.replies) {
                Ok(sent) => {
                    COUNTERS.sent.fetch_add(sent as u64, Relaxed);
                    refused = false;
                }
                Err(error) if is_timeout(&error) => {
                    if STOP.load(Relaxed) {
                        COUNTERS.errors.fetch_add(self.replies.len() as u64, Relaxed);
                        return;
                    }
                }
                Err(error) => {
                    COUNTERS.errors.fetch_add(1, Relaxed);
                    if error.kind() == io::ErrorKind::ConnectionRefused && !refused {
                        refused = true;
                        continue;
                    }
                    refused = false;
                    self.replies.discard_front();
                }
            }
        }
    }
}

/// A receive's error is about no datagram at hand. One that comes again and again takes no core.
fn receive_failed(error: &io::Error) {
    if !is_timeout(error) {
        COUNTERS.errors.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_millis(1));
    }
}

impl Counters {
    const fn new() -> Self {
        let [received, sent, errors, ignored] = [const { AtomicU64::new(0) }; 4];
        Self { received, sent, errors, ignored }
    }

    fn totals(&self) -> [u64; 4] {
        [&self.received, &self.sent, &self.errors, &self.ignored].map(|n| n.load(Relaxed))
    }
}

/// Prints what changed, if anything did.
fn say_rates(before: [u64; 4], now: [u64; 4], time: Duration) {
    if before != now {
        let rate = |i: usize| grouped((now[i] - before[i]) as f64 / time.as_secs_f64());
        let (received, sent) = (rate(0), rate(1));
        let [.., errors, ignored] = now;
        say(format_args!(
            "received {received:>9}/s  sent {sent:>9}/s  errors {errors}  ignored {ignored}"
        ));
    }
}

pub fn say_offload(socket: &Offload<UdpSocket>) {
    let counters = socket.counters();
    let on = |on| if on { "on" } else { "off" };
    say(format_args!(
        "GSO {}, batches sent {} ({} segments), rejected {}; GRO {}, coalesced messages received {} ({} segments)",
        on(socket.gso()),
        counters.sent_batches,
        counters.sent_segments,
        counters.rejected_unsupported + counters.rejected_size,
        on(socket.gro()),
        counters.received_coalesced,
        counters.received_segments,
    ));
}

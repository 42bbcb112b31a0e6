//! The server: its threads, its figures, its end.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use mmsg::Offload;

use crate::cli::{self, Mode, Way};
use crate::counters::{Counters, Totals};
use crate::echo_batch::BatchEcho;
use crate::offloaded::{EchoSocket, Offloaded};
use crate::stop::{RaiseAtEnd, Stop};
use crate::{Failure, echo_std, figures, net, out};

pub fn run(args: &cli::Serve) -> Result<(), Failure> {
    if let Some(backend) = args.backend() {
        backend.select().map_err(|_| Failure::usage("this system has no recvmmsg and sendmmsg"))?;
    }
    let sockets = net::listen(args.addr, args.threads.into())
        .map_err(|error| Failure::usage(format!("cannot listen on {}: {error}", args.addr)))?;
    let addr = sockets[0]
        .local_addr()
        .map_err(|error| Failure::outcome(format!("the socket has no address: {error}")))?;
    // Both before the line that says so: who has read it may send datagrams or a signal at once.
    let ready = sockets.iter().map(|socket| Ready::new(socket, args.way));
    let ready = ready.collect::<Result<Vec<_>, _>>()?;
    let stop = Stop::on_signals().map_err(Failure::no_signals)?;
    let counters: Vec<_> = sockets.iter().map(|_| Counters::default()).collect();

    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (socket, counters) in ready.iter().zip(&counters) {
            let work = || {
                // If one ends, by whatever fault, so do all.
                let _raise = RaiseAtEnd(&stop);
                socket.echo(args.batch.into(), counters, &stop)
            };
            match thread::Builder::new().spawn_scoped(scope, work) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    stop.raise();
                    return Err(Failure::outcome(format!("cannot start a thread: {error}")));
                }
            }
        }
        out::line(format_args!("listening on {addr}"));
        let start = Instant::now();
        tell_each_second(&counters, start, &stop);
        for worker in workers {
            worker.join().map_err(|_| Failure::outcome("a thread of the server failed"))??;
        }
        if let Some(all) = ready.iter().filter_map(Ready::offloaded).reduce(Offloaded::and) {
            out::line(all);
        }
        tell_totals(sum(&counters), start.elapsed());
        Ok(())
    })
}

/// A socket in the way that it is to be served.
pub enum Ready<'a> {
    Std(&'a UdpSocket),
    Batch(&'a UdpSocket),
    Offload(Offload<&'a UdpSocket>),
}

impl<'a> Ready<'a> {
    pub fn new(socket: &'a UdpSocket, way: Way) -> Result<Self, Failure> {
        Ok(match way.mode {
            Mode::Std => Self::Std(socket),
            Mode::Batch => Self::Batch(socket),
            Mode::Offload => Self::Offload(
                way.offload()
                    .build(socket)
                    .map_err(|error| Failure::outcome(format!("cannot set up offload: {error}")))?,
            ),
        })
    }

    /// Serves it until told to stop.
    pub fn echo(&self, batch: usize, counters: &Counters, stop: &Stop) -> Result<(), Failure> {
        let no_memory = |error| Failure::outcome(format!("no memory for a batch: {error}"));
        match self {
            Self::Std(socket) => echo_std::run(socket, counters, stop),
            Self::Batch(socket) => {
                BatchEcho::new(*socket, batch, counters).map_err(no_memory)?.run(stop);
            }
            Self::Offload(socket) => {
                BatchEcho::new(socket, batch, counters).map_err(no_memory)?.run(stop);
            }
        }
        Ok(())
    }

    fn offloaded(&self) -> Option<Offloaded> {
        match self {
            Self::Std(_) | Self::Batch(_) => None,
            Self::Offload(socket) => socket.offloaded(),
        }
    }
}

fn sum(counters: &[Counters]) -> Totals {
    counters.iter().map(Counters::totals).fold(Totals::default(), |sum, one| sum + one)
}

/// Prints a line of figures each second in which there was something to tell, until told to stop.
fn tell_each_second(counters: &[Counters], start: Instant, stop: &Stop) {
    let second = Duration::from_secs(1);
    let (mut before, mut then, mut next) = (Totals::default(), start, start + second);
    while !stop.wait(next.saturating_duration_since(Instant::now())) {
        let (now, at) = (sum(counters), Instant::now());
        let (news, time) = (now - before, at - then);
        if news != Totals::default() {
            out::line(format_args!(
                "{:5} s  received {:>9}/s  sent {:>9}/s  {:>6} a system call  errors {}  ignored {}",
                start.elapsed().as_secs(),
                figures::count(figures::rate(news.received, time)),
                figures::count(figures::rate(news.sent, time)),
                figures::each(news.received + news.sent, news.calls),
                figures::count(news.errors),
                figures::count(news.ignored),
            ));
        }
        (before, then) = (now, at);
        // A second that was slept through, on a machine that was halted, is not made up for.
        next = (next + second).max(at);
    }
}

fn tell_totals(totals: Totals, time: Duration) {
    out::line(format_args!(
        "total: received {}, sent {}, system calls {} ({} datagrams each), errors {}, ignored {}, in {}",
        figures::count(totals.received),
        figures::count(totals.sent),
        figures::count(totals.calls),
        figures::each(totals.received + totals.sent, totals.calls),
        figures::count(totals.errors),
        figures::count(totals.ignored),
        figures::time(time),
    ));
}

//! The load generator: keeps datagrams in flight and checks the replies.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use mmsg::{BatchSocket, RecvBatch, SendMsg};
use socket2::{Domain, Socket, Type};

use crate::flights::{Flights, Landed, Payload};
use crate::{Failure, Mode, Way, grouped, is_timeout, outcome, prepare, say, usage};

#[derive(Args)]
pub struct Options {
    /// Address and port of the server.
    addr: SocketAddr,

    /// Bytes of payload. Each datagram begins with its number.
    #[arg(long, value_name = "BYTES", default_value_t = 1200, value_parser = value_parser!(u16).range(8..=65507))]
    size: u16,

    /// How long to send. The generator then waits for the datagrams in flight.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    seconds: Duration,

    /// Datagrams in flight. One that does not come back within half a second frees its place.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = value_parser!(u32).range(1..=1_000_000))]
    window: u32,

    #[command(flatten)]
    way: Way,
}

/// How long a datagram keeps its place in the window.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a call waits before the generator checks for overdue datagrams.
const WAIT: Duration = Duration::from_millis(20);
/// Maximum of datagrams to send, and of messages to receive, in one call.
const BATCH: usize = 64;

/// The result of a load.
pub struct Report {
    pub sent: u64,
    /// Datagrams that came back unchanged.
    pub received: u64,
    /// Replies that came twice, or after their datagram had lost its place.
    repeated: u64,
    /// Replies that differ from what was sent.
    changed: u64,
    errors: u64,
    last_error: Option<io::Error>,
    /// Nanoseconds.
    round_trips: Histogram<u64>,
    /// From the first send to the last receive.
    pub time: Duration,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let way = options.way.check()?;
    let (size, window) = (options.size.into(), options.window as usize);
    if options.addr.port() == 0 {
        return Err(usage(format!("cannot send to {}: the port is 0", options.addr)));
    }
    say(format_args!("{size}-byte datagrams, {window} in flight, to {}", options.addr));
    let report = measure(options.addr, way, size, window, options.seconds, "")?;
    report.print();
    report.verdict()
}

/// Keeps `window` datagrams in flight for `time`. `name` labels the progress bar.
pub fn measure(
    to: SocketAddr,
    way: Way,
    size: usize,
    window: usize,
    time: Duration,
    name: &'static str,
) -> Result<Report, Failure> {
    let cannot = |error| usage(format!("cannot send to {to}: {error}"));
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, None).map_err(cannot)?;
    prepare(&socket, WAIT).map_err(cannot)?;
    socket.connect(&to.into()).map_err(cannot)?;
    let socket = UdpSocket::from(socket);
    let payload = Payload::new(size);
    Ok(match way.mode {
        Mode::Std => generate(Single::new(&socket, &payload), &payload, window, time, name),
        Mode::Batch => {
            // One byte more than is sent, so that a longer reply is noticed.
            let client = Batched::new(&socket, &payload, size + 1);
            generate(client, &payload, window, time, name)
        }
        Mode::Offload => {
            let socket = way.offload().build(socket).map_err(cannot)?;
            let client = Batched::new(&socket, &payload, 65_535);
            let report = generate(client, &payload, window, time, name);
            if name.is_empty() {
                crate::serve::say_offload(&socket);
            }
            report
        }
    })
}

/// Keeps `window` datagrams in flight for `time`, then waits for those still in flight.
fn generate(
    mut client: impl Client,
    payload: &Payload,
    window: usize,
    time: Duration,
    name: &'static str,
) -> Report {
    let start = Instant::now();
    let mut progress = Progress::new(name, start, time);
    let mut flights = Flights::default();
    let mut report = Report::new();
    loop {
        let now = Instant::now();
        flights.give_up(now, PATIENCE);
        progress.show(now, report.received);
        if now - start < time {
            while flights.count < window {
                match client.send(flights.next(), (window - flights.count).min(BATCH)) {
                    Ok(sent) => flights.depart(sent, now),
                    Err(error) => {
                        report.failed(error);
                        break;
                    }
                }
            }
        } else if flights.count == 0 {
            break;
        }
        let result = client.receive(|data, now| {
            report.time = now - start;
            report.count(payload.number(data).map(|number| flights.land(number, now)));
        });
        if let Err(error) = result {
            report.failed(error);
        }
    }
    progress.bar.finish_and_clear();
    report.sent = flights.next();
    report
}

/// A progress bar, drawn only if standard error is a terminal.
struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: Instant,
}

impl Progress {
    fn new(name: &'static str, start: Instant, time: Duration) -> Self {
        let bar = ProgressBar::new(time.as_millis() as u64).with_prefix(name);
        let style = ProgressStyle::with_template("{prefix:20} {bar:30} {msg}");
        bar.set_style(style.expect("a template"));
        Self { bar, start, shown: start }
    }

    fn show(&mut self, now: Instant, received: u64) {
        if now - self.shown > Duration::from_millis(100) {
            self.shown = now;
            self.bar.set_position((now - self.start).as_millis() as u64);
            self.bar.set_message(format!("{} came back", grouped(received as f64)));
        }
    }
}

/// A connected socket and its buffers.
trait Client {
    /// Sends up to `count` datagrams, from number `first` on, and returns how many.
    fn send(&mut self, first: u64, count: usize) -> io::Result<usize>;

    /// Waits for replies and calls `each` with every reply and its time of arrival.
    fn receive(&mut self, each: impl FnMut(&[u8], Instant)) -> io::Result<()>;
}

/// The standard library's calls, one datagram each.
struct Single<'a> {
    socket: &'a UdpSocket,
    payload: &'a Payload,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl<'a> Single<'a> {
    fn new(socket: &'a UdpSocket, payload: &'a Payload) -> Self {
        Self { socket, payload, out: vec![0; payload.size], back: vec![0; payload.size + 1] }
    }
}

impl Client for Single<'_> {
    fn send(&mut self, first: u64, _: usize) -> io::Result<usize> {
        self.payload.write(first, &mut self.out);
        self.socket.send(&self.out).map(|_| 1)
    }

    fn receive(&mut self, mut each: impl FnMut(&[u8], Instant)) -> io::Result<()> {
        let len = self.socket.recv(&mut self.back)?;
        each(&self.back[..len], Instant::now());
        Ok(())
    }
}

/// This crate's calls, in batches.
struct Batched<'a, S> {
    socket: &'a S,
    payload: &'a Payload,
    out: Vec<u8>,
    back: RecvBatch,
}

impl<'a, S: BatchSocket> Batched<'a, S> {
    fn new(socket: &'a S, payload: &'a Payload, slot: usize) -> Self {
        let out = vec![0; BATCH * payload.size];
        Self { socket, payload, out, back: RecvBatch::new(BATCH, slot) }
    }
}

impl<S: BatchSocket> Client for Batched<'_, S> {
    fn send(&mut self, first: u64, count: usize) -> io::Result<usize> {
        let payloads = self.out.chunks_exact_mut(self.payload.size).take(count);
        payloads.zip(first..).for_each(|(data, number)| self.payload.write(number, data));
        let payloads = self.out.chunks_exact(self.payload.size).take(count);
        self.socket.send_batch(&payloads.map(SendMsg::new).collect::<Vec<_>>())
    }

    fn receive(&mut self, mut each: impl FnMut(&[u8], Instant)) -> io::Result<()> {
        self.socket.recv_into(&mut self.back)?;
        let now = Instant::now();
        self.back.iter().for_each(|reply| each(reply.data(), now));
        Ok(())
    }
}

impl Report {
    fn new() -> Self {
        // Two digits: precise to 1 %.
        let round_trips = Histogram::new(2).expect("two digits are allowed");
        let (sent, received, repeated, changed, errors) = (0, 0, 0, 0, 0);
        let (last_error, time) = (None, Duration::ZERO);
        Self { sent, received, repeated, changed, errors, last_error, round_trips, time }
    }

    /// Counts a reply; `None` is one that carries none of our numbers.
    fn count(&mut self, landed: Option<Landed>) {
        match landed {
            None | Some(Landed::NeverSent) => self.changed += 1,
            Some(Landed::Again) => self.repeated += 1,
            Some(Landed::First(time)) => {
                self.received += 1;
                self.round_trips.saturating_record(time.as_nanos() as u64);
            }
        }
    }

    /// Counts an error, unless it is a timeout.
    fn failed(&mut self, error: io::Error) {
        if !is_timeout(&error) {
            self.errors += 1;
            self.last_error = Some(error);
        }
    }

    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received + self.changed)
    }

    /// Datagrams that came back, per second.
    pub fn rate(&self) -> f64 {
        if self.time.is_zero() { 0.0 } else { self.received as f64 / self.time.as_secs_f64() }
    }

    /// An error, with the reason, if datagrams came back changed or not at all.
    pub fn verdict(&self) -> Result<(), Failure> {
        if self.changed > 0 {
            return Err(outcome(format!("{} came back changed", grouped(self.changed as f64))));
        }
        if self.received == 0 {
            let why = self.last_error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
            return Err(outcome(format!("nothing came back{why}")));
        }
        Ok(())
    }

    fn print(&self) {
        let row = |name: &str, n: u64| say(format_args!("{name:<12}{:>14}", grouped(n as f64)));
        row("sent", self.sent);
        row("received", self.received);
        row("lost", self.lost());
        row("repeated", self.repeated);
        row("changed", self.changed);
        if let Some(error) = &self.last_error {
            row("errors", self.errors);
            say(format_args!("the last error: {error}"));
        }
        say(format_args!("{} a second came back", grouped(self.rate())));
        let at = |percent| self.round_trips.value_at_percentile(percent) as f64 / 1000.0;
        let [p50, p90, p99, max] = [50.0, 90.0, 99.0, 100.0].map(at);
        say(format_args!(
            "round trip  p50 {p50:.0} us, p90 {p90:.0} us, p99 {p99:.0} us, max {max:.0} us"
        ));
    }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.001..=1e6).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("not a number of seconds from 0.001 to 1000000")
}

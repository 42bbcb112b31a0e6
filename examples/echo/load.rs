//! The load generator: keeps datagrams in flight and checks what comes back.

use std::io;
use std::time::{Duration, Instant};

use crate::client::{self, BATCH, Client};
use crate::counters::Counters;
use crate::flights::{Answer, Flights};
use crate::out::Live;
use crate::payload::{Payload, Reading};
use crate::percentiles::Percentiles;
use crate::refusal::is_silence;
use crate::stop::{RaiseAtEnd, Stop};
use crate::{Failure, cli, figures, net, out};

/// How long a datagram may take to come back before it gives up its place in the window.
const TIMEOUT: Duration = Duration::from_millis(500);

/// What came of a run.
pub struct Report {
    pub sent: u64,
    /// Datagrams that came back as they were sent.
    pub received: u64,
    /// Replies to datagrams that had come back already.
    pub duplicates: u64,
    /// Replies with something else in them than what was sent.
    pub changed: u64,
    /// Errors that the system reported, and the last of them.
    pub errors: u64,
    pub last_error: Option<io::Error>,
    pub round_trips: Percentiles,
    /// From the first datagram sent to the last one sent or received.
    pub time: Duration,
}

impl Report {
    fn new() -> Self {
        Self {
            sent: 0,
            received: 0,
            duplicates: 0,
            changed: 0,
            errors: 0,
            last_error: None,
            round_trips: Percentiles::new(),
            time: Duration::ZERO,
        }
    }

    /// Datagrams that never came back, by their numbers.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received + self.changed)
    }

    /// Whether all is well; if not, why.
    pub fn verdict(&self) -> Result<(), Failure> {
        if self.changed > 0 {
            let text = format!("{} came back changed", figures::count(self.changed));
            return Err(Failure::outcome(text));
        }
        if self.received == 0 {
            let why = self.last_error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
            return Err(Failure::outcome(format!("nothing came back{why}")));
        }
        Ok(())
    }

    fn fail(&mut self, error: io::Error) {
        self.errors += 1;
        self.last_error = Some(error);
    }
}

/// What is known of the datagrams sent.
struct Account<'a> {
    payload: &'a Payload,
    flights: Flights,
    report: Report,
    last_seen: Instant,
}

impl Account<'_> {
    fn reply(&mut self, data: &[u8], now: Instant) {
        self.last_seen = now;
        let answer = match self.payload.read(data, self.flights.next()) {
            Reading::Number(number) => self.flights.arrive(number, now),
            Reading::Empty => self.flights.arrive_any(now),
            Reading::Changed => {
                self.report.changed += 1;
                return;
            }
        };
        match answer {
            Answer::First(time) => {
                self.report.received += 1;
                self.report.round_trips.add(time);
            }
            Answer::Again => self.report.duplicates += 1,
        }
    }

    /// How many datagrams may be sent now to have `window` of them in flight.
    fn free(&self, window: usize) -> usize {
        let numbers = self.payload.reach().saturating_sub(self.flights.span());
        let places = window.saturating_sub(self.flights.count());
        places.min(usize::try_from(numbers).unwrap_or(usize::MAX))
    }
}

/// Keeps `window` datagrams in flight for `duration`, or until told to stop, and then waits for
/// those that are still on their way.
pub fn generate(
    client: &mut dyn Client,
    payload: &Payload,
    window: usize,
    duration: Duration,
    stop: &Stop,
) -> Report {
    let start = Instant::now();
    let end = start + duration;
    let report = Report::new();
    let mut account = Account { payload, flights: Flights::default(), report, last_seen: start };
    loop {
        let now = Instant::now();
        if let Some(before) = now.checked_sub(TIMEOUT) {
            account.flights.give_up(before);
        }
        if now < end && !stop.is_raised() {
            fill(client, &mut account, window, now);
        } else if account.flights.count() == 0 {
            break;
        }
        // Also if nothing is in flight, because nothing can be sent: then this is the pause
        // before the next attempt.
        match client.receive(&mut |data, now| account.reply(data, now)) {
            Err(error) if !is_silence(&error) => account.report.fail(error),
            _ => {}
        }
    }
    account.report.time = account.last_seen - start;
    account.report
}

/// Sends until the window is full, or the socket takes no more.
fn fill(client: &mut dyn Client, account: &mut Account<'_>, window: usize, now: Instant) {
    loop {
        let free = account.free(window).min(BATCH);
        if free == 0 {
            return;
        }
        match client.send(account.flights.next(), free) {
            Ok(0) => return,
            Ok(sent) => {
                account.flights.depart(sent, now);
                account.report.sent += sent as u64;
                account.last_seen = now;
            }
            Err(error) => {
                if !is_silence(&error) {
                    account.report.fail(error);
                }
                return;
            }
        }
    }
}

pub fn run(args: &cli::Load) -> Result<(), Failure> {
    let cannot = |error| Failure::usage(format!("cannot send to {}: {error}", args.addr));
    if args.addr.port() == 0 {
        return Err(Failure::usage(format!("cannot send to {}: the port is 0", args.addr)));
    }
    let socket = net::connect(args.addr).map_err(cannot)?;
    let stop = Stop::on_signals().map_err(Failure::no_signals)?;
    let (size, window) = (usize::from(args.size), args.window as usize);
    let payload = Payload::new(size);
    let most = payload.reach().min(args.window.into());
    out::line(format_args!("{size}-byte datagrams, {most} in flight, to {}", args.addr));

    let counters = Counters::default();
    let mut client = client::new(args.way, &socket, &payload, &counters).map_err(cannot)?;
    let report =
        shown("", &counters, || generate(&mut *client, &payload, window, args.duration, &stop));
    let totals = counters.totals();
    print(&report, size, figures::each(totals.sent + totals.received, totals.calls));
    if let Some(offloaded) = client.offloaded() {
        out::line(offloaded);
    }
    report.verdict()
}

/// Runs `work` on a thread of its own, with a live line of what it counts meanwhile.
pub fn shown<T: Send>(name: &str, counters: &Counters, work: impl FnOnce() -> T + Send) -> T {
    let (done, mut live) = (Stop::default(), Live::new());
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _raise = RaiseAtEnd(&done);
            work()
        });
        let (start, mut before, mut then) = (Instant::now(), counters.totals(), Instant::now());
        while !done.wait(live.period()) {
            let (now, at) = (counters.totals(), Instant::now());
            let (news, time) = (now - before, at - then);
            live.show(&format!(
                "{name}{:5.1} s  sent {:>9}/s  back {:>9}/s",
                start.elapsed().as_secs_f64(),
                figures::count(figures::rate(news.sent, time)),
                figures::count(figures::rate(news.received, time)),
            ));
            (before, then) = (now, at);
        }
        live.clear();
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn print(report: &Report, size: usize, per_call: String) {
    let rate = |n| format!("{:>11}/s", figures::count(figures::rate(n, report.time)));
    let row = |name: &str, n: u64, rest: &str| {
        out::line(format_args!("{name:<12}{:>14}{rest}", figures::count(n)));
    };
    row("sent", report.sent, &rate(report.sent));
    row("received", report.received, &rate(report.received));
    row("lost", report.lost(), "");
    row("duplicates", report.duplicates, "");
    row("changed", report.changed, "");
    if let Some(error) = &report.last_error {
        row("errors", report.errors, &format!("  the last: {error}"));
    }
    let at = |percent| report.round_trips.at(percent).map_or("-".to_owned(), figures::time);
    out::line(format_args!(
        "round trip  p50 {}, p90 {}, p99 {}, max {}",
        at(50.0),
        at(90.0),
        at(99.0),
        at(100.0),
    ));
    out::line(format_args!("{per_call} datagrams a system call"));
    if size == 0 {
        out::line("empty datagrams have no number: replies are counted, and not told apart");
    }
}

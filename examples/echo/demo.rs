//! The demonstration: a server and a load generator in one process, in each mode in turn.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use crate::cli::{Mode, Way};
use crate::client::{self, BATCH};
use crate::counters::Counters;
use crate::load::{self, Report};
use crate::payload::Payload;
use crate::serve::Ready;
use crate::stop::{RaiseAtEnd, Stop};
use crate::{Failure, figures, net, out};

/// How long datagrams are sent in each mode.
const DURATION: Duration = Duration::from_secs(3);
const SIZE: usize = 1200;
const WINDOW: usize = 64;

/// What is shown, in this order.
const MODES: [(Mode, &str); 3] = [
    (Mode::Std, "one at a time (std)"),
    (Mode::Batch, "in batches (mmsg)"),
    (Mode::Offload, "with offload (mmsg)"),
];

struct Row {
    name: &'static str,
    report: Report,
    /// Datagrams for each system call, of the server and the load generator together.
    per_call: String,
}

pub fn run() -> Result<(), Failure> {
    out::line(format_args!(
        "An echo server and a load generator on loopback, a thread each: {SIZE} bytes, {WINDOW} in flight, {} s.",
        DURATION.as_secs_f64(),
    ));
    let mut rows = Vec::new();
    for (mode, name) in MODES {
        rows.push(measure(mode, name)?);
    }
    print(&rows);
    rows.iter().try_for_each(|row| row.report.verdict())
}

fn measure(mode: Mode, name: &'static str) -> Result<Row, Failure> {
    let cannot = |error| Failure::outcome(format!("loopback does not work: {error}"));
    let sockets = net::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 1).map_err(cannot)?;
    let client = net::connect(sockets[0].local_addr().map_err(cannot)?).map_err(cannot)?;
    let (served, loaded) = (Counters::default(), Counters::default());
    let (payload, stop, never) = (Payload::new(SIZE), Stop::default(), Stop::default());
    let way = Way::from(mode);
    let server = Ready::new(&sockets[0], way)?;
    let mut client = client::new(way, &client, &payload, &loaded).map_err(cannot)?;

    let report = thread::scope(|scope| {
        let server = scope.spawn(|| server.echo(BATCH, &served, &stop));
        let report = {
            let _raise = RaiseAtEnd(&stop);
            load::shown(&format!("{name:<20}"), &loaded, || {
                load::generate(&mut *client, &payload, WINDOW, DURATION, &never)
            })
        };
        server.join().map_err(|_| Failure::outcome("the server failed"))??;
        Ok(report)
    })?;
    let totals = served.totals() + loaded.totals();
    let per_call = figures::each(totals.received + totals.sent, totals.calls);
    Ok(Row { name, report, per_call })
}

fn print(rows: &[Row]) {
    out::line(format_args!(
        "\n{:<22}{:>14}{:>14}{:>18}{:>8}",
        "datagrams", "to server", "and back", "per system call", "lost"
    ));
    for Row { name, report, per_call } in rows {
        let rate = |n| figures::count(figures::rate(n, report.time)) + "/s";
        out::line(format_args!(
            "{name:<22}{:>14}{:>14}{per_call:>18}{:>8}",
            rate(report.sent),
            rate(report.received),
            figures::count(report.lost()),
        ));
    }
}

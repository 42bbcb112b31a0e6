//! Echo servers in processes of their own, under load from this one: over loopback, and over a pair of virtual
//! Ethernet devices between two network namespaces.
//!
//! The figure is echoed datagrams per second of the server's CPU time. The load has a bounded number of datagrams
//! under way, single ones or GSO batches. All servers of a row run at the same time and take turns.

mod generator;
mod network;
pub mod server;

use std::io;
use std::time::Duration;

use super::Extent;
use super::tables::{Echoed, Tables};
use super::wire;
use generator::Generator;
use network::Network;

const MAX_THREADS: usize = 2;

/// How many rounds there are, and how long each loads a server.
struct Pace {
    rounds: usize,
    warm_up: Duration,
    slice: Duration,
    /// A datagram that takes longer is lost.
    patience: Duration,
}

pub fn run(extent: Extent, tables: &mut Tables) -> io::Result<()> {
    if wire::capacity()? < MAX_THREADS * generator::UNDER_WAY {
        println!(
            "skipped: echo: its load does not fit the receive buffers (root gets larger ones)"
        );
        return Ok(());
    }
    let pace = |rounds, [warm_up, slice, patience]: [u64; 3]| {
        let [warm_up, slice, patience] = [warm_up, slice, patience].map(Duration::from_millis);
        Pace { rounds, warm_up, slice, patience }
    };
    let pace = match extent {
        // Everything fits, so a lost datagram is a bug.
        Extent::Test => pace(1, [0, 20, 30_000]),
        Extent::Quick => pace(3, [50, 200, 200]),
        Extent::Full => pace(9, [100, 500, 200]),
    };
    for net in [Network::Loopback, Network::Veth] {
        net.enter(|net| {
            for threads in 1..=MAX_THREADS {
                in_turn(net, threads, &pace, extent, tables)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Measures all servers with this number of threads.
fn in_turn(
    net: Network,
    threads: usize,
    pace: &Pace,
    extent: Extent,
    tables: &mut Tables,
) -> io::Result<()> {
    let start = |(i, way)| server::start(way, threads, net, 10 * threads + i);
    let servers = server::WAYS.into_iter().enumerate().map(start);
    let servers = servers.collect::<io::Result<Vec<_>>>()?;
    for load in ["single", "GSO"] {
        for round in 0..pace.rounds {
            for step in 0..servers.len() {
                let server = &servers[(step + round) % servers.len()];
                let generator =
                    Generator::new(server.addrs[0], threads, load == "GSO", pace.patience)?;
                generator.run(pace.warm_up);
                let before = server.cpu();
                let done = generator.run(pace.slice);
                let row = Echoed {
                    net: net.name(),
                    load,
                    threads,
                    way: server.way,
                    round,
                    datagrams: done.datagrams,
                    lost: done.lost,
                    cpu: server.cpu() - before,
                    wall: done.wall,
                };
                tables.echoed(&row)?;
                tell(&row, extent);
            }
        }
    }
    Ok(())
}

fn tell(row: &Echoed<'_>, extent: Extent) {
    let Echoed { net, load, threads, way, round, datagrams, lost, cpu, .. } = row;
    if extent == Extent::Test {
        assert!(*datagrams > 0 && *lost == 0, "{way} lost {lost} of {datagrams}");
        println!(
            "echo over {net}, {load}, {threads} threads, {way}: {datagrams} came back unchanged"
        );
        return;
    }
    let rate = *datagrams as f64 / cpu.as_secs_f64();
    println!(
        "echo over {net}, {load}, {threads} threads, round {round}: {way:13} {rate:9.0} datagrams \
         per CPU second, {lost} of {datagrams} lost"
    );
}

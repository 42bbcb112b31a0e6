//! The routers on the way to an address, each with its round-trip time (`ERRORS`, `TIMESTAMP`; Linux and Android).
//!
//! ```text
//! cargo run --release --features tokio --example traceroute
//! cargo run --release --features tokio --example traceroute 2001:db8::1
//! ```
//!
//! Sends probes with hop limits 1, 2, 3 and so on. A router whose limit runs out returns an ICMP error that quotes the probe,
//! so the probe's payload tells the hop; the destination refuses its port. All probes have the same ports, so that a router
//! that balances flows sends them along one path. Prints a line per hop: the address that answered, the time between
//! the send and the arrival by the kernel's clock, and for other errors their ICMP type and code; `*` if nothing came
//! within a second. Without an argument it asks this host.
//!
//! Left out: names, several probes per hop, routers that quote no payload, destinations where somebody listens on the port.
//! Three probes leave at once, since hosts limit the ICMP errors that they send to a peer: Linux to six, then one per second.

#[macro_use]
mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use mmsg::error_queue::{Event, Report};
use mmsg::{Ancillary, SendMeta, SendMsg, prelude::*};
use tokio::net::UdpSocket;
use tokio::time::timeout;

const AT_ONCE: u8 = 3;
const MAX_HOPS: u8 = 30;
/// The first of those where nobody listens, by custom.
const PORT: u16 = 33434;

/// A probe: when it was sent, and the report about it.
type Probe = (SystemTime, Option<Report>);

/// Sends a probe for each hop limit from `first` on. Ends when all up to the destination are answered, or with the silence.
async fn probe(socket: &UdpSocket, to: IpAddr, first: u8) -> std::io::Result<Vec<Probe>> {
    let mut probes = Vec::new();
    for hop in first..first + AT_ONCE {
        // Each has a call of its own, so that its time is the time of its send.
        probes.push((SystemTime::now(), None));
        let meta = SendMeta::new().with_hop_limit(hop);
        socket.send_batch(&[SendMsg::to((to, PORT).into(), &[hop]).with_meta(&meta)]).await?;
    }
    let mut reports = [Report::EMPTY; 8];
    while !is_answered(&probes) {
        let drained = timeout(Duration::from_secs(1), socket.recv_errors(&mut reports)).await;
        let Ok(count) = drained else { break };
        for report in &reports[..count?] {
            // Anybody can forge an error, with any quote.
            let [hop] = report.quote() else { continue };
            let probe = probes.get_mut(usize::from(hop.wrapping_sub(first)));
            if let Some((_, answer @ None)) = probe {
                *answer = Some(report.clone());
            }
        }
    }
    Ok(probes)
}

/// Whether the probes up to the destination, or else all, are answered.
fn is_answered(probes: &[Probe]) -> bool {
    let end = probes.iter().position(|(_, answer)| answer.as_ref().is_some_and(is_end));
    probes[..end.unwrap_or(probes.len())].iter().all(|(_, answer)| answer.is_some())
}

/// Whether no router further away will answer.
fn is_end(report: &Report) -> bool {
    report.event != Event::TimeExceeded
}

fn print(hop: u8, (sent, answer): &Probe) {
    let Some(Report {
        event,
        offender: Some(by),
        icmp_type: Some(ty),
        icmp_code: Some(code),
        timestamp: Some(arrived),
        ..
    }) = answer
    else {
        return println!("{hop:2}  *");
    };
    let ms = arrived.duration_since(*sent).unwrap_or_default().as_secs_f64() * 1e3;
    let other = match event {
        Event::TimeExceeded | Event::Refused => String::new(),
        _ => format!("  ICMP type {ty}, code {code}"),
    };
    println!("{hop:2}  {}  {ms:.3} ms{other}", by.ip());
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> common::Result {
    let to = common::arguments("[IP-ADDRESS]", 1).pop().unwrap_or(Ipv4Addr::LOCALHOST.into());
    let any = match to {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    if !Ancillary::ERRORS.enable(&socket)?.contains(Ancillary::ERRORS) {
        println!("this system has no error queue");
        return Ok(());
    }
    Ancillary::TIMESTAMP.require(&socket)?;
    for first in (1..=MAX_HOPS).step_by(AT_ONCE.into()) {
        let probes = probe(&socket, to, first).await.map_err(|error| format!("{to}: {error}"))?;
        for (hop, probe) in (first..).zip(&probes) {
            print(hop, probe);
            if probe.1.as_ref().is_some_and(is_end) {
                return Ok(());
            }
        }
    }
    Ok(())
}

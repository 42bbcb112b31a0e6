//! An NTP client and server (RFC 5905) with the kernel's timestamps.
//!
//! ```text
//! cargo run --release --example ntp
//! cargo run --release --example ntp -- 0.0.0.0:123
//! ```
//!
//! The kernel's timestamps leave out the time that the program waited for a CPU: `Ancillary::TIMESTAMP` says when a
//! datagram arrived, the error queue when one was sent. With an address the program is a server. Without, a client
//! asks a server of its own four times and prints lines such as "offset -1.5 us, delay 3.5 us".

#[macro_use]
mod common;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, SystemTime};

use mmsg::error_queue::{Event, Report, drain_errors};
use mmsg::{Ancillary, RecvBatch, prelude::*};

/// Seconds between NTP's epoch and Unix's.
const EPOCH: Duration = Duration::from_secs(2_208_988_800);
const LEN: usize = 48;
/// The first byte of a message holds the version and the mode.
const VERSION: u8 = 4 << 3;
const VERSION_BITS: u8 = 7 << 3;
/// Says that no better clock is behind this one (0 would mean none at all), which is right to 2^-20 s.
const STRATUM: u8 = 10;
const PRECISION: i8 = -20;
const CLIENT: u8 = 3;
const SERVER: u8 = 4;

/// Seconds in the upper half, their fraction in the lower.
pub fn to_ntp(time: SystemTime) -> [u8; 8] {
    let time = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + EPOCH;
    let fraction = (u64::from(time.subsec_nanos()) << 32) / 1_000_000_000;
    ((time.as_secs() << 32) + fraction).to_be_bytes()
}

/// The time in `field`, in seconds after `start`.
fn seconds_after(start: SystemTime, field: &[u8]) -> f64 {
    let field = u64::from_be_bytes(field.try_into().expect("eight bytes"));
    let start = u64::from_be_bytes(to_ntp(start));
    field.wrapping_sub(start) as i64 as f64 / 2f64.powi(32)
}

pub fn serve(socket: &UdpSocket) -> io::Result<()> {
    (Ancillary::DEST | Ancillary::TIMESTAMP).require(socket)?;
    let mut batch = RecvBatch::new(64, LEN);
    loop {
        if let Err(error) = socket.recv_into(&mut batch) {
            eprintln!("receive: {error}");
            thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
        }
        for request in &batch {
            let Some(mut answer) = answer(request.data(), request.meta().timestamp) else {
                continue;
            };
            // The answer says when it leaves, so each goes by a call of its own: `send_each` would take them all from an
            // iterator before the first leaves.
            answer[40..].copy_from_slice(&to_ntp(SystemTime::now()));
            let sent = request.reply(&answer).map_or(Ok(1), |reply| socket.send_batch(&[reply]));
            let _ = sent.inspect_err(|error| eprintln!("answer: {error}"));
        }
    }
}

/// The answer, without the time when it leaves.
fn answer(request: &[u8], received: Option<SystemTime>) -> Option<[u8; LEN]> {
    let request: &[u8; LEN] = request.first_chunk()?;
    // Answers requests only: two servers would answer each other's answers for ever.
    if request[0] & 7 != CLIENT {
        return None;
    }
    let (mut answer, received) = ([0; LEN], to_ntp(received?));
    // In the client's version. A real server puts its own source's stratum and the age of its time.
    answer[0] = request[0] & VERSION_BITS | SERVER;
    answer[1..4].copy_from_slice(&[STRATUM, request[2], PRECISION as u8]);
    answer[12..16].copy_from_slice(b"LOCL");
    answer[16..24].copy_from_slice(&received);
    answer[24..32].copy_from_slice(&request[40..]);
    answer[32..40].copy_from_slice(&received);
    Some(answer)
}

fn main() -> common::Result {
    if let Some(addr) = common::arguments::<SocketAddr>("[ADDRESS:PORT]", 1).first() {
        let socket = UdpSocket::bind(addr).map_err(|error| format!("{addr}: {error}"))?;
        println!("listening on {}", socket.local_addr()?);
        return Ok(serve(&socket)?);
    }
    let (server, client) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    client.connect(server.local_addr()?)?;
    thread::spawn(move || serve(&server));

    let wanted = Ancillary::TIMESTAMP | Ancillary::SEND_TIMESTAMP;
    if wanted.enable(&client)? != wanted {
        println!("this system has no send timestamps");
        return Ok(());
    }
    let (mut batch, mut reports) = (RecvBatch::new(8, LEN), [Report::EMPTY; 8]);
    for number in 0..4 {
        let mut request = [0; LEN];
        request[0] = VERSION | CLIENT;
        client.send(&request)?;
        client.recv_into(&mut batch)?;
        let count = drain_errors(&client, &mut reports)?;
        let sent = reports[..count].iter().find_map(|report| match report.event {
            Event::Sent { id, time, .. } if id == number => time,
            _ => None,
        });
        let (Some(sent), Some(answer)) = (sent, batch.iter().next()) else { continue };
        let Some(received) = answer.meta().timestamp else { continue };
        let [at_server, from_server] =
            [32..40, 40..48].map(|at| seconds_after(sent, &answer.data()[at]));
        let back = seconds_after(sent, &to_ntp(received));
        let (offset, delay) =
            ((at_server + from_server - back) / 2.0, back - (from_server - at_server));
        println!("offset {:+.1} us, delay {:.1} us", offset * 1e6, delay * 1e6);
    }
    Ok(())
}

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

use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, SystemTime};

use mmsg::error_queue::{Event, Report, drain_errors};
use mmsg::{Ancillary, RecvBatch, prelude::*};

/// Seconds between NTP's epoch and Unix's.
const EPOCH: Duration = Duration::from_secs(2_208_988_800);
const LEN: usize = 48;
/// The first byte of a message holds the version and the mode.
const VERSION: u8 = 4 << 3;
const CLIENT: u8 = 3;
const SERVER: u8 = 4;

/// Seconds in the upper half, their fraction in the lower.
fn to_ntp(time: SystemTime) -> [u8; 8] {
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

fn serve(socket: &UdpSocket) -> io::Result<()> {
    (Ancillary::DEST | Ancillary::TIMESTAMP).require(socket)?;
    let (mut batch, mut answers) = (RecvBatch::new(64, LEN), [[0; LEN]; 64]);
    loop {
        if let Err(error) = socket.recv_into(&mut batch) {
            eprintln!("receive: {error}");
        }
        let replies = batch.iter().zip(&mut answers).filter_map(|(request, answer)| {
            // Answers requests only: two servers would answer each other's answers for ever.
            let from_client = request.data().first().is_some_and(|first| first & 7 == CLIENT);
            let request_time = request.data().get(40..48).filter(|_| from_client)?;
            let received = request.meta().timestamp?;
            answer[0] = VERSION | SERVER;
            answer[24..32].copy_from_slice(request_time);
            answer[32..40].copy_from_slice(&to_ntp(received));
            answer[40..48].copy_from_slice(&to_ntp(SystemTime::now()));
            request.reply(answer)
        });
        socket.send_each(replies, |_, error| eprintln!("answer: {error}"))?;
    }
}

fn main() -> io::Result<()> {
    if let Some(addr) = std::env::args().nth(1) {
        let socket = UdpSocket::bind(addr)?;
        println!("listening on {}", socket.local_addr()?);
        return serve(&socket);
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

//! One datagram waiting and 512 slots offered: a receive is to cost what arrives, not what is
//! offered.
//!
//! Here only the receive is timed. (Send and receive together, as in the other rows: rows.rs.)

use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use mmsg::{BatchSocket, RecvBatch, RecvMsg};

use super::rows::SLOTS;
use super::{Promise, Row, Side};
use crate::clock::Clock;
use crate::support::SLOT_LEN;

const PAYLOAD: &[u8] = b"fifteen bytes !";
/// Sockets that are sent a datagram each before the clock starts, so that looking at it is a small
/// part of what it shows.
const SOCKETS: usize = 16;
/// Rounds of all sockets in a turn.
const ROUNDS: usize = 128;
const PAIRS: usize = 200;

pub fn all<'a>() -> Vec<Row<'a>> {
    let row = |name: &str, promise, ours: fn() -> Side<'static>| Row {
        name: format!("{name} / recv_from alone, 1 of {SLOTS} slots"),
        promise,
        pairs: PAIRS,
        sides: Box::new(move || [ours(), recv_from()]),
    };
    vec![
        row("recv_into", Promise::AtMost(1.20), recv_into),
        row("recv_batch", Promise::AtMost(1.30), recv_batch),
    ]
}

fn recv_from() -> Side<'static> {
    let mut buffer = vec![0; SLOT_LEN];
    side(move |socket, check| {
        let (len, addr) = socket.recv_from(&mut buffer)?;
        black_box(addr);
        assert!(!check || &buffer[..len] == PAYLOAD);
        Ok(())
    })
}

fn recv_into() -> Side<'static> {
    let mut batch = RecvBatch::new(SLOTS, SLOT_LEN);
    side(move |socket, check| {
        socket.recv_into(&mut batch)?;
        for datagram in &batch {
            black_box(datagram.addr());
            assert!(!check || datagram.data() == PAYLOAD);
        }
        Ok(())
    })
}

fn recv_batch() -> Side<'static> {
    let memory = vec![0; SLOTS * SLOT_LEN].leak();
    let mut room: Vec<_> = memory.chunks_exact_mut(SLOT_LEN).map(RecvMsg::new).collect();
    side(move |socket, check| {
        let n = socket.recv_batch(&mut room)?;
        for msg in &room[..n] {
            black_box(msg.addr());
            assert!(!check || msg.data() == PAYLOAD);
        }
        Ok(())
    })
}

/// Sends each socket a datagram, and then has `receive` take them.
fn side(mut receive: impl FnMut(&UdpSocket, bool) -> io::Result<()> + 'static) -> Side<'static> {
    let bind = |_| UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    let (near, sockets) = (bind(0), (0..SOCKETS).map(bind).collect::<Vec<_>>());
    let addrs: Vec<_> = sockets.iter().map(|socket| socket.local_addr().expect("bound")).collect();
    let turn = move |check: bool| {
        let mut time = Duration::ZERO;
        for _ in 0..if check { 1 } else { ROUNDS } {
            for addr in &addrs {
                near.send_to(PAYLOAD, addr).expect("loopback takes it");
            }
            let begin = Clock::start();
            for socket in &sockets {
                receive(socket, check).expect("it has arrived");
            }
            time += begin.elapsed();
        }
        time
    };
    Side::timed(turn, SOCKETS * ROUNDS)
}

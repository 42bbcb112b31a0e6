//! The echo server one datagram at a time, by the standard library: what batches are measured by.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::counters::Counters;
use crate::refusal::{Refusal, is_silence};
use crate::stop::Stop;

/// Holds any UDP datagram.
const LARGEST: usize = 65_535;

/// Sends every datagram back to its source, until told to stop.
pub fn run(socket: &UdpSocket, counters: &Counters, stop: &Stop) {
    let mut buffer = vec![0; LARGEST];
    while !stop.is_raised() {
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => {
                counters.received.add(1);
                counters.calls.add(1);
                send_back(socket, &buffer[..len], from, counters, stop);
            }
            Err(error) if is_silence(&error) => {}
            Err(error) => {
                counters.errors.add(1);
                pause_after(&error, stop);
            }
        }
    }
}

fn send_back(socket: &UdpSocket, data: &[u8], to: SocketAddr, counters: &Counters, stop: &Stop) {
    let mut again = true;
    loop {
        let error = match socket.send_to(data, to) {
            Ok(_) => {
                counters.sent.add(1);
                counters.calls.add(1);
                return;
            }
            Err(error) => error,
        };
        let refusal = Refusal::of(&error);
        if refusal == Refusal::Later && !stop.is_raised() {
            continue;
        }
        counters.errors.add(1);
        if refusal != Refusal::OfAnother || !again {
            return;
        }
        again = false;
    }
}

/// A receive that fails at once and again and again must not take a whole core. What a datagram
/// sent before has met is told once, so it calls for no pause.
pub fn pause_after(error: &std::io::Error, stop: &Stop) {
    if Refusal::of(error) == Refusal::Final {
        stop.wait(Duration::from_millis(1));
    }
}

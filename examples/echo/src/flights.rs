//! The numbered payloads of a load, and the datagrams in flight.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Payloads of one size: a number, then bytes derived from it. The number is multiplied by an odd constant, so that a
/// changed byte almost always gives a number that was never sent.
pub struct Payload {
    pub size: usize,
    pattern: Vec<u8>,
}

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// `FACTOR * INVERSE` is 1, modulo 2^64.
const INVERSE: u64 = 0xF1DE_83E1_9937_733D;
/// The number of places at which the pattern may begin: a prime, so that no power of two is a period.
const PLACES: usize = 4093;

impl Payload {
    pub fn new(size: usize) -> Self {
        let byte = |i: usize| ((i as u64).wrapping_mul(FACTOR) >> 40) as u8;
        Self { size, pattern: (0..PLACES + size).map(byte).collect() }
    }

    pub fn write(&self, number: u64, data: &mut [u8]) {
        data[..8].copy_from_slice(&number.wrapping_mul(FACTOR).to_le_bytes());
        data[8..].copy_from_slice(self.body(number));
    }

    /// The number of a payload; `None` if the payload was changed.
    pub fn number(&self, data: &[u8]) -> Option<u64> {
        let (head, body) = data.split_first_chunk()?;
        let number = u64::from_le_bytes(*head).wrapping_mul(INVERSE);
        (body == self.body(number)).then_some(number)
    }

    fn body(&self, number: u64) -> &[u8] {
        &self.pattern[(number % PLACES as u64) as usize..][..self.size - 8]
    }
}

/// The datagrams in flight, by number, with the times they were sent at.
#[derive(Default)]
pub struct Flights {
    /// The number of the first entry in `sent`.
    oldest: u64,
    /// `None` for a datagram that came back.
    sent: VecDeque<Option<Instant>>,
    pub count: usize,
}

pub enum Landed {
    First(Duration),
    Again,
    NeverSent,
}

impl Flights {
    /// The number of the next datagram to send.
    pub fn next(&self) -> u64 {
        self.oldest + self.sent.len() as u64
    }

    pub fn depart(&mut self, count: usize, now: Instant) {
        self.sent.extend(std::iter::repeat_n(Some(now), count));
        self.count += count;
    }

    pub fn land(&mut self, number: u64, now: Instant) -> Landed {
        if number >= self.next() {
            return Landed::NeverSent;
        }
        let place = number.checked_sub(self.oldest).map(|i| i as usize);
        let Some(sent) = place.and_then(|i| self.sent[i].take()) else { return Landed::Again };
        self.count -= 1;
        self.forget_landed();
        Landed::First(now - sent)
    }

    /// Gives up datagrams sent more than `patience` ago, which frees their places in the window.
    pub fn give_up(&mut self, now: Instant, patience: Duration) {
        while self.sent.front().copied().flatten().is_some_and(|sent| now - sent > patience) {
            self.sent[0] = None;
            self.count -= 1;
            self.forget_landed();
        }
    }

    /// Removes landed datagrams from the front.
    fn forget_landed(&mut self) {
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.oldest += 1;
        }
    }
}

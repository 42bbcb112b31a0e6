//! Limits responses to each client network. Without that, a flood with forged sources would turn this server into an
//! amplifier.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Networks counted at a time. A network that takes over another's slot starts at 0, as in NSD: a flood from very many
/// networks gets more answers, but an honest client never gets fewer.
const SLOTS: usize = 1 << 16;

/// How to treat a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Answer,
    /// Answer without records, so that an honest client asks over TCP. Every second query over the limit gets this ("slip
    /// 2" in BIND and NSD).
    Truncate,
    Drop,
}

/// Counts the queries of each network in the current second. All threads share it.
pub struct Limiter {
    /// Answers per second to a network; 0 means no limit.
    rate: u32,
    /// Each slot: 16 bits that identify the network, 16 bits of the second, 32 bits of the count. Concurrent updates
    /// may lose a count.
    slots: Box<[AtomicU64]>,
    /// Its keys are random, so that nobody can choose networks that share a slot.
    hash: RandomState,
    start: Instant,
}

impl Limiter {
    pub fn new(rate: u32) -> Self {
        let slots = (0..if rate > 0 { SLOTS } else { 0 }).map(|_| AtomicU64::new(0)).collect();
        Self { rate, slots, hash: RandomState::new(), start: Instant::now() }
    }

    /// Counts a query from a network.
    pub fn count(&self, ip: IpAddr) -> Verdict {
        self.count_at(ip, self.start.elapsed().as_secs())
    }

    fn count_at(&self, ip: IpAddr, second: u64) -> Verdict {
        if self.rate == 0 {
            return Verdict::Answer;
        }
        let hash = self.hash.hash_one(network(ip));
        let slot = &self.slots[hash as usize % SLOTS];
        let key = hash >> 48 << 48 | (second & 0xffff) << 32;
        let value = slot.load(Relaxed);
        let count = if value >> 32 == key >> 32 { value as u32 } else { 0 };
        slot.store(key | u64::from(count.saturating_add(1)), Relaxed);
        match count.checked_sub(self.rate) {
            None => Verdict::Answer,
            Some(over) if over % 2 == 0 => Verdict::Truncate,
            Some(_) => Verdict::Drop,
        }
    }
}

/// The first 24 bits of an IPv4 address or 56 bits of an IPv6 address, BIND's defaults.
pub fn network(ip: IpAddr) -> (bool, u64) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => (false, (ip.to_bits() >> 8).into()),
        IpAddr::V6(ip) => (true, (ip.to_bits() >> 72) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn every_second_answer_over_the_limit_slips_until_the_next_second() {
        let limiter = Limiter::new(3);
        let verdicts = |text: &str, second| [(); 6].map(|()| limiter.count_at(ip(text), second));
        use Verdict::{Answer, Drop, Truncate};
        for second in [0, 1, 70_000] {
            assert_eq!(
                verdicts("192.0.2.1", second),
                [Answer, Answer, Answer, Truncate, Drop, Truncate]
            );
        }
    }

    #[test]
    fn one_network_has_one_count_and_others_have_their_own() {
        let limiter = Limiter::new(1);
        for (text, first) in [
            ("192.0.2.1", true),
            ("192.0.2.200", false),
            ("::ffff:192.0.2.3", false),
            ("192.0.3.1", true),
            ("2001:db8::1", true),
            ("2001:db8:0:ff::1", false),
            ("2001:db8:0:100::1", true),
        ] {
            assert_eq!(limiter.count_at(ip(text), 5) == Verdict::Answer, first, "{text}");
        }
    }

    #[test]
    fn without_a_limit_every_query_is_answered() {
        let limiter = Limiter::new(0);
        assert!((0..1000).all(|_| limiter.count_at(ip("192.0.2.1"), 0) == Verdict::Answer));
    }
}

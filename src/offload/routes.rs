//! Destinations whose path rejects GSO batches. No clock and no I/O here.
//!
//! The path decides whether a GSO batch can go: a phone's Wi-Fi takes one and its cellular interface does
//! not. So a rejection concerns its destination, for a while. If several destinations reject, and no batch
//! is accepted in between, the device is the reason, and the rejection concerns the socket.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Destinations are remembered in sets, chosen by a hash, so that a lookup is as short with hundreds of
/// them as with a few. A full set forgets its oldest, which costs one more rejected call.
const SETS: usize = 128;
const SET_LEN: usize = 8;
/// How many destinations must reject, with no batch accepted in between, to be taken for the device.
const DEVICE: usize = 4;
/// After this long a destination, or the device, is tried again. One rejected call a minute costs
/// nothing, and a path changes with the network that a host is on.
const PERIOD: Duration = Duration::from_secs(60);

/// What a rejection concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Destination,
    Socket,
}

/// The destinations that reject, and until when the whole socket does.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// `SETS` of them, or none before the first rejection. No two entries have one destination.
    sets: Vec<Set>,
    /// When the last entry is over; `None` if there is no entry.
    last_until: Option<Instant>,
    /// How many destinations have rejected since a batch was accepted.
    in_a_row: usize,
    /// Changes with each accepted batch.
    epoch: u64,
    socket_until: Option<Instant>,
}

type Set = [Option<Entry>; SET_LEN];
const _: () = assert!(SETS * size_of::<Set>() <= 48 << 10, "bounded memory");

#[derive(Clone, Copy, Debug)]
struct Entry {
    to: Host,
    until: Instant,
    /// The epoch in which it rejected.
    epoch: u64,
}

/// A destination without its port, which does not choose the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Host {
    ip: IpAddr,
    /// The interface of a link-local IPv6 address.
    scope: u32,
}

impl Host {
    fn of(to: SocketAddr) -> Self {
        let ip = to.ip().to_canonical();
        let scope = match to {
            SocketAddr::V6(to) if ip.is_ipv6() => to.scope_id(),
            _ => 0,
        };
        Self { ip, scope }
    }

    /// The number of the host's set. An attacker whose addresses share one set causes rejected calls and nothing else.
    fn set(&self) -> usize {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish() as usize % SETS
    }
}

impl Routes {
    /// Notes that a batch to `to` was rejected; `None` is the peer of a connected socket.
    pub(super) fn reject(&mut self, to: Option<SocketAddr>, now: Instant) -> Scope {
        let scope = match to {
            // A connected socket has one destination.
            None => Scope::Socket,
            Some(to) => self.add(Host::of(to), now),
        };
        if scope == Scope::Socket {
            self.socket_until = Some(now + PERIOD);
        }
        scope
    }

    fn add(&mut self, to: Host, now: Instant) -> Scope {
        self.forget_if_over(now);
        // Without memory nothing is remembered: the destination rejects the next batch again.
        if self.sets.is_empty() && self.sets.try_reserve_exact(SETS).is_ok() {
            self.sets.resize(SETS, [None; SET_LEN]);
        }
        let (epoch, until) = (self.epoch, now + PERIOD);
        let Some(set) = self.sets.get_mut(to.set()) else { return Scope::Destination };
        let own = set.iter().position(|entry| entry.is_some_and(|entry| entry.to == to));
        let known = own.and_then(|at| set[at]).is_some_and(|entry| entry.epoch == epoch);
        let free = || (0..SET_LEN).min_by_key(|at| set[*at].map(|entry| entry.until));
        if let Some(at) = own.or_else(free) {
            set[at] = Some(Entry { to, until, epoch });
        }
        self.last_until = Some(until);
        self.in_a_row += usize::from(!known);
        if self.in_a_row < DEVICE { Scope::Destination } else { Scope::Socket }
    }

    /// Notes that a batch was accepted, wherever it went.
    pub(super) fn accept(&mut self) {
        self.epoch += 1;
        self.in_a_row = 0;
    }

    /// Whether a batch to `to` is not to be tried now.
    pub(super) fn rejects(&mut self, to: SocketAddr, now: Instant) -> bool {
        self.forget_if_over(now);
        if self.is_empty() {
            return false;
        }
        let to = Host::of(to);
        let mut entries = self.sets.get(to.set()).into_iter().flatten().flatten();
        entries.any(|entry| entry.to == to && now < entry.until)
    }

    /// Whether the socket, which has rejected, is to be tried again now.
    pub(super) fn retries_socket(&self, now: Instant) -> bool {
        self.socket_until.is_none_or(|until| until <= now)
    }

    /// Whether no destination is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.last_until.is_none()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.forget_destinations();
        self.socket_until = None;
    }

    /// Forgets all destinations once the last one is over, so that later calls look nothing up.
    fn forget_if_over(&mut self, now: Instant) {
        if self.last_until.is_some_and(|until| until <= now) {
            self.forget_destinations();
        }
    }

    fn forget_destinations(&mut self) {
        self.sets.fill([None; SET_LEN]);
        self.last_until = None;
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(i: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, i], 4433))
    }

    #[test]
    fn n2_a_destination_rejects_for_a_while_and_no_other_does() {
        let (mut routes, now) = (Routes::default(), Instant::now());
        assert_eq!(routes.reject(Some(host(1)), now), Scope::Destination);
        let later = now + PERIOD - Duration::from_nanos(1);
        assert!(routes.rejects(host(1), later));
        assert!(!routes.rejects(host(2), later));
        // Whichever destination is asked about.
        assert!(!routes.rejects(host(2), now + PERIOD));
        assert!(routes.is_empty());
        assert!(!routes.rejects(host(1), now + PERIOD));
    }

    /// A kernel ignores the interface beside an IPv4-mapped address.
    #[test]
    fn n2_the_port_and_the_form_of_an_address_do_not_matter_but_the_link_does() {
        let (mut routes, now) = (Routes::default(), Instant::now());
        routes.reject(Some(host(1)), now);
        assert!(routes.rejects(SocketAddr::from(([192, 0, 2, 1], 9)), now));
        assert!(routes.rejects("[::ffff:192.0.2.1]:7".parse().unwrap(), now));
        assert!(routes.rejects("[::ffff:192.0.2.1%5]:7".parse().unwrap(), now));
        let link = |scope| {
            let to = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, scope);
            SocketAddr::V6(to)
        };
        routes.reject(Some(link(2)), now);
        assert!(routes.rejects(link(2), now));
        assert!(!routes.rejects(link(3), now));
    }

    #[test]
    fn n2_a_connected_socket_has_one_destination() {
        let (mut routes, now) = (Routes::default(), Instant::now());
        assert_eq!(routes.reject(None, now), Scope::Socket);
        assert!(!routes.retries_socket(now));
        assert!(routes.retries_socket(now + PERIOD));
    }

    /// Many destinations of a program that sends to each in turn, and to another path in between.
    #[test]
    fn n2_hundreds_of_destinations_that_reject_do_not_forget_each_other() {
        let many = |i: u32| SocketAddr::from(((0x0a00_0000 + i).to_be_bytes(), 4433));
        for count in [33, 100, 512] {
            let (mut routes, now) = (Routes::default(), Instant::now());
            let mut rejected = [0; 3];
            for calls in &mut rejected {
                for i in 0..count {
                    if !routes.rejects(many(i), now) {
                        assert_eq!(routes.reject(Some(many(i)), now), Scope::Destination);
                        *calls += 1;
                    }
                    routes.accept();
                }
            }
            assert_eq!(rejected[0], count);
            // But for those that share a set with too many, by the luck of the hash.
            assert!(rejected[1..].iter().all(|again| *again <= count / 4), "{rejected:?}");
        }
    }

    /// What the table does, with a list that is never shortened.
    #[derive(Default)]
    struct Twin {
        /// Rejections: the destination, when, and the batches accepted before.
        rejections: Vec<(SocketAddr, Instant, u64)>,
        accepted: u64,
        /// The destinations since a batch was accepted, or since all were over.
        in_a_row: Vec<SocketAddr>,
    }

    impl Twin {
        fn rejects(&self, to: SocketAddr, now: Instant) -> bool {
            let set = Host::of(to).set();
            let mut latest = Vec::new();
            for (other, at, _) in self.rejections.iter().rev() {
                if Host::of(*other).set() == set && !latest.iter().any(|(one, _)| one == other) {
                    latest.push((*other, *at));
                }
            }
            latest.truncate(SET_LEN);
            latest.iter().any(|(other, at)| *other == to && now < *at + PERIOD)
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Reject(usize),
        Accept,
        Ask(usize),
        Wait(u64),
    }

    /// Destinations that share two sets.
    const CROWD: usize = 3 * SET_LEN;

    fn crowd() -> Vec<SocketAddr> {
        let all = (0..=u16::MAX).map(|i| {
            let [high, low] = i.to_be_bytes();
            SocketAddr::from(([10, 9, high, low], 4433))
        });
        all.filter(|to| Host::of(*to).set() < 2).take(CROWD).collect()
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0..CROWD).prop_map(Op::Reject),
            1 => Just(Op::Accept),
            6 => (0..CROWD).prop_map(Op::Ask),
            1 => (0u64..40).prop_map(Op::Wait),
        ]
    }

    proptest! {
        #[test]
        fn n2_the_table_is_its_naive_twin(ops in prop::collection::vec(op(), 0..200)) {
            let (mut routes, mut twin) = (Routes::default(), Twin::default());
            let (crowd, mut now) = (crowd(), Instant::now());
            for op in ops {
                now += Duration::from_nanos(1);
                if twin.rejections.last().is_none_or(|(_, at, _)| *at + PERIOD <= now) {
                    twin.in_a_row.clear();
                }
                match op {
                    // A destination that rejects is not offered batches.
                    Op::Reject(to) if routes.rejects(crowd[to], now) => {}
                    Op::Reject(to) => {
                        twin.rejections.push((crowd[to], now, twin.accepted));
                        if !twin.in_a_row.contains(&crowd[to]) {
                            twin.in_a_row.push(crowd[to]);
                        }
                        let scope = routes.reject(Some(crowd[to]), now);
                        let is_device = twin.in_a_row.len() >= DEVICE;
                        prop_assert_eq!(scope == Scope::Socket, is_device);
                    }
                    Op::Accept => {
                        routes.accept();
                        twin.accepted += 1;
                        twin.in_a_row.clear();
                    }
                    Op::Ask(to) => {
                        prop_assert_eq!(routes.rejects(crowd[to], now), twin.rejects(crowd[to], now));
                    }
                    Op::Wait(seconds) => now += Duration::from_secs(seconds),
                }
                prop_assert!(routes.sets.capacity() <= SETS);
            }
        }
    }
}

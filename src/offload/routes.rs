//! Destinations whose path rejects GSO batches. No clock and no I/O here.
//!
//! The path decides whether a GSO batch can go: a phone's Wi-Fi takes one and its cellular interface does
//! not. So a rejection concerns its destination, for a while. A rejection by several destinations, none
//! of them followed by a batch that was accepted, is the device's and concerns the socket.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The most destinations that are remembered. Beyond that the oldest is forgotten, which costs one more
/// rejected call.
const MOST: usize = 32;
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
    /// No two with one destination. Never grows beyond its first allocation.
    entries: Vec<Entry>,
    /// Changes with each accepted batch.
    epoch: u64,
    socket_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    to: Host,
    until: Instant,
    /// The epoch in which it rejected.
    epoch: u64,
}

/// A destination without its port, which does not choose the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host {
    ip: IpAddr,
    /// The interface of a link-local IPv6 address.
    scope: u32,
}

impl Host {
    fn of(to: SocketAddr) -> Self {
        let scope = match to {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(to) => to.scope_id(),
        };
        Self { ip: to.ip().to_canonical(), scope }
    }
}

impl Routes {
    /// Notes that a batch to `to` was rejected; `None` is the peer of a connected socket.
    pub(super) fn reject(&mut self, to: Option<SocketAddr>, now: Instant) -> Scope {
        let scope = match to {
            // The only destination that there is.
            None => Scope::Socket,
            Some(to) => self.add(Host::of(to), now),
        };
        if scope == Scope::Socket {
            self.socket_until = Some(now + PERIOD);
        }
        scope
    }

    fn add(&mut self, to: Host, now: Instant) -> Scope {
        self.entries.retain(|entry| entry.to != to && now < entry.until);
        if self.entries.len() == MOST {
            // In order of their time.
            self.entries.remove(0);
        }
        // Without memory it is not remembered: the destination rejects the next batch again.
        if self.entries.capacity() >= MOST || self.entries.try_reserve_exact(MOST).is_ok() {
            self.entries.push(Entry { to, until: now + PERIOD, epoch: self.epoch });
        }
        let in_a_row = self.entries.iter().filter(|entry| entry.epoch == self.epoch).count();
        if in_a_row < DEVICE { Scope::Destination } else { Scope::Socket }
    }

    /// Notes that a batch was accepted, wherever it went.
    pub(super) fn accept(&mut self) {
        self.epoch += 1;
    }

    /// Whether a batch to `to` is not to be tried now.
    pub(super) fn rejects(&mut self, to: SocketAddr, now: Instant) -> bool {
        // All that are over, so that nobody looks once no destination rejects.
        self.entries.retain(|entry| now < entry.until);
        let to = Host::of(to);
        self.entries.iter().any(|entry| entry.to == to)
    }

    /// Whether the socket, which has rejected, is to be tried again now.
    pub(super) fn retries_socket(&self, now: Instant) -> bool {
        self.socket_until.is_none_or(|until| until <= now)
    }

    /// Whether no destination is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.socket_until = None;
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

    #[test]
    fn n2_the_port_and_the_form_of_an_address_do_not_matter_but_the_link_does() {
        let (mut routes, now) = (Routes::default(), Instant::now());
        routes.reject(Some(host(1)), now);
        assert!(routes.rejects(SocketAddr::from(([192, 0, 2, 1], 9)), now));
        assert!(routes.rejects("[::ffff:192.0.2.1]:7".parse().unwrap(), now));
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

    /// What the table does, with a list that is never shortened.
    #[derive(Default)]
    struct Twin {
        /// Rejections: the destination, when, and the batches accepted before.
        rejections: Vec<(u8, Instant, u64)>,
        accepted: u64,
    }

    impl Twin {
        /// The destinations that reject, each with its last rejection, the latest first.
        fn live(&self, now: Instant) -> Vec<(u8, u64)> {
            let mut live: Vec<(u8, u64)> = Vec::new();
            for (to, at, accepted) in self.rejections.iter().rev() {
                if !live.iter().any(|(other, _)| other == to) && now < *at + PERIOD {
                    live.push((*to, *accepted));
                }
            }
            live.truncate(MOST);
            live
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Reject(u8),
        Accept,
        Ask(u8),
        Wait(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0u8..40).prop_map(Op::Reject),
            1 => Just(Op::Accept),
            4 => (0u8..40).prop_map(Op::Ask),
            1 => (0u64..40).prop_map(Op::Wait),
        ]
    }

    proptest! {
        #[test]
        fn n2_the_table_is_its_naive_twin(ops in prop::collection::vec(op(), 0..200)) {
            let (mut routes, mut twin) = (Routes::default(), Twin::default());
            let mut now = Instant::now();
            for op in ops {
                match op {
                    // A destination that rejects is not offered batches.
                    Op::Reject(to) if routes.rejects(host(to), now) => {}
                    Op::Reject(to) => {
                        twin.rejections.push((to, now, twin.accepted));
                        let live = twin.live(now);
                        let in_a_row = live.iter().filter(|(_, at)| *at == twin.accepted).count();
                        let scope = routes.reject(Some(host(to)), now);
                        prop_assert_eq!(scope == Scope::Socket, in_a_row >= DEVICE);
                    }
                    Op::Accept => {
                        routes.accept();
                        twin.accepted += 1;
                    }
                    Op::Ask(to) => {
                        let expected = twin.live(now).iter().any(|(other, _)| *other == to);
                        prop_assert_eq!(routes.rejects(host(to), now), expected);
                    }
                    Op::Wait(seconds) => now += Duration::from_secs(seconds),
                }
                prop_assert!(routes.entries.len() <= MOST && routes.entries.capacity() <= MOST);
            }
        }
    }
}

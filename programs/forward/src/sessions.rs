//! The session table: finds a client's session, and picks the session to end when the table is full.

use std::collections::HashMap;
use std::hash::RandomState;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hashlink::{LinkedHashMap, LinkedHashSet};
use mmsg::SendMeta;
use slab::Slab;

use crate::outlet::Outlet;

/// One source gets at most a quarter of the sessions, so it cannot keep others out.
const SHARE: usize = 4;

/// A client, and the address of this host that it asks, where that is known.
pub type Client = (SocketAddr, Option<IpAddr>);

/// A client and its socket to an upstream.
pub struct Session {
    pub client: Client,
    /// Makes replies leave from the address that the client sent to.
    pub reply: SendMeta,
    pub upstream: Outlet,
    /// Which of the upstreams that is.
    pub upstream_index: usize,
    /// The time of the last datagram in either direction.
    used: Instant,
}

/// All sessions. A slot number identifies a session until it ends.
pub struct Sessions {
    slots: Slab<Session>,
    /// Each client's slot, longest idle first.
    by_client: LinkedHashMap<Client, usize, RandomState>,
    /// The slots of each source, in the same order.
    by_source: HashMap<IpAddr, LinkedHashSet<usize>>,
    max: usize,
    idle: Duration,
}

/// The source of a client: its IPv4 address, or its IPv6 /64 network, since one host may own all of that.
fn source((client, _): Client) -> IpAddr {
    match client.ip().to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        ip => ip,
    }
}

impl Sessions {
    pub fn new(max: usize, idle: Duration) -> Self {
        let (slots, by_client, by_source) = Default::default();
        Self { slots, by_client, by_source, max, idle }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn find(&self, client: Client) -> Option<usize> {
        self.by_client.get(&client).copied()
    }

    pub fn get(&mut self, slot: usize) -> Option<&mut Session> {
        self.slots.get_mut(slot)
    }

    /// Records that the session was used in either direction.
    pub fn touch(&mut self, slot: usize, now: Instant) {
        let Some(session) = self.slots.get_mut(slot).filter(|session| session.used != now) else {
            return;
        };
        session.used = now;
        self.by_client.to_back(&session.client);
        if let Some(of_source) = self.by_source.get_mut(&source(session.client)) {
            of_source.to_back(&slot);
        }
    }

    /// The slot that the next session will get.
    pub fn next_slot(&self) -> usize {
        self.slots.vacant_key()
    }

    /// Opens a session in the next slot.
    pub fn insert(&mut self, client: Client, outlet: Outlet, index: usize, now: Instant) {
        let (reply, upstream, upstream_index) = (SendMeta::new(), outlet, index);
        let session = Session { client, reply, upstream, upstream_index, used: now };
        let slot = self.slots.insert(session);
        self.by_client.insert(client, slot);
        self.by_source.entry(source(client)).or_default().insert(slot);
    }

    /// Makes room for a session of `client`: removes the longest idle session of its source if the source has its full
    /// share, or the longest idle of all if the table is full.
    pub fn make_room(&mut self, client: Client) -> Option<Session> {
        let of_source = self.by_source.get(&source(client));
        let full = of_source.filter(|slots| slots.len() >= (self.max / SHARE).max(1));
        match full.and_then(|slots| slots.front()) {
            Some(&slot) => self.remove(slot),
            None if self.len() >= self.max => self.take_longest_idle(),
            None => None,
        }
    }

    pub fn take_longest_idle(&mut self) -> Option<Session> {
        let (_, &slot) = self.by_client.front()?;
        self.remove(slot)
    }

    pub fn remove(&mut self, slot: usize) -> Option<Session> {
        let session = self.slots.try_remove(slot)?;
        self.by_client.remove(&session.client);
        let source = source(session.client);
        let of_source = self.by_source.get_mut(&source)?;
        of_source.remove(&slot);
        if of_source.is_empty() {
            self.by_source.remove(&source);
        }
        Some(session)
    }

    /// The time until the next session expires.
    pub fn next_due(&mut self, now: Instant) -> Option<Duration> {
        let (_, &slot) = self.by_client.front()?;
        let due = self.slots.get(slot)?.used + self.idle;
        Some(due.saturating_duration_since(now))
    }

    /// Removes one expired session, if any.
    pub fn take_idle(&mut self, now: Instant) -> Option<Session> {
        (self.next_due(now)? == Duration::ZERO).then(|| self.take_longest_idle())?
    }
}

//! The sessions: which client has which upstream.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mmsg::SendMeta;
use slab::Slab;

use crate::outlet::Outlet;

/// A client and its way to an upstream.
pub struct Session {
    pub client: SocketAddr,
    /// Options of replies, so that they leave from the address that the client has sent to.
    pub reply: SendMeta,
    pub upstream: Outlet,
    /// When a datagram went either way.
    pub used: Instant,
}

/// The sessions, each in a slot of its own, which is its number for as long as it lasts.
pub struct Sessions {
    slots: Slab<Session>,
    by_client: HashMap<SocketAddr, usize>,
    /// When to check each session again, one entry a session.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    idle: Duration,
}

impl Sessions {
    pub fn new(idle: Duration) -> Self {
        Self { slots: Slab::new(), by_client: HashMap::new(), due: BinaryHeap::new(), idle }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn find(&self, client: SocketAddr) -> Option<usize> {
        self.by_client.get(&client).copied()
    }

    pub fn get(&mut self, slot: usize) -> Option<&mut Session> {
        self.slots.get_mut(slot)
    }

    /// The slot of the next session to be inserted.
    pub fn next_slot(&self) -> usize {
        self.slots.vacant_key()
    }

    /// Puts a session into the next slot.
    pub fn insert(&mut self, session: Session) {
        let (client, due) = (session.client, session.used + self.idle);
        let slot = self.slots.insert(session);
        self.by_client.insert(client, slot);
        self.due.push(Reverse((due, slot)));
    }

    /// How long until a session may be idle.
    pub fn next_due(&self, now: Instant) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, _))| at.saturating_duration_since(now))
    }

    /// Removes a session that has been idle. A session that was used since its last check is due again when it
    /// would be idle, so that a datagram costs no more than to note the time.
    pub fn take_idle(&mut self, now: Instant) -> Option<Session> {
        loop {
            let Reverse((at, slot)) = *self.due.peek()?;
            if at > now {
                return None;
            }
            self.due.pop();
            let ends = self.get(slot)?.used + self.idle;
            if ends <= now {
                let session = self.slots.try_remove(slot)?;
                self.by_client.remove(&session.client);
                return Some(session);
            }
            self.due.push(Reverse((ends, slot)));
        }
    }

    /// Takes out every session.
    pub fn take_all(&mut self) -> impl Iterator<Item = Session> {
        self.by_client.clear();
        self.due.clear();
        std::mem::take(&mut self.slots).into_iter().map(|(_, session)| session)
    }
}

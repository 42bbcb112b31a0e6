//! Who talks to which upstream.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mmsg::SendMeta;

use crate::outlet::Outlet;

/// A client and its way to an upstream.
pub struct Session {
    pub client: SocketAddr,
    /// What replies ask for, to leave by the address that the client has sent to.
    pub reply: SendMeta,
    pub upstream: Outlet,
    /// When a datagram went either way.
    pub used: Instant,
}

/// The sessions, each in a slot of its own, which is its number for as long as it lasts.
pub struct Sessions {
    slots: Vec<Option<Session>>,
    free: Vec<usize>,
    by_client: HashMap<SocketAddr, usize>,
    /// When to check each session again, one entry a session.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    idle: Duration,
}

impl Sessions {
    pub fn new(idle: Duration) -> Self {
        let (slots, free, by_client) = (Vec::new(), Vec::new(), HashMap::new());
        Self { slots, free, by_client, due: BinaryHeap::new(), idle }
    }

    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    pub fn find(&self, client: SocketAddr) -> Option<usize> {
        self.by_client.get(&client).copied()
    }

    pub fn get(&mut self, slot: usize) -> Option<&mut Session> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The slot of the next session to be inserted.
    pub fn next_slot(&self) -> usize {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    /// Puts a session into the next slot.
    pub fn insert(&mut self, session: Session) {
        let slot = self.next_slot();
        if self.free.pop().is_none() {
            self.slots.push(None);
        }
        self.by_client.insert(session.client, slot);
        self.due.push(Reverse((session.used + self.idle, slot)));
        self.slots[slot] = Some(session);
    }

    /// How long until a session may be idle.
    pub fn next_due(&self, now: Instant) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, _))| at.saturating_duration_since(now))
    }

    /// Takes out a session that has been idle. A session that was used since it was last looked at
    /// is looked at again when it would be: so a datagram costs no more than to note the time.
    pub fn take_idle(&mut self, now: Instant) -> Option<Session> {
        loop {
            let Reverse((at, slot)) = *self.due.peek()?;
            if at > now {
                return None;
            }
            self.due.pop();
            let ends = self.get(slot)?.used + self.idle;
            if ends <= now {
                return self.take(slot);
            }
            self.due.push(Reverse((ends, slot)));
        }
    }

    fn take(&mut self, slot: usize) -> Option<Session> {
        let session = self.slots[slot].take()?;
        self.by_client.remove(&session.client);
        self.free.push(slot);
        Some(session)
    }

    /// Takes out every session.
    pub fn take_all(&mut self) -> impl Iterator<Item = Session> {
        self.by_client.clear();
        self.due.clear();
        self.free.clear();
        self.slots.drain(..).flatten()
    }
}

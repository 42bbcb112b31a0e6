//! The loop: receives a batch from each ready socket in turn, then sends.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::UdpSocket;
use mio::{Events, Poll, Token, Waker};
use mmsg::{Ancillary, RecvBatch, SendMsg};
use socket2::SockRef;

use crate::Options;
use crate::figures::Figures;
use crate::outlet::{Outlet, Queues};
use crate::sessions::{Client, Session, Sessions};

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);
/// The token of the first session; others follow by slot.
const SESSIONS: usize = 2;

/// Messages to receive in one call. Each slot has space for a coalesced message.
const BATCH: usize = 64;
/// Buffer space to ask for, to hold bursts of all clients; the system may grant less.
const BUFFER_BYTES: usize = 4 << 20;

/// How long an upstream that refused a datagram gets no new session, unless all have.
const REST: Duration = Duration::from_secs(30);

struct Upstream {
    addr: SocketAddr,
    rests_until: Instant,
}

pub struct Forwarder {
    poll: Poll,
    listener: Outlet,
    /// The address of the listener.
    addr: SocketAddr,
    sessions: Sessions,
    upstreams: Vec<Upstream>,
    /// The upstream for the next session.
    next_upstream: usize,
    queues: Queues,
    /// Sockets that may have something to receive, each at most once. They take turns.
    ready: VecDeque<Token>,
    /// Sessions that got datagrams in this turn.
    to_flush: Vec<usize>,
    figures: Figures,
}

impl Forwarder {
    pub fn new(options: &Options) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), STOP)?;
        // An error can be ignored: the waker fails only after the loop has ended.
        ctrlc::set_handler(move || drop(waker.wake())).map_err(io::Error::other)?;
        // A system without an upstream's family says so here.
        for upstream in &options.upstream {
            UdpSocket::bind(any_port(*upstream))?;
        }
        let socket = UdpSocket::bind(options.listen)?;
        let addr = socket.local_addr()?;
        if let Some(up) = options.upstream.iter().find(|up| is_at(addr, **up)) {
            return Err(io::Error::other(format!("the upstream {up} is this listener")));
        }
        let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES);
        // On a wildcard address, replies must leave from the address that the client asked: it ignores others.
        if options.listen.ip().is_unspecified() {
            Ancillary::DEST.require(&socket)?;
        }
        let listener = Outlet::new(socket, poll.registry(), LISTENER)?;
        let rests_until = Instant::now();
        let upstreams = options.upstream.iter().map(|&addr| Upstream { addr, rests_until });
        Ok(Self {
            poll,
            listener,
            addr,
            sessions: Sessions::new(max_sessions(options.sessions), options.idle),
            upstreams: upstreams.collect(),
            next_upstream: 0,
            queues: Queues::new(options.queues as usize, options.queue as usize),
            ready: VecDeque::new(),
            to_flush: Vec::new(),
            figures: Figures::default(),
        })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Forwards until a signal, and returns the counters.
    pub fn run(mut self) -> io::Result<Figures> {
        let mut events = Events::with_capacity(1024);
        let mut batch = RecvBatch::for_gro(BATCH);
        while self.wait(&mut events)? {
            let now = Instant::now();
            // Serves the sockets that were ready before this turn; those still ready queue up again.
            for _ in 0..self.ready.len() {
                let Some(token) = self.ready.pop_front() else { break };
                if self.receive(token, &mut batch, now)? {
                    self.ready.push_back(token);
                } else if let Some(outlet) = self.outlet(token) {
                    outlet.in_line = false;
                }
            }
            self.end_idle_sessions(now);
        }
        // Waiting datagrams count as abandoned, so that none is unaccounted for.
        while let Some(mut session) = self.sessions.take_longest_idle() {
            session.upstream.abandon(&mut self.queues, &mut self.figures.to_upstreams);
        }
        self.listener.abandon(&mut self.queues, &mut self.figures.to_clients);
        Ok(self.figures)
    }

    /// Waits for events, but not while sockets are ready. Returns false when it is time to stop.
    fn wait(&mut self, events: &mut Events) -> io::Result<bool> {
        let due = self.sessions.next_due(Instant::now());
        let timeout = if self.ready.is_empty() { due } else { Some(Duration::ZERO) };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            result => result?,
        }
        for event in events.iter() {
            let token = event.token();
            if token == STOP {
                return Ok(false);
            }
            if event.is_writable() {
                self.flush(token)?;
            }
            // The events are edge-triggered, so the socket stays in line until it is drained.
            let readable = event.is_readable() || event.is_error();
            if let Some(outlet) = self.outlet(token).filter(|outlet| readable && !outlet.in_line) {
                outlet.in_line = true;
                self.ready.push_back(token);
            }
        }
        Ok(true)
    }

    /// Sends the queue of a socket that accepts datagrams again.
    fn flush(&mut self, token: Token) -> io::Result<()> {
        let (registry, queues) = (self.poll.registry(), &mut self.queues);
        match token {
            LISTENER => self.listener.flush(registry, queues, &mut self.figures.to_clients),
            Token(n) => match self.sessions.get(n - SESSIONS) {
                Some(session) => {
                    session.upstream.flush(registry, queues, &mut self.figures.to_upstreams)
                }
                None => Ok(()),
            },
        }
    }

    /// The outlet with this token; `None` if its session has ended.
    fn outlet(&mut self, token: Token) -> Option<&mut Outlet> {
        match token {
            LISTENER => Some(&mut self.listener),
            Token(n) => Some(&mut self.sessions.get(n - SESSIONS)?.upstream),
        }
    }

    /// Receives a batch and forwards it. Returns false if the socket had nothing.
    fn receive(&mut self, token: Token, batch: &mut RecvBatch, now: Instant) -> io::Result<bool> {
        match token {
            LISTENER => self.take_from_clients(batch, now),
            Token(n) => self.take_from_upstream(n - SESSIONS, batch, now),
        }
    }

    fn take_from_clients(&mut self, batch: &mut RecvBatch, now: Instant) -> io::Result<bool> {
        let result = self.listener.receive(batch, &mut self.figures.to_upstreams);
        if !goes_on(result, &mut self.figures.to_clients.errors) {
            return Ok(false);
        }
        for datagram in &*batch {
            let client = datagram.addr().filter(|from| !self.would_circle(*from));
            let (Some(client), false) = (client, datagram.truncated()) else {
                self.figures.to_upstreams.unfit += 1;
                continue;
            };
            let reply = datagram.meta().reply_meta();
            let slot = self.session_of((client, reply.source), now);
            let figures = &mut self.figures.to_upstreams;
            let Some((slot, session)) = slot.and_then(|n| Some((n, self.sessions.get(n)?))) else {
                figures.no_session += 1;
                continue;
            };
            session.reply = reply;
            if session.upstream.push(&SendMsg::new(datagram.data()), &mut self.queues, figures) {
                self.to_flush.push(slot);
            }
        }
        for slot in std::mem::take(&mut self.to_flush) {
            self.flush(Token(SESSIONS + slot))?;
            self.rest_if_refused(slot, now);
        }
        Ok(true)
    }

    fn take_from_upstream(
        &mut self,
        slot: usize,
        batch: &mut RecvBatch,
        now: Instant,
    ) -> io::Result<bool> {
        let Some(session) = self.sessions.get(slot) else { return Ok(false) };
        let figures = &mut self.figures.to_clients;
        let result = session.upstream.receive(batch, figures);
        if !goes_on(result, &mut self.figures.to_upstreams.errors) {
            return Ok(false);
        }
        for datagram in &*batch {
            if datagram.truncated() {
                figures.unfit += 1;
                continue;
            }
            let msg = SendMsg::to(session.client.0, datagram.data()).with_meta(&session.reply);
            self.listener.push(&msg, &mut self.queues, figures);
        }
        self.listener.flush(self.poll.registry(), &mut self.queues, figures)?;
        // An error alone does not keep a session alive.
        if !batch.is_empty() {
            self.sessions.touch(slot, now);
        }
        self.rest_if_refused(slot, now);
        Ok(true)
    }

    /// Whether the source is an upstream or this listener. It can only be forged: the replies would come back as a client's
    /// datagrams, for ever.
    fn would_circle(&self, source: SocketAddr) -> bool {
        let is_source = |up: &Upstream| {
            up.addr.ip().to_canonical() == source.ip().to_canonical()
                && up.addr.port() == source.port()
        };
        is_at(self.addr, source) || self.upstreams.iter().any(is_source)
    }

    /// The client's session, opened if necessary; `None` if it cannot be opened.
    fn session_of(&mut self, client: Client, now: Instant) -> Option<usize> {
        if let Some(slot) = self.sessions.find(client) {
            self.sessions.touch(slot, now);
            return Some(slot);
        }
        // The socket comes first: without a route to an upstream, no session needs to make room.
        let (socket, upstream) = self.connect(now)?;
        if let Some(session) = self.sessions.make_room(client) {
            self.evict(session);
        }
        let slot = self.sessions.next_slot();
        let token = Token(SESSIONS + slot);
        let outlet = Outlet::new(socket, self.poll.registry(), token).ok()?;
        self.sessions.insert(client, outlet, upstream, now);
        self.figures.begun += 1;
        self.figures.max_open = self.figures.max_open.max(self.sessions.len());
        Some(slot)
    }

    /// A socket connected to the next upstream that does not rest and has a route; to any with a route if all rest.
    fn connect(&mut self, now: Instant) -> Option<(UdpSocket, usize)> {
        let count = self.upstreams.len();
        (0..2 * count).find_map(|tries| {
            let index = self.next_upstream;
            self.next_upstream = (index + 1) % count;
            let Upstream { addr, rests_until } = self.upstreams[index];
            if rests_until > now && tries < count {
                return None;
            }
            let bind = || UdpSocket::bind(any_port(addr)).ok();
            let socket = bind().or_else(|| {
                // The process ran out of descriptors or ports before its table was full.
                let session = self.sessions.take_longest_idle()?;
                self.evict(session);
                bind()
            })?;
            socket.connect(addr).ok().map(|()| (socket, index))
        })
    }

    /// If the session's upstream refused a datagram, new sessions avoid it, and this one ends if there is another: so the
    /// client's next datagram goes there.
    fn rest_if_refused(&mut self, slot: usize, now: Instant) {
        let session = self.sessions.get(slot).filter(|session| session.upstream.refused);
        let Some(session) = session else { return };
        session.upstream.refused = false;
        self.upstreams[session.upstream_index].rests_until = now + REST;
        if self.upstreams.iter().any(|upstream| upstream.rests_until <= now)
            && let Some(mut session) = self.sessions.remove(slot)
        {
            session.upstream.abandon(&mut self.queues, &mut self.figures.to_upstreams);
            self.figures.refused += 1;
        }
    }

    /// Ends a session to make room for another.
    fn evict(&mut self, mut session: Session) {
        session.upstream.abandon(&mut self.queues, &mut self.figures.to_upstreams);
        self.figures.evicted += 1;
    }

    fn end_idle_sessions(&mut self, now: Instant) {
        while let Some(mut session) = self.sessions.take_idle(now) {
            // Dropping the session closes its socket, which also ends the registration.
            session.upstream.abandon(&mut self.queues, &mut self.figures.to_upstreams);
            self.figures.idle += 1;
        }
    }
}

/// Any port of this host, for a socket towards an upstream.
fn any_port(upstream: SocketAddr) -> SocketAddr {
    match upstream {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// `asked`, or fewer if the process may not open as many descriptors.
fn max_sessions(asked: u32) -> usize {
    // For the listener, the poll and the standard streams.
    const OTHERS: u64 = 16;
    let limit = rlimit::increase_nofile_limit(u64::from(asked) + OTHERS).unwrap_or(1024);
    limit.saturating_sub(OTHERS).clamp(1, asked.into()) as usize
}

/// Whether the socket may have more to receive. Any error but "nothing there" is counted, and affects this call only.
fn goes_on(result: io::Result<()>, errors: &mut u64) -> bool {
    match result {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        Err(_) => {
            *errors += 1;
            true
        }
    }
}

/// Whether a listener gets what is sent to this address: on a wildcard address, if the address is the host's.
fn is_at(listener: SocketAddr, mut addr: SocketAddr) -> bool {
    let is_port = addr.port() == listener.port();
    // Only an address of the host can be bound.
    addr.set_port(0);
    is_port
        && (addr.ip().to_canonical() == listener.ip().to_canonical()
            || listener.ip().is_unspecified() && UdpSocket::bind(addr).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_listener_is_at_each_address_of_the_host() {
        let is_at = |listener: &str, addr: &str| {
            is_at(listener.parse().expect("an address"), addr.parse().expect("an address"))
        };
        assert!(is_at("127.0.0.1:7", "127.0.0.1:7") && !is_at("127.0.0.1:7", "127.0.0.2:7"));
        assert!(is_at("0.0.0.0:7", "127.0.0.2:7") && !is_at("0.0.0.0:7", "127.0.0.2:8"));
        assert!(is_at("[::]:7", "[::ffff:127.0.0.2]:7") && !is_at("0.0.0.0:7", "192.0.2.1:7"));
    }
}

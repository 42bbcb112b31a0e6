//! A socket and the datagrams that wait for it.

use std::io;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use mmsg::options::Drops;
use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg, SendQueue};

use crate::figures::Direction;

/// Errors in a row before the first datagram of the queue is blamed: each error may be about a datagram sent earlier.
const DOUBTS: u64 = 8;

/// Drained queues to keep: the next socket takes one with its memory.
const SPARE: usize = 2;

/// The queues of all sockets.
pub struct Queues {
    spare: Vec<SendQueue>,
    /// Bytes that wait in all queues, and how many may wait for full sockets.
    waiting: usize,
    max: usize,
    /// The same for one queue.
    max_each: usize,
}

impl Queues {
    pub fn new(max: usize, max_each: usize) -> Self {
        Self { spare: Vec::new(), waiting: 0, max, max_each }
    }

    fn take(&mut self) -> SendQueue {
        self.spare.pop().unwrap_or_else(|| SendQueue::new(self.max_each))
    }

    /// Takes a drained queue back, or frees it.
    fn give(&mut self, queue: SendQueue) {
        if self.spare.len() < SPARE {
            self.spare.push(queue);
        }
    }
}

/// A socket with a send queue. Datagrams that the socket does not accept at once wait in order. A full queue drops and
/// counts them.
pub struct Outlet {
    socket: Offload<UdpSocket>,
    token: Token,
    /// Only while datagrams wait.
    waiting: Option<SendQueue>,
    /// Whether the last send found the socket full.
    blocked: bool,
    /// Whether the socket is registered for writability.
    asked: bool,
    /// Whether the peer has refused a datagram.
    pub refused: bool,
    /// Whether the socket is in line to be received from.
    pub in_line: bool,
    /// Datagrams that the system dropped before they were received.
    missed: Drops,
}

impl Outlet {
    /// Registers the socket for reading.
    pub fn new(socket: UdpSocket, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut socket = Offload::new(socket)?;
        // On systems without this count, `missed` stays 0.
        let _ = mmsg::Ancillary::DROPPED.enable(socket.get_ref())?;
        // Not for writability: every datagram sent would wake the program.
        registry.register(&mut socket, token, Interest::READABLE)?;
        let (waiting, missed) = (None, Drops::new());
        let [blocked, asked, refused, in_line] = [false; 4];
        Ok(Self { socket, token, waiting, blocked, asked, refused, in_line, missed })
    }

    /// Receives a batch and counts it.
    pub fn receive(&mut self, batch: &mut RecvBatch, figures: &mut Direction) -> io::Result<()> {
        self.socket.recv_into(batch).inspect_err(|error| self.refused |= refuses(error))?;
        // A coalesced message that lost its segment size has no datagrams, and counts as one.
        let lost = batch.messages().filter(|message| message.datagrams().len() == 0).count();
        figures.unfit += lost as u64;
        figures.received += (batch.datagram_count() + lost) as u64;
        // Each message carries the total up to its arrival, so the last one has the newest.
        let dropped = batch.messages().last().and_then(|message| message.meta().dropped);
        figures.missed += self.missed.note(dropped);
        Ok(())
    }

    /// Queues a datagram. Returns whether the caller must flush. It need not if other datagrams were waiting already, or if
    /// the socket is full.
    pub fn push(
        &mut self,
        msg: &SendMsg<'_>,
        queues: &mut Queues,
        figures: &mut Direction,
    ) -> bool {
        let (cost, first) = (SendQueue::cost(msg), self.waiting.is_none());
        // Full sockets alone count: the others send within this turn.
        if self.blocked && queues.waiting + cost > queues.max {
            figures.queue_full += 1;
            return false;
        }
        if self.waiting.get_or_insert_with(|| queues.take()).push(msg).is_ok() {
            queues.waiting += cost;
            return first && !self.blocked;
        }
        // The queue may only be full of datagrams pushed since the last flush, which the socket may accept now.
        if !self.blocked {
            self.send(queues, figures);
        }
        if self.waiting.get_or_insert_with(|| queues.take()).push(msg).is_ok() {
            queues.waiting += cost;
        } else {
            figures.queue_full += 1;
        }
        true
    }

    /// Sends what the socket accepts, and registers for writability if datagrams remain.
    pub fn flush(
        &mut self,
        registry: &Registry,
        queues: &mut Queues,
        figures: &mut Direction,
    ) -> io::Result<()> {
        self.send(queues, figures);
        if self.blocked == self.asked {
            return Ok(());
        }
        self.asked = self.blocked;
        let interest = if self.blocked {
            figures.blocked += 1;
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        registry.reregister(&mut self.socket, self.token, interest)
    }

    fn send(&mut self, queues: &mut Queues, figures: &mut Direction) {
        self.blocked = false;
        let Some(mut waiting) = self.waiting.take() else { return };
        queues.waiting -= waiting.bytes();
        // Errors about the first datagram of the queue, or about an earlier one.
        let mut doubts = 0;
        while !waiting.is_empty() && !self.blocked {
            match self.socket.flush(&mut waiting) {
                Ok(0) => self.blocked = true,
                Ok(sent) => {
                    figures.forwarded += sent as u64;
                    figures.errors += doubts;
                    doubts = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                // An error about an earlier datagram is returned once. An error about this one is returned each time.
                Err(error) if doubts < DOUBTS => {
                    self.refused |= refuses(&error);
                    doubts += 1;
                }
                Err(_) => {
                    figures.rejected += 1;
                    waiting.discard_front();
                    doubts = 0;
                }
            }
        }
        figures.errors += doubts;
        if waiting.is_empty() {
            queues.give(waiting);
        } else {
            queues.waiting += waiting.bytes();
            self.waiting = Some(waiting);
        }
    }

    /// Sends what the socket still accepts, and counts the rest as abandoned.
    pub fn abandon(&mut self, queues: &mut Queues, figures: &mut Direction) {
        self.send(queues, figures);
        if let Some(waiting) = self.waiting.take() {
            figures.abandoned += waiting.len() as u64;
            queues.waiting -= waiting.bytes();
        }
    }
}

/// An ICMP error says that nobody listens there.
fn refuses(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

//! A socket and the datagrams that wait for it.

use std::io;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use mmsg::options::Drops;
use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg, SendQueue};

use crate::figures::Direction;

/// Errors in a row before the first datagram of the queue is blamed: each error may be about a datagram sent earlier.
const DOUBTS: u64 = 8;

/// A socket with a send queue. Datagrams that the socket does not accept at once wait in order. A full queue drops and
/// counts them.
pub struct Outlet {
    socket: Offload<UdpSocket>,
    token: Token,
    waiting: SendQueue,
    /// Whether the last send found the socket full.
    blocked: bool,
    /// Whether the socket is registered for writability.
    asked: bool,
    /// Whether the socket is in line to be received from.
    pub in_line: bool,
    /// Datagrams that the system dropped before they were received.
    missed: Drops,
}

impl Outlet {
    /// Registers the socket for reading. `capacity` limits its queue, in bytes.
    pub fn new(
        socket: UdpSocket,
        capacity: usize,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        let mut socket = Offload::new(socket)?;
        // On systems without this count, `missed` stays 0.
        let _ = mmsg::Ancillary::DROPPED.enable(socket.get_ref())?;
        // Not for writability: every datagram sent would wake the program.
        registry.register(&mut socket, token, Interest::READABLE)?;
        let (waiting, missed) = (SendQueue::new(capacity), Drops::new());
        Ok(Self { socket, token, waiting, blocked: false, asked: false, in_line: false, missed })
    }

    /// Receives a batch and counts it.
    pub fn receive(&mut self, batch: &mut RecvBatch, figures: &mut Direction) -> io::Result<()> {
        self.socket.recv_into(batch)?;
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
    pub fn push(&mut self, msg: &SendMsg<'_>, figures: &mut Direction) -> bool {
        let first = self.waiting.is_empty();
        if self.waiting.push(msg).is_ok() {
            return first && !self.blocked;
        }
        // The queue may only be full of datagrams pushed since the last flush, which the socket may accept now.
        if !self.blocked {
            self.send(figures);
        }
        if self.waiting.push(msg).is_err() {
            figures.queue_full += 1;
        }
        true
    }

    /// Sends what the socket accepts, and registers for writability if datagrams remain.
    pub fn flush(&mut self, registry: &Registry, figures: &mut Direction) -> io::Result<()> {
        self.send(figures);
        if self.blocked == self.asked {
            return Ok(());
        }
        self.asked = self.blocked;
        let interest = if self.blocked {
            figures.blocked += 1;
            Interest::READABLE | Interest::WRITABLE
        } else {
            // A full queue is rare, so its memory is freed.
            self.waiting.shrink_to_fit();
            Interest::READABLE
        };
        registry.reregister(&mut self.socket, self.token, interest)
    }

    fn send(&mut self, figures: &mut Direction) {
        self.blocked = false;
        // Errors about the first datagram of the queue, or about an earlier one.
        let mut doubts = 0;
        while !self.waiting.is_empty() && !self.blocked {
            match self.socket.flush(&mut self.waiting) {
                Ok(0) => self.blocked = true,
                Ok(sent) => {
                    figures.forwarded += sent as u64;
                    figures.errors += doubts;
                    doubts = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                // An error about an earlier datagram is returned once. An error about this one is returned each time.
                Err(_) if doubts < DOUBTS => doubts += 1,
                Err(_) => {
                    figures.rejected += 1;
                    self.waiting.discard_front();
                    doubts = 0;
                }
            }
        }
        figures.errors += doubts;
    }

    /// Sends what the socket still accepts, and counts the rest as abandoned.
    pub fn abandon(&mut self, figures: &mut Direction) {
        self.send(figures);
        figures.abandoned += self.waiting.len() as u64;
        self.waiting.clear();
    }
}

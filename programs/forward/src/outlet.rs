//! A socket and the datagrams that wait to be sent by it.

use std::io;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use mmsg::options::Drops;
use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg, SendQueue};

use crate::figures::Direction;

/// Errors in a row before one is taken to be about the datagram at hand: each may be about another
/// one that left before.
const DOUBTS: u64 = 8;

/// A socket whose senders never wait: datagrams that it does not accept at once wait in
/// its queue, in order; those that do not fit the queue are dropped and counted.
pub struct Outlet {
    socket: Offload<UdpSocket>,
    token: Token,
    waiting: SendQueue,
    /// The socket has said that it takes no more now.
    blocked: bool,
    /// Whether the socket is registered for writability.
    asked: bool,
    /// Whether it is among those that may have something to be received.
    pub in_line: bool,
    /// Datagrams that the system dropped before they were received.
    missed: Drops,
}

impl Outlet {
    /// Registers the socket for reading. `capacity` is the bound of its queue in bytes.
    pub fn new(
        socket: UdpSocket,
        capacity: usize,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        let mut socket = Offload::new(socket)?;
        // Where the system does not count them, there is no count.
        let _ = mmsg::Ancillary::DROPPED.enable(socket.get_ref())?;
        // Without writability: the system would wake us for every datagram that has left.
        registry.register(&mut socket, token, Interest::READABLE)?;
        let (waiting, missed) = (SendQueue::new(capacity), Drops::new());
        Ok(Self { socket, token, waiting, blocked: false, asked: false, in_line: false, missed })
    }

    pub fn socket(&self) -> &UdpSocket {
        self.socket.get_ref()
    }

    /// Receives a batch, and counts it.
    pub fn receive(&mut self, batch: &mut RecvBatch, figures: &mut Direction) -> io::Result<()> {
        self.socket.recv_into(batch)?;
        // A coalesced message whose segment size was lost has no datagrams, and counts as one.
        let lost = batch.messages().filter(|message| message.datagrams().len() == 0).count();
        figures.unfit += lost as u64;
        figures.received += (batch.datagram_count() + lost) as u64;
        // Each message says how many were dropped before it came, so the last one knows of all.
        let dropped = batch.messages().last().and_then(|message| message.meta().dropped);
        figures.missed += self.missed.note(dropped);
        Ok(())
    }

    /// Takes a datagram to be sent by the next `flush`, and says whether there should be one: not
    /// for a datagram that joins others, nor while the socket takes no more.
    pub fn push(&mut self, msg: &SendMsg<'_>, figures: &mut Direction) -> bool {
        let first = self.waiting.is_empty();
        if self.waiting.push(msg).is_ok() {
            return first && !self.blocked;
        }
        // The socket may accept the datagrams pushed since the last flush.
        if !self.blocked {
            self.send(figures);
        }
        if self.waiting.push(msg).is_err() {
            figures.queue_full += 1;
        }
        true
    }

    /// Sends the queue as far as the socket accepts it, and registers for writability if some is left.
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
            // The memory of a full queue is not needed again soon.
            self.waiting.shrink_to_fit();
            Interest::READABLE
        };
        registry.reregister(&mut self.socket, self.token, interest)
    }

    fn send(&mut self, figures: &mut Direction) {
        self.blocked = false;
        // Errors that may be about the first datagram of the queue, or about one sent before.
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
                // Perhaps about a datagram sent before: such an error is returned once. An error about this
                // datagram comes again at once.
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

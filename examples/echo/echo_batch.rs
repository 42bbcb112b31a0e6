//! The echo server in batches, by this crate.

use std::io;

use mmsg::{BatchSocketExt, Datagram, Iter, RecvBatch, SendMsg, SendQueue};

use crate::counters::Counters;
use crate::echo_std::pause_after;
use crate::offloaded::{EchoSocket, Moved, moved_by};
use crate::refusal::{Refusal, is_silence};
use crate::stop::Stop;

/// Holds any UDP datagram, and any train of them. Pages of a slot that no datagram reaches take no memory.
const LARGEST: usize = 65_535;

/// One socket's server.
pub struct BatchEcho<'a, S: ?Sized> {
    socket: &'a S,
    counters: &'a Counters,
    batch: RecvBatch,
    /// Replies that the socket did not take at once, in order.
    waiting: SendQueue,
    /// Whether the next one waiting has been sent again already, after an error of another.
    sent_again: bool,
}

impl<'a, S: EchoSocket + ?Sized> BatchEcho<'a, S> {
    pub fn new(socket: &'a S, slots: usize, counters: &'a Counters) -> io::Result<Self> {
        let batch = RecvBatch::try_new(slots, LARGEST)?;
        // Nothing is received while replies wait, so one batch is all that can be in there. A slot
        // may bring a train, at worst of datagrams of one byte.
        let slot = LARGEST * (1 + SendQueue::OVERHEAD);
        let waiting = SendQueue::new(slots.saturating_mul(slot));
        Ok(Self { socket, counters, batch, waiting, sent_again: false })
    }

    /// Sends every datagram back to its source, until told to stop.
    pub fn run(&mut self, stop: &Stop) {
        while !stop.is_raised() {
            if self.send_waiting() {
                let received = self.receive(stop);
                self.send_back(received);
            }
        }
        self.send_waiting();
        self.counters.errors.add(self.waiting.len());
    }

    /// Receives a batch and returns how many datagrams are in it.
    fn receive(&mut self, stop: &Stop) -> usize {
        match moved_by(self.socket, || self.socket.recv_into(&mut self.batch)) {
            Ok(moved) => {
                // A train that cannot be taken apart, for want of its segment size, counts as one.
                let of_each = self.batch.messages().map(|msg| msg.datagrams().len().max(1));
                let count = of_each.sum();
                self.counters.received.add(count);
                self.counters.calls.add(moved.calls);
                return count;
            }
            Err(error) if is_silence(&error) => {}
            Err(error) => {
                self.counters.errors.add(1);
                pause_after(&error, stop);
            }
        }
        0
    }

    /// Sends the batch back straight out of the memory it was received into; what the socket does
    /// not take is copied and waits.
    fn send_back(&mut self, received: usize) {
        let count = self.batch.iter().filter_map(reply).count();
        self.counters.ignored.add(received - count);
        if count == 0 {
            return;
        }
        let replies = Replies { datagrams: self.batch.iter(), left: count };
        let sent = match moved_by(self.socket, || self.socket.send_iter(replies.clone())) {
            Ok(moved) => self.count_sent(moved),
            Err(error) => {
                // Any other error will be met again by the datagram that it is about.
                if Refusal::of(&error) == Refusal::OfAnother {
                    self.counters.errors.add(1);
                }
                0
            }
        };
        for reply in replies.skip(sent) {
            if self.waiting.push(&reply).is_err() {
                self.counters.errors.add(1);
            }
        }
    }

    /// Sends what waits, and says whether nothing does any more.
    fn send_waiting(&mut self) -> bool {
        while !self.waiting.is_empty() {
            match moved_by(self.socket, || self.socket.flush(&mut self.waiting)) {
                Ok(moved) => {
                    if self.count_sent(moved) == 0 {
                        return false;
                    }
                    self.sent_again = false;
                }
                Err(error) => {
                    let refusal = Refusal::of(&error);
                    if refusal == Refusal::Later {
                        return false;
                    }
                    self.counters.errors.add(1);
                    if refusal == Refusal::OfAnother && !self.sent_again {
                        self.sent_again = true;
                    } else {
                        self.waiting.pop_front();
                        self.sent_again = false;
                    }
                }
            }
        }
        true
    }

    fn count_sent(&self, moved: Moved) -> usize {
        if moved.messages > 0 {
            self.counters.sent.add(moved.messages);
            self.counters.calls.add(moved.calls);
        }
        moved.messages
    }
}

/// What goes back to where a datagram came from: nothing if that is not known, or if the datagram
/// is not whole.
fn reply<'a>(datagram: Datagram<'a>) -> Option<SendMsg<'a>> {
    let source = datagram.addr()?;
    (!datagram.truncated()).then(|| SendMsg::to(source, datagram.data()))
}

/// The replies to a batch. It knows how many there are, so that all of them can go in one call.
#[derive(Clone)]
struct Replies<'a> {
    datagrams: Iter<'a>,
    left: usize,
}

impl<'a> Iterator for Replies<'a> {
    type Item = SendMsg<'a>;

    fn next(&mut self) -> Option<SendMsg<'a>> {
        let next = self.datagrams.find_map(reply)?;
        self.left -= 1;
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

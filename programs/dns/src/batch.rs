//! The server in batches, by this crate.

use std::cmp::Reverse;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use mmsg::{BatchSocket, RecvBatch, SendMeta, SendMsg, SendQueue};

use crate::Totals;
use crate::answer::answer;
use crate::reply::LARGEST;
use crate::stop::Stop;
use crate::zone::Zone;

/// Datagrams that a call carries at most.
const BATCH: usize = 64;
/// Longer than any query that makes sense; a truncated one is read as far as it goes.
const QUERY: usize = 2048;

pub struct Server<'a, S> {
    socket: &'a S,
    zone: &'a Zone,
    batch: RecvBatch,
    answers: Answers,
    /// Answers on their way to the socket, in order.
    queue: SendQueue,
    totals: Totals,
}

impl<'a, S: BatchSocket> Server<'a, S> {
    /// `gso`: whether answers that are alike are put side by side, to leave as one.
    pub fn new(socket: &'a S, zone: &'a Zone, gso: bool) -> Self {
        // Nothing is received while answers wait, so one batch of them is all that can be in there.
        let most = BATCH * (LARGEST + SendQueue::OVERHEAD + size_of::<SendMeta>());
        Self {
            socket,
            zone,
            batch: RecvBatch::new(BATCH, QUERY),
            answers: Answers::new(gso),
            queue: SendQueue::new(most),
            totals: Totals::default(),
        }
    }

    /// Answers queries until it is to stop.
    pub fn run(mut self, stop: &Stop) -> Totals {
        while !stop.is_raised() {
            match self.socket.recv_into(&mut self.batch) {
                Ok(_) => self.answer(),
                Err(error) if is_silence(&error) => {}
                // It is about no query; one that comes again and again must not take a core.
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
            while !self.queue.is_empty() && !stop.is_raised() {
                self.send();
            }
        }
        self.totals
    }

    /// Puts the answers to a batch into the queue.
    fn answer(&mut self) {
        self.answers.clear();
        for query in &self.batch {
            self.totals.received += 1;
            let Some(from) = query.addr() else { continue };
            self.answers
                .push(from, query.meta().reply(), |out| answer(self.zone, query.data(), out));
        }
        for msg in self.answers.iter() {
            // There is space: the queue was made for a batch.
            self.totals.failed += u64::from(self.queue.push(&msg).is_err());
        }
    }

    /// Sends what the socket takes, waiting for space as long as its timeout says.
    fn send(&mut self) {
        match self.socket.flush(&mut self.queue) {
            Ok(sent) => self.totals.answered += sent as u64,
            Err(error) if is_silence(&error) => {}
            // No way to that one, or a firewall's word: the others have theirs.
            Err(_) => {
                self.queue.discard_front();
                self.totals.failed += 1;
            }
        }
    }
}

/// Whether an error says only that nothing came, or that there was no space, while the call waited.
fn is_silence(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The answers to a batch.
struct Answers {
    bytes: Vec<u8>,
    list: Vec<Answer>,
    gso: bool,
}

struct Answer {
    to: SocketAddr,
    meta: SendMeta,
    bytes: Range<usize>,
}

impl Answers {
    fn new(gso: bool) -> Self {
        Self { bytes: vec![0; BATCH * LARGEST], list: Vec::with_capacity(BATCH), gso }
    }

    fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds the answer that `write` writes, if it writes one.
    fn push(
        &mut self,
        to: SocketAddr,
        meta: SendMeta,
        write: impl FnOnce(&mut [u8; LARGEST]) -> Option<usize>,
    ) {
        let start = self.list.last().map_or(0, |last| last.bytes.end);
        if self.bytes.len() < start + LARGEST {
            self.bytes.resize(start + LARGEST, 0);
        }
        let Some(free) = self.bytes[start..].first_chunk_mut() else { return };
        if let Some(len) = write(free) {
            self.list.push(Answer { to, meta, bytes: start..start + len });
        }
    }

    /// The answers as messages: in the order of the queries, or the longest first for each client,
    /// since only the last of a GSO batch may be shorter. Nobody waits for an order.
    fn iter(&mut self) -> impl Iterator<Item = SendMsg<'_>> {
        if self.gso {
            let key =
                |answer: &Answer| (answer.to, answer.meta.source, Reverse(answer.bytes.len()));
            self.list.sort_unstable_by_key(key);
        }
        let bytes = &self.bytes;
        self.list.iter().map(|answer| {
            SendMsg::to(answer.to, &bytes[answer.bytes.clone()]).with_meta(&answer.meta)
        })
    }
}

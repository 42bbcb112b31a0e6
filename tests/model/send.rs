//! Sends on real sockets, and the results that they must have.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use mmsg::{BatchSocketExt, Ecn, SendMsg};

use super::datagram::{HEADER, Identity, Stream};
use super::net::cost;
use super::ops::{Batch, Op, Sending, Shape};
use super::run::Actor;
use crate::common::errno;

/// A message: its datagrams, or something that no system sends.
#[derive(Clone, Debug)]
pub struct Message {
    to: usize,
    content: Content,
    /// Whether its bytes are divided into several buffers.
    gathered: bool,
    ecn: bool,
    /// Whether it has a destination.
    dest: bool,
}

#[derive(Clone, Debug)]
enum Content {
    Datagrams {
        list: Vec<Identity>,
        segment_size: Option<u16>,
    },
    TooLong,
    /// A destination with port 0.
    Nowhere,
}

/// Longer than any datagram, and than the send buffer of a Unix socket.
static TOO_LONG: [u8; 300_000] = [0; 300_000];

/// A call may end once its messages, with the next one, are longer than this: what it copies, less a GSO batch.
const COPIES: usize = (128 << 10) - 65_507;

impl Message {
    fn bytes(&self) -> Vec<u8> {
        match &self.content {
            Content::Datagrams { list, .. } => list.iter().flat_map(|id| id.bytes()).collect(),
            Content::TooLong => TOO_LONG.to_vec(),
            Content::Nowhere => b"nowhere".to_vec(),
        }
    }

    fn datagrams(&self) -> &[Identity] {
        match &self.content {
            Content::Datagrams { list, .. } => list,
            _ => &[],
        }
    }

    fn cost(&self) -> usize {
        self.datagrams().iter().map(|id| cost(id.len())).sum()
    }

    fn has_segments(&self) -> bool {
        matches!(self.content, Content::Datagrams { segment_size: Some(_), .. })
    }

    /// The error that it must cause.
    fn error(&self) -> Option<i32> {
        match self.content {
            Content::Datagrams { .. } => None,
            Content::TooLong => Some(errno::EMSGSIZE),
            Content::Nowhere => Some(errno::EINVAL),
        }
    }

    fn to_send<'a>(
        &self,
        data: &'a [u8],
        parts: &'a [IoSlice<'a>],
        addrs: Option<[SocketAddr; 2]>,
    ) -> SendMsg<'a> {
        let mut msg = if self.gathered { SendMsg::gather(parts) } else { SendMsg::new(data) };
        if let (true, Some(addrs)) = (self.dest, addrs) {
            let mut dest = addrs[self.to];
            if matches!(self.content, Content::Nowhere) {
                dest.set_port(0);
            }
            msg = msg.with_dest(dest);
        }
        if self.ecn {
            msg = msg.with_ecn(Ecn::Ect0);
        }
        match self.content {
            Content::Datagrams { segment_size: Some(size), .. } => msg.with_segment_size(size),
            _ => msg,
        }
    }
}

/// Lends messages in the form that the library takes. Up to three neighbours are adjacent in memory.
fn lend<R>(
    msgs: &[Message],
    addrs: Option<[SocketAddr; 2]>,
    call: impl FnOnce(&[SendMsg<'_>]) -> R,
) -> R {
    let (mut memory, mut ranges) = (Vec::new(), Vec::new());
    for (i, msg) in msgs.iter().enumerate() {
        let start = memory.len();
        memory.extend(msg.bytes());
        ranges.push(start..memory.len());
        memory.extend((i % 3 == 1).then_some(0));
    }
    let data: Vec<_> = ranges.into_iter().map(|range| &memory[range]).collect();
    let parts: Vec<_> = data
        .iter()
        .map(|data| {
            let (one, rest) = data.split_at(data.len() / 3);
            [IoSlice::new(one), IoSlice::new(&[]), IoSlice::new(rest)]
        })
        .collect();
    let both = msgs.iter().zip(data.iter().zip(&parts));
    let sends: Vec<_> = both.map(|(msg, (data, parts))| msg.to_send(data, parts, addrs)).collect();
    call(&sends)
}

/// Which socket sends a stream.
pub fn sender(stream: Stream) -> usize {
    usize::from(stream / 4 % 2)
}

impl Actor<'_> {
    /// The messages of a batch, with the next numbers of its stream.
    fn make(&mut self, op: Op, batch: Batch, queued: bool) -> Vec<Message> {
        let net = &self.shared.net;
        let (inet, seed) = (net.addrs.is_some(), usize::from(batch.seed));
        // A connected socket receives only its peer's datagrams.
        let to = if net.connected { 1 - op.at } else { batch.to };
        let stream = (self.thread * 8 + op.at * 4 + to * 2 + usize::from(queued)) as u8;
        let next = self.next.entry(stream).or_default();
        let mut identity = |len: usize| {
            if len < HEADER {
                return Identity::Short(len as u16);
            }
            *next += 1;
            Identity::Numbered { stream, number: *next, len: len as u16 }
        };
        let one = |i: usize| {
            let turn = i.wrapping_mul(7).wrapping_add(seed);
            let mut segment_size = None;
            let lens = match batch.shape {
                Shape::Alike => vec![[30, 12, 200, 1_200][seed % 4]],
                Shape::Runs => vec![[60, 40, 300][(i / 4 + seed) % 3]],
                Shape::OwnSegments if turn % 3 > 0 && net.gso && inet => {
                    let size = [HEADER, 40, 200][turn % 3];
                    segment_size = Some(size as u16);
                    let mut lens = vec![size; turn % 9];
                    lens.push(if turn % 2 == 0 { size } else { HEADER });
                    lens
                }
                _ => vec![[0, 12, 40, 40, 41, 300, 1, 11, 1_200][turn % 9]],
            };
            let list = lens.into_iter().map(&mut identity).collect();
            let bad = batch.shape == Shape::Bad && turn % 4 == 1;
            let content = match (bad, turn % 8) {
                (true, 5) if inet && !net.connected => Content::Nowhere,
                (true, _) => Content::TooLong,
                _ => Content::Datagrams { list, segment_size },
            };
            Message {
                to,
                content,
                gathered: seed % 5 == 4 && i % 3 == 1,
                ecn: inet && seed % 7 == 6 && i / 4 % 2 == 1,
                dest: inet && (!net.connected || turn % 2 == 0),
            }
        };
        (0..batch.count).map(one).collect()
    }

    pub fn send(&mut self, op: Op, way: Sending, batch: Batch) {
        let msgs = self.make(op, batch, false);
        let Some(to) = msgs.first().map(|msg| msg.to) else { return };
        let cost: usize = msgs.iter().map(Message::cost).sum();
        if !self.reserve(to, cost) {
            return;
        }
        let mut failed = Vec::new();
        let end = Self::end(self.shared, &self.own, op);
        let result = lend(&msgs, self.shared.net.addrs, |sends| match way {
            Sending::Batch => end.socket().send_batch(sends),
            Sending::Each => end.socket().send_each(sends, |i, error| failed.push((i, error))),
        });
        let unsent = self.judge(&msgs, &result, &failed, way == Sending::Each);
        self.release(to, unsent);
    }

    /// Compares the result of a send with its messages. `goes_on` says whether it continues after short counts.
    /// Returns the cost of the messages that were not sent.
    fn judge(
        &mut self,
        msgs: &[Message],
        result: &io::Result<usize>,
        failed: &[(usize, io::Error)],
        goes_on: bool,
    ) -> usize {
        let mut done = 0;
        // On Wine this also means that another thread is sending; on Windows it may come at any time.
        let full = self.shared.net.addrs.is_none() || cfg!(windows) && !self.shared.alone;
        match result {
            Ok(count) => done = *count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                assert!(full, "a UDP socket on loopback is never full");
            }
            Err(error) => assert_eq!(msgs[0].error(), error.raw_os_error(), "{msgs:?}"),
        }
        assert!(done <= msgs.len(), "{done} of {}", msgs.len());
        let mut failed = failed.iter().peekable();
        let mut unsent = 0;
        for (i, msg) in msgs.iter().enumerate() {
            let failed = failed.next_if(|(at, _)| *at == i);
            if i < done && failed.is_none() {
                assert_eq!(msg.error(), None, "message {i} cannot be sent");
                self.note_sent(msg.to, msg.datagrams());
                continue;
            }
            unsent += msg.cost();
            if let Some((_, error)) = failed {
                assert!(i < done, "message {i} of {done} has failed");
                assert_eq!(msg.error(), error.raw_os_error(), "message {i}");
            }
        }
        assert!(failed.next().is_none(), "errors out of order, or of no message");
        // The count ends at an invalid message, at a full socket, before a message segmented in user space, which needs a
        // call of its own, or where the next GSO batch is more than a call copies.
        let next = msgs.get(done);
        let alone =
            || !goes_on && msgs[done.saturating_sub(1)..=done].iter().any(Message::has_segments);
        let copied = || !goes_on && msgs[..=done].iter().map(Message::cost).sum::<usize>() > COPIES;
        assert!(
            next.is_none_or(|next| full || next.error().is_some() || alone() || copied()),
            "it ends at {done}"
        );
        unsent
    }

    pub fn push(&mut self, op: Op, batch: Batch) {
        for msg in self.make(op, batch, true) {
            let queue = &mut self.queues[op.at];
            let one = std::slice::from_ref(&msg);
            let addrs = self.shared.net.addrs;
            if lend(one, addrs, |sends| queue.push(&sends[0])).is_ok() {
                self.queued[op.at].push_back(msg);
            }
        }
        assert_eq!(self.queues[op.at].len(), self.queued[op.at].len());
    }

    /// Flushes a socket's queue and drops datagrams that fail.
    pub fn flush(&mut self, op: Op) {
        loop {
            let msgs: Vec<_> = self.queued[op.at].iter().cloned().collect();
            // For both sockets, since the queue may hold messages to both.
            let costs = [0, 1]
                .map(|to| msgs.iter().filter(|msg| msg.to == to).map(Message::cost).sum::<usize>());
            if !self.reserve(0, costs[0]) {
                return;
            }
            if !self.reserve(1, costs[1]) {
                return self.release(0, costs[0]);
            }
            let end = Self::end(self.shared, &self.own, op);
            let result = end.socket().flush(&mut self.queues[op.at]);
            self.judge(&msgs, &result, &[], false);
            let sent = *result.as_ref().unwrap_or(&0);
            for msg in &msgs[sent..] {
                self.release(msg.to, msg.cost());
            }
            self.queued[op.at].drain(..sent);
            let front = self.queued[op.at].front().and_then(Message::error);
            if front.is_some() {
                assert!(self.queues[op.at].discard_front());
                self.queued[op.at].pop_front();
            }
            assert_eq!(self.queues[op.at].len(), self.queued[op.at].len());
            if front.is_none() {
                return;
            }
        }
    }
}

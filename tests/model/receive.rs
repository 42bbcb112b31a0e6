//! Receives on real sockets.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use mmsg::{Datagram, RecvBatch, RecvFlags, RecvMsg};

use super::datagram::Identity;
use super::net::End;
use super::ops::{Op, Receiving, RecvSpace};
use super::run::{Actor, END};
use super::send::sender;

/// A received datagram with its reported length and source.
struct OwnedDatagram {
    data: Vec<u8>,
    truncated: bool,
    from: Option<SocketAddr>,
    dropped: Option<u32>,
}

impl From<Datagram<'_>> for OwnedDatagram {
    fn from(datagram: Datagram<'_>) -> Self {
        Self {
            data: datagram.slices().collect::<Vec<_>>().concat(),
            truncated: datagram.truncated(),
            from: datagram.addr(),
            dropped: datagram.meta().dropped,
        }
    }
}

impl Actor<'_> {
    /// Receives once and records the datagrams. Returns the number of messages.
    pub fn receive(&mut self, op: Op, way: Receiving, mut space: RecvSpace) -> usize {
        let end = Self::end(self.shared, &self.own, op);
        let addrs = self.shared.net.addrs;
        let (at, peek) = (op.at, matches!(way, Receiving::Peek(_)));
        if self.shared.net.ends[at].has_gro() {
            // D19: a receive with GRO must offer space for coalesced messages.
            (space.messages, space.bytes) = (space.messages.min(8), 65_535);
        }
        if way == Receiving::Into {
            (space.messages, space.bytes) = (space.messages.max(1), space.bytes.max(1));
        }
        let result = if way == Receiving::Into {
            let new = || RecvBatch::new(space.messages, space.bytes);
            let batch = self.batches.entry((space.messages, space.bytes)).or_insert_with(new);
            receive_into(end, batch)
        } else {
            receive_msgs(end, way, space)
        };
        let messages = match result {
            Ok(messages) => messages,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                assert!(self.peeked[at].is_none(), "what was looked at is gone");
                return 0;
            }
        };
        let most = if peek { space.messages.min(1) } else { space.messages };
        assert!((most.min(1)..=most).contains(&messages.len()), "{} of {most}", messages.len());
        let count = messages.len();
        for (i, got) in messages.iter().flatten().enumerate() {
            let dropped = &mut self.books.dropped[at];
            *dropped = (*dropped).max(got.dropped.unwrap_or(0));
            if got.data == END {
                self.ended[at] = true;
                continue;
            }
            let identity = Identity::read(&got.data, got.truncated);
            if let (Some(Identity::Numbered { stream, .. }), Some(addrs)) = (identity, addrs) {
                assert_eq!(got.from, Some(addrs[sender(stream)]), "{identity:?}");
            }
            if !self.shared.alone {
                self.peeked[at] = None;
            }
            if i == 0 {
                compare_with_peeked(self.peeked[at], identity);
            }
            if peek && self.shared.alone && i == 0 {
                self.peeked[at] = Some(identity);
            } else if !peek {
                self.peeked[at] = None;
                self.note_received(at, identity);
            }
        }
        count
    }
}

/// The next datagram must be the peeked one, as far as both are known.
fn compare_with_peeked(peeked: Option<Option<Identity>>, next: Option<Identity>) {
    if let (Some(Some(peeked)), Some(next)) = (peeked, next) {
        assert_eq!(peeked, next, "another one was looked at");
    }
}

fn receive_into(end: &End, batch: &mut RecvBatch) -> io::Result<Vec<Vec<OwnedDatagram>>> {
    let result = end.socket().recv_into(batch);
    assert_eq!(batch.message_count(), *result.as_ref().unwrap_or(&0));
    let datagrams = batch.messages().map(|msg| msg.datagrams().count()).sum::<usize>();
    assert_eq!(batch.iter().count(), datagrams);
    for (one, other) in batch.iter().zip(batch.messages().flat_map(|msg| msg.datagrams())) {
        assert_eq!((one.data(), one.truncated()), (other.data(), other.truncated()));
    }
    result?;
    let messages = batch.messages();
    Ok(messages.map(|msg| msg.datagrams().map(OwnedDatagram::from).collect()).collect())
}

fn receive_msgs(
    end: &End,
    way: Receiving,
    space: RecvSpace,
) -> io::Result<Vec<Vec<OwnedDatagram>>> {
    let mut memory = vec![vec![0xEE; space.bytes]; space.messages];
    let mut parts: Vec<[IoSliceMut<'_>; 2]> = Vec::new();
    let mut msgs: Vec<RecvMsg<'_>> = if space.scattered {
        parts.extend(memory.iter_mut().map(|buffer| {
            let (one, other) = buffer.split_at_mut(space.bytes / 3);
            [IoSliceMut::new(one), IoSliceMut::new(other)]
        }));
        parts.iter_mut().map(|parts| RecvMsg::scatter(parts)).collect()
    } else {
        memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect()
    };
    let count = match way {
        Receiving::Arena(backend) => end.recv_by(backend, &mut msgs, RecvFlags::NONE),
        Receiving::Peek(backend) => end.recv_by(backend, &mut msgs, RecvFlags::PEEK),
        _ => end.socket().recv_batch(&mut msgs),
    }?;
    assert!(msgs[count..].iter().all(|msg| msg.is_empty() && msg.addr().is_none()));
    Ok(msgs[..count]
        .iter()
        .map(|msg| msg.message().datagrams().map(OwnedDatagram::from).collect())
        .collect())
}

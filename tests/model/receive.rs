//! Receives on real sockets.

use std::io;
use std::net::SocketAddr;

use mmsg::{Datagram, RecvBatch, RecvMsg};

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
            data: datagram.data().to_vec(),
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
        let at = op.at;
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
            receive_msgs(end, space)
        };
        let messages = match result {
            Ok(messages) => messages,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                return 0;
            }
        };
        let most = space.messages;
        assert!((most.min(1)..=most).contains(&messages.len()), "{} of {most}", messages.len());
        let count = messages.len();
        for got in messages.iter().flatten() {
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
            self.note_received(at, identity);
        }
        count
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

fn receive_msgs(end: &End, space: RecvSpace) -> io::Result<Vec<Vec<OwnedDatagram>>> {
    let mut memory = vec![vec![0xEE; space.bytes]; space.messages];
    let mut msgs: Vec<_> = memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect();
    let count = end.socket().recv_batch(&mut msgs)?;
    assert!(msgs[count..].iter().all(|msg| msg.is_empty() && msg.addr().is_none()));
    let datagrams =
        |msg: &RecvMsg<'_>| msg.message().datagrams().map(OwnedDatagram::from).collect();
    Ok(msgs[..count].iter().map(datagrams).collect())
}

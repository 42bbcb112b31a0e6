//! Receiving, for tests of something else.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use mmsg::{BatchSocket, Datagram, RecvBatch, RecvMsg};

/// A received datagram, copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedDatagram {
    pub data: Vec<u8>,
    pub from: Option<SocketAddr>,
    pub truncated: bool,
}

impl From<Datagram<'_>> for OwnedDatagram {
    fn from(datagram: Datagram<'_>) -> Self {
        let data = datagram.data().to_vec();
        Self { data, from: datagram.addr(), truncated: datagram.truncated() }
    }
}

/// Receives exactly `n` datagrams, in as many calls as necessary.
#[track_caller]
pub fn collect(socket: &dyn BatchSocket, n: usize) -> Vec<OwnedDatagram> {
    let mut batch = RecvBatch::new(64, 65_535);
    let mut got = Vec::new();
    while got.len() < n {
        match socket.recv_into(&mut batch) {
            Ok(count) => assert_ne!(count, 0, "the end after {} of {n} datagrams", got.len()),
            Err(error) => panic!("after {} of {n} datagrams: {error}", got.len()),
        }
        got.extend(batch.iter().map(OwnedDatagram::from));
    }
    assert_eq!(got.len(), n, "more came than were sent");
    got
}

/// How many waiting messages one receive takes: all, but only one on Windows.
pub fn in_one_receive(messages: usize) -> usize {
    if cfg!(windows) { messages.min(1) } else { messages }
}

/// Fills all these messages, for which datagrams wait, in as few calls as the system allows.
#[track_caller]
pub fn fill(socket: &dyn BatchSocket, msgs: &mut [RecvMsg<'_>]) {
    let each = in_one_receive(msgs.len());
    for msgs in msgs.chunks_mut(each) {
        assert_eq!(socket.recv_batch(msgs).expect("they are there"), msgs.len());
    }
}

/// The payloads of the next `n` datagrams, none of which may be truncated.
#[track_caller]
pub fn payloads(socket: &dyn BatchSocket, n: usize) -> Vec<Vec<u8>> {
    let whole = |got: OwnedDatagram| {
        assert!(!got.truncated, "{} bytes of a longer datagram", got.data.len());
        got.data
    };
    collect(socket, n).into_iter().map(whole).collect()
}

/// `count` buffers of `len` bytes that differ from any payload.
pub fn memory(count: usize, len: usize) -> Vec<Vec<u8>> {
    vec![vec![0xEE; len]; count]
}

/// A message for each buffer.
pub fn recv_msgs(memory: &mut [Vec<u8>]) -> Vec<RecvMsg<'_>> {
    memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect()
}

/// Copies of the received messages' bytes.
pub fn data_of(msgs: &[RecvMsg<'_>]) -> Vec<Vec<u8>> {
    msgs.iter().map(|msg| msg.data().to_vec()).collect()
}

/// A way to receive once, with space for 64 messages of 64 bytes. Returns the payloads.
pub type Receive = fn(&dyn BatchSocket) -> io::Result<Vec<Vec<u8>>>;

/// All ways to receive.
pub const RECEIVES: [Receive; 3] = [
    |socket| {
        let mut memory = memory(64, 64);
        let mut msgs = recv_msgs(&mut memory);
        let count = socket.recv_batch(&mut msgs)?;
        Ok(data_of(&msgs[..count]))
    },
    |socket| {
        let mut batch = RecvBatch::new(64, 64);
        let count = socket.recv_into(&mut batch)?;
        assert_eq!(batch.message_count(), count);
        Ok(batch.iter().map(|datagram| datagram.data().to_vec()).collect())
    },
    |socket| {
        let mut memory = memory(64, 64);
        let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let mut got = Vec::new();
        socket.recv_slices(&mut buffers, &mut |_, message| got.push(message.data().to_vec()))?;
        Ok(got)
    },
];

//! All ways to receive, with copies of what they received, so that tests can compare them.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};

pub use crate::common::recv::payloads;
use mmsg::control::ControlMessages;
use mmsg::{BatchSocket, Message, RecvBatch, RecvMeta, RecvMsg};

/// A received message with its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedMessage {
    pub data: Vec<u8>,
    pub addr: Option<SocketAddr>,
    pub meta: RecvMeta,
    pub truncated: bool,
    pub control_truncated: bool,
    pub datagrams: Vec<Vec<u8>>,
    /// Level, type and data of each control message; empty for `RecvMsg`s.
    pub raw: Vec<(i32, i32, Vec<u8>)>,
}

/// A way to receive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Msgs,
    Batch,
    Slices,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Msgs, Self::Batch, Self::Slices];

    /// Receives `count` messages of up to 65,535 bytes.
    #[track_caller]
    pub fn receive(self, socket: &UdpSocket, count: usize) -> Vec<OwnedMessage> {
        let mut got = Vec::new();
        while got.len() < count {
            // Offers more space than needed, to test unused slots too.
            got.extend(self.once(socket, count - got.len() + 3));
        }
        assert_eq!(got.len(), count, "{self:?}: more came than were sent");
        got
    }

    fn once(self, socket: &UdpSocket, capacity: usize) -> Vec<OwnedMessage> {
        let mut memory = vec![vec![0; 65_535]; capacity];
        match self {
            Self::Msgs => {
                let mut msgs: Vec<_> = memory.iter_mut().map(|part| RecvMsg::new(part)).collect();
                let n = socket.recv_batch(&mut msgs).expect("a message comes");
                msgs[..n].iter().map(|msg| got(&msg.message())).collect()
            }
            Self::Batch => {
                let mut batch = RecvBatch::new(capacity, 65_535);
                socket.recv_into(&mut batch).expect("a message comes");
                batch.messages().map(|message| got(&message)).collect()
            }
            Self::Slices => {
                let mut parts: Vec<_> =
                    memory.iter_mut().map(|part| IoSliceMut::new(part)).collect();
                let mut all = Vec::new();
                let received =
                    socket.recv_slices(&mut parts, &mut |_, message| all.push(got(&message)));
                assert_eq!(received.expect("a message comes"), all.len());
                all
            }
        }
    }
}

/// A copy of a message.
fn got(msg: &Message<'_>) -> OwnedMessage {
    assert!(msg.datagrams().all(|datagram| datagram.meta() == msg.meta()));
    OwnedMessage {
        data: msg.data().to_vec(),
        addr: msg.addr(),
        meta: *msg.meta(),
        truncated: msg.truncated(),
        control_truncated: msg.control_truncated(),
        datagrams: msg.datagrams().map(|datagram| datagram.data().to_vec()).collect(),
        raw: copy_raw(msg.control_messages()),
    }
}

fn copy_raw(messages: ControlMessages<'_>) -> Vec<(i32, i32, Vec<u8>)> {
    messages.map(|message| (message.level, message.ty, message.data.to_vec())).collect()
}

/// Receives one message.
#[track_caller]
pub fn one(socket: &UdpSocket) -> OwnedMessage {
    Way::Batch.receive(socket, 1).remove(0)
}

//! All ways to receive, with copies of what they received, so that tests can compare them.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};

use mmsg::control::{ControlBuf, ControlMessages};
use mmsg::{Backend, BatchSocket, Message, MmsgBuf, RecvBatch, RecvMeta, RecvMsg};

/// A received message with its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedMessage {
    pub data: Vec<u8>,
    pub addr: Option<SocketAddr>,
    pub meta: RecvMeta,
    pub truncated: bool,
    pub control_truncated: bool,
    pub datagrams: Vec<Vec<u8>>,
    /// Level, type and data of each control message; empty without a `ControlBuf`.
    pub raw: Vec<(i32, i32, Vec<u8>)>,
}

/// A way to receive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// `RecvMsg`s without a `ControlBuf`.
    Msgs(Backend),
    /// `RecvMsg`s with a `ControlBuf` each.
    MsgsRaw(Backend),
    /// A `RecvBatch`.
    Batch(Backend),
}

impl Way {
    pub const ALL: [Self; 6] = [
        Self::Msgs(Backend::Mmsg),
        Self::Msgs(Backend::Msg),
        Self::MsgsRaw(Backend::Mmsg),
        Self::MsgsRaw(Backend::Msg),
        Self::Batch(Backend::Mmsg),
        Self::Batch(Backend::Msg),
    ];

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
        match self {
            Self::Msgs(backend) => recv_msgs(backend, socket, capacity, false),
            Self::MsgsRaw(backend) => recv_msgs(backend, socket, capacity, true),
            Self::Batch(backend) => recv_batch(backend, socket, capacity),
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

fn recv_msgs(
    backend: Backend,
    socket: &UdpSocket,
    capacity: usize,
    with_control: bool,
) -> Vec<OwnedMessage> {
    let mut memory = vec![vec![0; 65_535]; capacity];
    let mut controls = vec![ControlBuf::new(); capacity];
    let mut msgs: Vec<_> = memory
        .iter_mut()
        .zip(&mut controls)
        .map(|(buffer, control)| match with_control {
            false => RecvMsg::new(buffer),
            true => RecvMsg::new(buffer).with_control(control),
        })
        .collect();
    let n = MmsgBuf::with_backend(backend).recv(socket, &mut msgs).expect("a message comes");
    msgs[..n].iter().map(|msg| got(&msg.message())).collect()
}

fn recv_batch(backend: Backend, socket: &UdpSocket, capacity: usize) -> Vec<OwnedMessage> {
    // A `RecvBatch` uses the backend of the process, so only one test at a time may select it.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    backend.make_process_default().expect("Linux has both");
    let mut batch = RecvBatch::new(capacity, 65_535);
    socket.recv_into(&mut batch).expect("a message comes");
    batch.messages().map(|msg| got(&msg)).collect()
}

fn copy_raw(messages: ControlMessages<'_>) -> Vec<(i32, i32, Vec<u8>)> {
    messages.map(|message| (message.level, message.ty, message.data.to_vec())).collect()
}

/// Receives one message.
#[track_caller]
pub fn one(socket: &UdpSocket) -> OwnedMessage {
    Way::Batch(Backend::Mmsg).receive(socket, 1).remove(0)
}

/// The payloads of the next `count` messages.
#[track_caller]
pub fn payloads(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    let got = Way::Msgs(Backend::Mmsg).receive(socket, count);
    got.into_iter().map(|got| got.data).collect()
}

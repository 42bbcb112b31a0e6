//! The ways to send and receive, with a record of every datagram.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use mmsg::error_queue::{Report, drain_errors};
use mmsg::offload::Counters;
use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, RecvMsg, SendMsg, SendQueue};

use crate::common::payload;

/// Datagrams in one call.
const BATCH: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    Slice,
    Each,
    Queue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    Into,
    Messages,
    Slices,
}

/// A socket, with or without offload.
pub enum Socket {
    Plain(UdpSocket),
    Offload(Box<Offload<UdpSocket>>),
}

impl Socket {
    pub fn new(socket: UdpSocket, offload: bool) -> io::Result<Self> {
        Ok(if offload {
            Self::Offload(Box::new(Offload::new(socket)?))
        } else {
            Self::Plain(socket)
        })
    }

    pub fn batch(&self) -> &dyn BatchSocket {
        match self {
            Self::Plain(socket) => socket,
            Self::Offload(socket) => &**socket,
        }
    }

    pub fn std(&self) -> &UdpSocket {
        match self {
            Self::Plain(socket) => socket,
            Self::Offload(socket) => socket.get_ref(),
        }
    }

    pub fn counters(&self) -> Counters {
        if let Self::Offload(socket) = self { socket.counters() } else { Counters::default() }
    }
}

/// A payload that begins with `number`.
pub fn numbered(number: usize, len: usize) -> Vec<u8> {
    let mut bytes = payload(number, len);
    bytes[..2].copy_from_slice(&(number as u16).to_be_bytes());
    bytes
}

/// What the calls returned.
pub struct Sent {
    /// For each datagram its error; `None` if it was accepted.
    pub errors: Vec<Option<i32>>,
    /// "Connection refused" errors about earlier datagrams, after which this one was offered again.
    pub refused: u64,
    /// Reports in the error queue.
    pub reports: u64,
}

impl Sent {
    pub fn accepted(&self) -> u64 {
        self.errors.iter().filter(|error| error.is_none()).count() as u64
    }
}

/// Sends all payloads and goes on after errors. Calls `before` before each batch with the number of its first
/// datagram. No batch crosses a multiple of its length.
pub fn send(
    socket: &Socket,
    sending: Sending,
    to: Option<SocketAddr>,
    payloads: &[Vec<u8>],
    mut before: impl FnMut(usize),
) -> Sent {
    let message = |payload| match to {
        Some(to) => SendMsg::to(to, payload),
        None => SendMsg::new(payload),
    };
    let msgs: Vec<_> = payloads.iter().map(|payload| message(payload)).collect();
    let mut sent = Sent { errors: vec![None; msgs.len()], refused: 0, reports: 0 };
    let mut queue = SendQueue::new(1 << 20);
    let (mut at, mut asked) = (0, usize::MAX);
    while at < msgs.len() {
        if at % BATCH == 0 && asked != at {
            before(at);
            asked = at;
        }
        let end = (at / BATCH + 1) * BATCH;
        let part = &msgs[at..end.min(msgs.len())];
        let result = match sending {
            Sending::Slice => socket.batch().send_batch(part),
            Sending::Each => each(socket.batch(), part, at, &mut sent),
            Sending::Queue => flush(socket.batch(), part, &mut queue),
        };
        match result {
            Ok(count) => at += count,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => sent.refused += 1,
            Err(error) => {
                sent.errors[at] = Some(error.raw_os_error().unwrap_or(-1));
                at += 1;
            }
        }
        sent.reports += reports(socket);
    }
    sent
}

/// Empties the error queue and returns the number of reports.
pub fn reports(socket: &Socket) -> u64 {
    let (mut reports, mut count) = ([Report::EMPTY; 16], 0);
    while let Ok(some @ 1..) = drain_errors(socket.std(), &mut reports) {
        count += some as u64;
    }
    count
}

fn each(
    socket: &dyn BatchSocket,
    part: &[SendMsg<'_>],
    at: usize,
    sent: &mut Sent,
) -> io::Result<usize> {
    let handled = socket.send_each(part, |index, error| {
        sent.errors[at + index] = Some(error.raw_os_error().unwrap_or(-1));
    })?;
    assert_eq!(handled, part.len(), "a blocking socket takes or rejects every message");
    Ok(handled)
}

/// Fills up the queue before each call; it may still hold datagrams of the previous one.
fn flush(
    socket: &dyn BatchSocket,
    part: &[SendMsg<'_>],
    queue: &mut SendQueue,
) -> io::Result<usize> {
    queue.clear();
    part.iter().for_each(|msg| queue.push(msg).expect("it has the capacity"));
    let result = socket.flush(queue);
    let left = queue.len();
    match &result {
        Ok(_) => assert!(left < part.len(), "a flush that sent something"),
        Err(_) => assert_eq!(left, part.len(), "an error leaves the queue as it was"),
    }
    result.map(|_| part.len() - left)
}

/// What a receiver has received so far, for those who wait for it.
#[derive(Default)]
pub struct Received {
    pub count: AtomicU64,
    pub stop: AtomicBool,
}

/// Receives until `stop` is set and returns the copies of each number. Ignores other datagrams.
pub fn receive(
    socket: &Socket,
    receiving: Receiving,
    payloads: &[Vec<u8>],
    received: &Received,
) -> Vec<u8> {
    socket.std().set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    let mut counts = vec![0; 1 << 16];
    let mut note = |data: &[u8], truncated: bool| {
        let number =
            data.get(..2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])));
        let Some((number, expected)) = number.and_then(|n| Some((n, payloads.get(n)?))) else {
            return;
        };
        assert!(!truncated && data == expected, "datagram {number} has changed");
        counts[number] += 1;
        received.count.fetch_add(1, SeqCst);
    };
    let mut batch = RecvBatch::for_gro(16);
    let mut memory = vec![vec![0; 65_535]; 16];
    while !received.stop.load(SeqCst) {
        let result = match receiving {
            Receiving::Into => socket.batch().recv_into(&mut batch).inspect(|_| {
                batch.iter().for_each(|datagram| note(datagram.data(), datagram.truncated()));
            }),
            Receiving::Messages => {
                let mut msgs: Vec<_> = memory.iter_mut().map(|part| RecvMsg::new(part)).collect();
                socket.batch().recv_batch(&mut msgs).inspect(|count| {
                    let datagrams = msgs[..*count].iter().flat_map(|msg| msg.message().datagrams());
                    datagrams.for_each(|datagram| note(datagram.data(), datagram.truncated()));
                })
            }
            Receiving::Slices => {
                let mut slices: Vec<_> =
                    memory.iter_mut().map(|part| IoSliceMut::new(part)).collect();
                socket.batch().recv_slices(&mut slices, &mut |_, message| {
                    message
                        .datagrams()
                        .for_each(|datagram| note(datagram.data(), datagram.truncated()));
                })
            }
        };
        if let Err(error) = result {
            assert_eq!(
                error.kind(),
                io::ErrorKind::WouldBlock,
                "nobody rejects what a server receives"
            );
        }
    }
    counts
}

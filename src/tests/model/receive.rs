//! Receives: every datagram arrives once and in order, and errors are the kernel's.

use std::collections::VecDeque;
use std::io::IoSliceMut;

use super::*;
use crate::Datagram;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tests) enum ReceiveWay {
    Batch,
    Into,
    Slices,
}

impl ReceiveWay {
    pub(super) const ALL: [Self; 3] = [Self::Batch, Self::Into, Self::Slices];

    pub(super) fn of(byte: u8) -> Self {
        Self::ALL[usize::from(byte % 3)]
    }
}

/// The receiving socket, and the messages that wait in it.
pub(super) struct Mailbox {
    pub(super) socket: Offload<UdpSocket>,
    /// The datagrams of each message.
    waiting: VecDeque<Vec<Vec<u8>>>,
    near: Offload<UdpSocket>,
    /// Kept between receives, so that its headers are reused.
    batch: RecvBatch,
}

impl Mailbox {
    pub(super) fn new(ip: IpAddr, kind: Kind) -> Self {
        let gro = matches!(kind, Kind::Offload { gro: true, .. });
        let socket = socket_on(ip);
        socket.set_nonblocking(true).expect("a non-blocking socket");
        crate::options::set_recv_buffer(&socket, 4 << 20).expect("a UDP socket");
        let near = socket_on(ip);
        Self {
            socket: Offload::builder().gso(false).gro(gro).build(socket).expect("a UDP socket"),
            waiting: VecDeque::new(),
            near: Offload::builder().gro(false).build(near).expect("a UDP socket"),
            batch: RecvBatch::new(1, 1),
        }
    }
}

/// A received datagram: its bytes, whether it is truncated, and its source.
type Got = (Vec<u8>, bool, Option<SocketAddr>);

fn got(datagram: Datagram<'_>) -> Got {
    (datagram.data().to_vec(), datagram.truncated(), datagram.addr())
}

impl World {
    /// Sends messages to the socket: single datagrams, or with `together` coalesced ones if the socket takes them.
    pub(super) fn fill(&mut self, count: usize, together: bool) {
        let Mailbox { socket, waiting, near, .. } = &mut self.mailbox;
        if waiting.len() > 40 {
            return;
        }
        let (to, together) =
            (addr(socket.get_ref()), together && socket.state().gro() && near.state().gso());
        for number in self.next..self.next + count {
            let len = [45, 45, 300, 45, 0][number % 5];
            let data: Vec<u8> = (0..len).map(|j| (number * 7 + j) as u8).collect();
            let msg = SendMsg::to(to, &data);
            let together = together && len > 0;
            let msg = if together { msg.with_segment_size(20) } else { msg };
            fault::script([]);
            assert_eq!(near.send_batch(&[msg]).expect("loopback takes a datagram"), 1);
            let pieces = if together { data.chunks(20).collect() } else { vec![&data[..]] };
            waiting.push_back(pieces.into_iter().map(<[u8]>::to_vec).collect());
        }
        self.next += count;
        // Loopback keeps the order: when a last datagram has come back, all have arrived.
        let near = near.get_ref();
        near.send_to(b"last", addr(near)).expect("loopback takes a datagram");
        near.recv(&mut [0; 4]).expect("it comes back");
        let waiting = self.mailbox.waiting.len();
        self.kernel().waiting = waiting;
    }

    pub(super) fn receive(&mut self, way: ReceiveWay, messages: usize, bytes: usize) {
        let (plain, gro) = (self.kind == Kind::Plain, self.mailbox.socket.state().gro());
        // A receiver with GRO offers space for whole coalesced messages.
        let bytes = if gro { 65_535 } else { bytes };
        let messages = if way == ReceiveWay::Into { messages.max(1) } else { messages };
        let Mailbox { socket, batch, .. } = &mut self.mailbox;
        if way == ReceiveWay::Into && (batch.slots(), batch.slot_len()) != (messages, bytes) {
            *batch = RecvBatch::new(messages, bytes);
        }
        let before = socket.state().counters().received;
        let socket: &dyn BatchSocket = if plain { socket.get_ref() } else { socket };
        let (received, log) = under(&self.kernel, &mut self.backend, messages, || match way {
            ReceiveWay::Into => {
                let result = socket.recv_into(batch);
                assert_eq!(batch.message_count(), *result.as_ref().unwrap_or(&0));
                let split = || batch.messages().map(|msg| msg.datagrams().map(got).collect());
                let all: Vec<Vec<Got>> = split().collect();
                assert!(batch.iter().map(got).eq(all.iter().flatten().cloned()));
                let changed = batch.iter_mut().map(|datagram| got(datagram.into_datagram()));
                assert!(changed.eq(all.iter().flatten().cloned()));
                result.map(|_| all)
            }
            _ => receive_lent(socket, way, messages, bytes),
        });
        let counted = self.mailbox.socket.state().counters().received - before;
        self.judge_receive(messages, bytes, received, &log, (!plain).then_some(counted));
    }

    /// Compares the received datagrams with those that waited, and the result with the kernel's answers.
    fn judge_receive(
        &mut self,
        messages: usize,
        bytes: usize,
        received: io::Result<Vec<Vec<Got>>>,
        log: &[Answer],
        counted: Option<u64>,
    ) {
        let waiting = &mut self.mailbox.waiting;
        let said = received.as_ref().map(Vec::len);
        let what = format!("{said:?} of {} into {messages} of {bytes}, {log:?}", waiting.len());
        self.said.push(format!("{said:?}"));
        let max = messages.min(waiting.len());
        match said {
            Ok(count) => {
                let whole = !kernel::ends_call(log);
                assert!(count <= max, "invented: {what}");
                assert!(count == max || !whole && count > 0, "short for no reason: {what}");
            }
            Err(error) => {
                let errno = error.raw_os_error().expect("an error of the system");
                let none = errno == errno::EAGAIN && max == 0 && messages > 0;
                let last = log.iter().rev().find(|answer| matches!(answer, Answer::Failed(_)));
                assert!(
                    none || last == Some(&Answer::Failed(errno)),
                    "not the kernel's error: {what}"
                );
            }
        }
        let (from, mut datagrams) = (addr(self.mailbox.near.get_ref()), 0);
        for (i, got) in received.unwrap_or_default().into_iter().enumerate() {
            let sent = waiting.pop_front().expect("counted above");
            assert_eq!(got.len(), sent.len(), "message {i}: {what}");
            for ((data, truncated, source), sent) in got.into_iter().zip(sent) {
                let expected = &sent[..sent.len().min(bytes)];
                assert_eq!((&data[..], source), (expected, Some(from)), "message {i}: {what}");
                assert_eq!(truncated, sent.len() > bytes, "message {i}: {what}");
                datagrams += 1;
            }
        }
        assert!(counted.is_none_or(|counted| counted == datagrams), "{counted:?}: {what}");
        let waiting = waiting.len();
        self.kernel().waiting = waiting;
    }

    /// Receives all waiting messages, and the kernel's deferred error.
    pub(super) fn receive_all(&mut self) {
        while !self.mailbox.waiting.is_empty() || self.kernel().deferred.is_some() {
            self.receive(ReceiveWay::Batch, 7, 2_000);
        }
    }
}

fn receive_lent(
    socket: &dyn BatchSocket,
    way: ReceiveWay,
    messages: usize,
    bytes: usize,
) -> io::Result<Vec<Vec<Got>>> {
    let mut memory = vec![vec![0xEE; bytes]; messages];
    if way == ReceiveWay::Slices {
        let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let mut all: Vec<Vec<Got>> = Vec::new();
        let result = socket.recv_slices(&mut buffers, &mut |i, message| {
            assert_eq!(i, all.len());
            all.push(message.datagrams().map(got).collect());
        });
        assert_eq!(all.len(), *result.as_ref().unwrap_or(&0));
        return result.map(|_| all);
    }
    let mut msgs: Vec<_> = memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect();
    let count = socket.recv_batch(&mut msgs);
    let untouched = &msgs[*count.as_ref().unwrap_or(&0)..];
    assert!(
        untouched.iter().all(|msg| msg.message().is_empty() && msg.message().addr().is_none()),
        "{count:?}"
    );
    Ok(msgs[..count?].iter().map(|msg| msg.message().datagrams().map(got).collect()).collect())
}

//! Receives: every datagram once and in order, and every error once.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use super::kernel::Answer;
use super::messages::{lend, make};
use super::ops::{Batch, Receiving, RecvSpace};
use super::world::{End, Owed, World, under};
use crate::sys::fault::errno;
use crate::sys::{borrow, numbers};
use crate::{BatchSocket, Datagram, MmsgBuf, RecvBatch, RecvFlags, RecvMsg};

/// A received datagram.
#[derive(Debug)]
struct Got {
    data: Vec<u8>,
    truncated: bool,
    from: Option<SocketAddr>,
}

impl From<Datagram<'_>> for Got {
    fn from(datagram: Datagram<'_>) -> Self {
        Self {
            data: datagram.slices().collect::<Vec<_>>().concat(),
            truncated: datagram.truncated(),
            from: datagram.addr(),
        }
    }
}

/// A received batch: message by message its datagrams.
type Received = io::Result<Vec<Vec<Got>>>;

impl World {
    /// Puts datagrams into a socket: unsegmented, or as GSO batches, which a socket with GRO gets
    /// whole.
    pub(super) fn fill(&mut self, socket: usize, batch: Batch) {
        const MOST: usize = 200;
        let served = &mut self.sockets[socket];
        if served.waiting.len() > MOST {
            return;
        }
        let (to, near) = ([served.addr; 2], crate::tests::addr(self.near.get_ref()));
        let together = batch.seed % 2 == 1 && served.clones.iter().flatten().any(|c| c.end.gro());
        for mut msg in make(batch, &mut self.next, self.segmentation) {
            if msg.bad.is_some() {
                continue;
            }
            let own = msg.own.take().filter(|_| together);
            let group = self.next;
            self.next += 1;
            msg.own = own;
            served.waiting.extend(msg.datagrams().into_iter().map(|d| (group, d.to_vec())));
            let sent = lend(std::slice::from_ref(&msg), &to, |sends| self.near.send_batch(sends));
            assert_eq!(sent.expect("loopback takes a datagram"), 1);
        }
        // When a last datagram has come back, all have come.
        let mut last = [0; 4];
        self.near.get_ref().send_to(b"last", near).expect("loopback takes a datagram");
        self.near.get_ref().recv(&mut last).expect("it comes back");
    }

    pub(super) fn receive(
        &mut self,
        socket: usize,
        clone: usize,
        way: Receiving,
        space: RecvSpace,
        thread: bool,
    ) {
        let served = &self.sockets[socket];
        let clone = served.pick(clone, &served.owed_receives);
        let waiting = served.messages();
        let (mut space, peek) = (space, matches!(way, Receiving::Peek | Receiving::PeekInto));
        if served.clones.iter().flatten().any(|clone| clone.end.gro()) {
            // D19: a receiver with GRO offers space for whole coalesced messages.
            (space.bytes, space.messages) = (65_535, space.messages.min(6));
        }
        let into = matches!(way, Receiving::Into | Receiving::PeekInto);
        if into {
            (space.messages, space.bytes) = (space.messages.max(1), space.bytes.max(1));
        }
        let size = (space.messages, space.bytes);
        let new = || RecvBatch::new(size.0, size.1);
        let mut batch = into.then(|| self.batches.remove(&size).unwrap_or_else(new));
        let end = &self.sockets[socket].clone(clone).end;
        if let Some(batch) = &batch {
            // Where single messages came, a batch offers one of its slots.
            space.messages = batch.most(borrow(end.udp()), RecvFlags::NONE);
        }
        let what = (socket, waiting, space.messages);
        let flags = if peek { RecvFlags::PEEK } else { RecvFlags::NONE };
        let (received, log) =
            under(&self.kernel, &mut self.backend, thread, what, || match &mut batch {
                Some(batch) => receive_into(end, flags, batch),
                None => receive_msgs(end, way, flags, space),
            });
        if let Some(batch) = batch {
            self.batches.insert(size, batch);
        }
        self.judge_receive(socket, clone, space, peek, received, &log);
    }

    /// Compares the received datagrams with those that waited, and the result with the kernel's answers.
    fn judge_receive(
        &mut self,
        socket: usize,
        clone: usize,
        space: RecvSpace,
        peek: bool,
        received: Received,
        log: &[Answer],
    ) {
        let errors = self.errors;
        let (waiting, near) =
            (self.sockets[socket].messages(), crate::tests::addr(self.near.get_ref()));
        let served = &mut self.sockets[socket];
        let said = received.as_ref().map(Vec::len);
        let what = format!("{said:?} of {waiting} into {space:?}, {log:?}");
        let owed = if space.messages > 0 { served.owed_receives.pop_front() } else { None };
        let reported = received.as_ref().err().map(|error| {
            error.raw_os_error().unwrap_or_else(|| panic!("not the system's: {error:?}"))
        });
        if let Some(owed) = owed {
            assert_eq!(reported, Some(owed.errno), "an error is lost: {what}");
        }
        let failed = |errno| log.contains(&Answer::Failed(errno));
        match reported {
            Some(errno::EAGAIN) => assert!(waiting == 0 || failed(errno::EAGAIN), "{what}"),
            Some(errno) if owed.is_some() || failed(errno) => {}
            Some(errno) => {
                let at = served.tolerated.iter().position(|tolerated| *tolerated == errno);
                served.tolerated.remove(at.unwrap_or_else(|| panic!("nobody said so: {what}")));
            }
            None => {}
        }
        let count = *said.as_ref().unwrap_or(&0);
        let most = if peek { space.messages.min(1) } else { space.messages };
        assert!(count <= most, "{what}");
        if reported.is_none() {
            let whole = log.iter().all(|answer| {
                matches!(
                    answer,
                    Answer::Passed | Answer::Interrupted | Answer::NotTheCall | Answer::Asked
                )
            });
            assert!(!whole || count == most.min(waiting), "it ends for no reason: {what}");
            for answer in log {
                let Answer::Failed(errno) = *answer else { continue };
                let owed = Owed { errno, clone };
                match errno {
                    errno::EAGAIN => {}
                    // D34: it is in the error queue, and the receive may pass over it.
                    _ if errors && numbers::ICMP_ERRORS.contains(&errno) => {
                        served.tolerated.push(errno)
                    }
                    _ => served.owed_receives.push_back(owed),
                }
            }
        }
        let got: Vec<_> = received.unwrap_or_default().into_iter().flatten().collect();
        for (i, got) in got.iter().enumerate() {
            let (_, sent) = served.waiting.get(i).unwrap_or_else(|| panic!("invented: {what}"));
            let expected = &sent[..sent.len().min(space.bytes)];
            assert_eq!((&got.data[..], got.from), (expected, Some(near)), "datagram {i}: {what}");
            assert_eq!(got.truncated, sent.len() > space.bytes, "datagram {i}: {what}");
        }
        let clone = served.clone(clone);
        if let End::Offload(socket) = &clone.end {
            let counted = socket.counters().received;
            // D29: peeked datagrams must not count as received.
            clone.received = if peek { counted } else { clone.received + got.len() as u64 };
            assert_eq!(counted, clone.received, "the counters: {what}");
        }
        if !peek {
            served.waiting.drain(..got.len());
        }
    }

    /// Receives all that waits in the socket, and all deferred errors.
    pub(super) fn finish_receives(&mut self, socket: usize) {
        let space = RecvSpace { messages: 7, bytes: 2_000, scattered: false };
        loop {
            let served = &self.sockets[socket];
            let idle = served.waiting.is_empty() && served.owed_receives.is_empty();
            let over = idle && self.kernel().deferred(socket).is_none();
            self.receive(socket, 0, Receiving::Batch, space, false);
            if over {
                return;
            }
        }
    }
}

fn receive_into(end: &End, flags: RecvFlags, batch: &mut RecvBatch) -> Received {
    let result = match flags.is_empty() {
        true => end.batch_socket().recv_into(batch),
        false => end.batch_socket().recv_into_with(batch, flags),
    };
    assert_eq!(batch.message_count(), *result.as_ref().unwrap_or(&0));
    let all: Vec<Got> = batch.iter().map(Got::from).collect();
    let received: Vec<Vec<Got>> =
        batch.messages().map(|msg| msg.datagrams().map(Got::from).collect()).collect();
    let flat = received.iter().flatten();
    assert!(all.iter().map(|got| &got.data).eq(flat.map(|got| &got.data)));
    result.map(|_| received)
}

fn receive_msgs(end: &End, way: Receiving, flags: RecvFlags, space: RecvSpace) -> Received {
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
    let count = match (way, end) {
        (Receiving::Arena(backend), End::Plain(socket)) => {
            MmsgBuf::with_backend(backend).recv(socket, &mut msgs)
        }
        (Receiving::Peek, _) => end.batch_socket().recv_batch_with(&mut msgs, flags),
        (_, End::Plain(socket)) => socket.recv_batch(&mut msgs),
        (_, End::Offload(socket)) => socket.recv_batch(&mut msgs),
    };
    let untouched = &msgs[*count.as_ref().unwrap_or(&0)..];
    assert!(untouched.iter().all(|msg| msg.is_empty() && msg.addr().is_none()), "{count:?}");
    let count = count?;
    Ok(msgs[..count].iter().map(|msg| msg.datagrams().map(Got::from).collect()).collect())
}

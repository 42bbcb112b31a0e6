//! Sends: each message is delivered, failed or still the caller's, and no error is lost.

use std::io;
use std::sync::Arc;

use super::kernel::Answer;
use super::messages::{Msg, NO_ERRNO, lend};
use super::ops::Sending;
use super::world::{End, Owed, Partial, World, under};
use crate::fault_tests::addr;
use crate::sys::kinds;
use crate::{BatchSocketExt, MmsgBuf, SendQueue};

/// What the caller knows of a message after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Delivered,
    Failed(i32),
    Callers,
}

/// What a call has said.
#[derive(Debug)]
struct Said {
    result: io::Result<usize>,
    /// What `send_each` was told, by index.
    failed: Vec<(usize, i32)>,
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_else(|| {
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "not the system's: {error:?}");
        NO_ERRNO
    })
}

impl Said {
    /// The errors that the caller has heard of, in order, but for `WouldBlock`.
    fn told(&self) -> Vec<i32> {
        let error = self.result.as_ref().err().map(errno).filter(|errno| *errno != libc::EAGAIN);
        self.failed.iter().map(|(_, errno)| *errno).chain(error).collect()
    }

    fn is_blocked(&self) -> bool {
        self.result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl World {
    /// Sends a batch, and what is left of it once more and again if asked.
    pub(super) fn send(
        &mut self,
        socket: usize,
        clone: usize,
        way: Sending,
        msgs: &[Msg],
        again: bool,
        thread: bool,
    ) {
        let mut left = msgs;
        for tries in 0.. {
            assert!(tries < 400 + 2 * msgs.len(), "no call gets on with {left:?}");
            let clone = self.pick_to_send(socket, clone);
            let said = self.send_once(socket, clone, way, left, thread);
            let dealt_with = self.judge(socket, clone, left, &said);
            left = &left[dealt_with..];
            // A message of which a part has left is offered again until it has an outcome.
            if left.is_empty() || !(again || self.sockets[socket].partial.is_some()) {
                break;
            }
        }
        self.kernel().give_up();
    }

    fn pick_to_send(&self, socket: usize, clone: usize) -> usize {
        let served = &self.sockets[socket];
        let partial = served.partial.as_ref().map(|partial| partial.clone);
        partial.unwrap_or_else(|| served.pick(clone, &served.owed_sends))
    }

    fn send_once(
        &mut self,
        socket: usize,
        clone: usize,
        way: Sending,
        msgs: &[Msg],
        thread: bool,
    ) -> (Said, Context) {
        let to = self.far.each_ref().map(addr);
        let kernel = Arc::clone(&self.kernel);
        let end = &self.sockets[socket].clone(clone).end;
        let gso = end.gso();
        let datagrams = msgs.iter().map(|msg| msg.datagrams().len()).sum();
        let (said, log) =
            under(&self.kernel, &mut self.backend, thread, (socket, 0, datagrams), || {
                lend(msgs, &to, |sends| {
                    let mut failed = Vec::new();
                    let batch_socket = end.batch_socket();
                    let result = match (way, end) {
                        (Sending::Arena(backend), End::Plain(socket)) => {
                            MmsgBuf::with_backend(backend).send(socket, sends)
                        }
                        (Sending::Batch | Sending::Arena(_), End::Offload(socket)) => {
                            crate::BatchSocket::send_batch(socket, sends)
                        }
                        (Sending::Batch, End::Plain(socket)) => {
                            crate::BatchSocket::send_batch(socket, sends)
                        }
                        (Sending::Dyn, _) => batch_socket.send_batch(sends),
                        (Sending::Iter, _) => batch_socket.send_iter(sends),
                        (Sending::Each, _) => batch_socket.send_each(sends, |i, error| {
                            // The script borrows the kernel only while it decides.
                            kernel.lock().expect("no panic so far").give_up();
                            failed.push((i, errno(&error)));
                        }),
                        (Sending::Flush, _) => {
                            let mut queue = SendQueue::new(1 << 20);
                            sends.iter().for_each(|msg| queue.push(msg).expect("it is ample"));
                            let result = batch_socket.flush(&mut queue);
                            let sent = *result.as_ref().unwrap_or(&0);
                            assert_eq!(queue.len(), sends.len() - sent);
                            result
                        }
                    };
                    Said { result, failed }
                })
            });
        (said, Context { log, gso, each: way == Sending::Each })
    }

    /// Sends what is in the queue.
    pub(super) fn flush(&mut self, socket: usize, clone: usize, thread: bool) {
        loop {
            let clone = self.pick_to_send(socket, clone);
            let msgs = std::mem::take(&mut self.queued);
            let datagrams = msgs.iter().map(|msg| msg.datagrams().len()).sum();
            let (queue, end) = (&mut self.queue, &self.sockets[socket].clone(clone).end);
            let gso = end.gso();
            let what = (socket, 0, datagrams);
            let (result, log) = under(&self.kernel, &mut self.backend, thread, what, || {
                end.batch_socket().flush(queue)
            });
            let sent = *result.as_ref().unwrap_or(&0);
            let said = Said { result, failed: Vec::new() };
            let dealt_with =
                self.judge(socket, clone, &msgs, &(said, Context { log, gso, each: false }));
            if dealt_with > sent {
                // The front one failed, and is given up.
                assert!(self.queue.pop_front());
            }
            self.queued = msgs[dealt_with..].to_vec();
            self.compare_queue();
            if self.sockets[socket].partial.is_none() {
                break;
            }
        }
        self.kernel().give_up();
    }

    pub(super) fn push(&mut self, msg: Msg) {
        let to = self.far.each_ref().map(addr);
        let before = self.queue.bytes();
        let pushed = lend(std::slice::from_ref(&msg), &to, |sends| self.queue.push(&sends[0]));
        if pushed.is_ok() {
            self.queued.push(msg);
        } else {
            assert_eq!(self.queue.bytes(), before, "what is refused changes nothing");
        }
        self.compare_queue();
    }

    /// The queue holds what the model has in its.
    pub(super) fn compare_queue(&self) {
        let payload = |msg: crate::SendMsg<'_>| msg.slices().collect::<Vec<_>>().concat();
        assert_eq!(self.queue.len(), self.queued.len());
        assert!(self.queue.iter().map(payload).eq(self.queued.iter().map(|msg| msg.data.clone())));
        let least: usize = self.queued.iter().map(|msg| msg.data.len() + SendQueue::OVERHEAD).sum();
        assert!(self.queue.bytes() >= least && (least > 0 || self.queue.bytes() == 0));
    }

    /// What was owed to senders is told by further sends.
    pub(super) fn finish_sends(&mut self, socket: usize) {
        for _ in 0..=self.sockets[socket].owed_sends.len() {
            let batch = super::ops::Op::decode([0, 0, 0, 0, 1, 0, 0, 0]);
            let super::ops::Op::Send { batch, .. } = batch else { unreachable!() };
            let msgs = super::messages::make(batch, &mut self.next, false);
            self.send(socket, 0, Sending::Batch, &msgs, false, false);
        }
        assert!(self.sockets[socket].owed_sends.is_empty(), "an error is never told");
    }
}

/// What a call was made in.
struct Context {
    log: Vec<Answer>,
    gso: bool,
    each: bool,
}

impl World {
    /// Compares what a call said with what the kernel said and with what arrived, and gives how
    /// many messages have an outcome.
    fn judge(
        &mut self,
        socket: usize,
        clone: usize,
        msgs: &[Msg],
        (said, context): &(Said, Context),
    ) -> usize {
        let log = &context.log;
        // What may be told or passed over may also come before what must be told.
        let served = &mut self.sockets[socket];
        let heard = said.told().first().copied();
        let earlier = heard.is_some_and(|errno| {
            served.tolerated_sends.contains(&errno) && !log.contains(&Answer::Failed(errno))
        });
        let now = !msgs.is_empty() && !earlier;
        let owed = if now { served.owed_sends.pop_front() } else { None };
        let statuses = statuses(msgs, said, owed);
        let what = format!("{said:?} of {} messages, {log:?}, owed {owed:?}", msgs.len());
        let partial = self.sockets[socket].partial.take();
        let before = partial.filter(|partial| msgs.first().is_some_and(|m| m.data == partial.data));
        let before = before.map_or(0, |partial| partial.sent);
        let (begun, sent) = self.compare(msgs, &statuses, before, &what);
        if let End::Offload(_) = self.sockets[socket].clone(clone).end {
            self.count_sent(socket, clone, sent, &what);
        }

        let mut told = said.told();
        if let (Some(errno), None, true) = (told.first(), owed, context.gso && is_one_batch(msgs)) {
            // D4: any error but "connection refused", in place of these four.
            let of_batch = [libc::EIO, libc::EOPNOTSUPP, libc::EINVAL, libc::EMSGSIZE];
            let met = log.iter().filter(|answer| **answer == Answer::Failed(*errno)).count();
            let asked = met > 1 || !of_batch.contains(errno);
            assert!(asked, "a GSO batch's error is taken for a datagram's: {what}");
        }
        if let Some(owed) = owed {
            assert_eq!(told.first(), Some(&owed.errno), "an error is not told: {what}");
            told.remove(0);
        }
        assert!(
            !said.is_blocked() || log.contains(&Answer::Failed(libc::EAGAIN)),
            "nobody has said that it would block: {what}"
        );
        let left = statuses.contains(&Status::Callers);
        let stopped = log.iter().any(|answer| *answer != Answer::Passed);
        let known = owed.is_some() || !told.is_empty();
        let first_left = statuses.iter().position(|status| *status == Status::Callers);
        let known = known || first_left.is_some_and(|i| msgs[i].bad.is_some());
        assert!(!left || stopped || known, "it ends for no reason: {what}");
        for told in &told {
            let tolerated = &mut self.sockets[socket].tolerated_sends;
            let own = msgs.iter().filter_map(|msg| msg.bad).any(|bad| bad.errno() == *told);
            if !own && !log.contains(&Answer::Failed(*told)) {
                let at = tolerated.iter().position(|errno| errno == told);
                tolerated.remove(at.unwrap_or_else(|| panic!("nobody said so: {what}")));
            }
        }
        let failed = || {
            log.iter().filter_map(|answer| match answer {
                Answer::Failed(libc::EAGAIN) => None,
                Answer::Failed(errno) => Some(*errno),
                _ => None,
            })
        };
        let mut untold = None;
        for errno in failed() {
            if let Some(at) = told.iter().position(|told| *told == errno) {
                if errno == libc::ECONNREFUSED {
                    told.remove(at);
                }
                continue;
            }
            // It went to somebody else, and is in the error queue (D18 where that is full).
            let reported = self.errors && kinds::REPORTED.contains(&errno);
            if errno == libc::ECONNREFUSED {
                let served = &mut self.sockets[socket];
                let owed = Owed { errno, clone };
                match reported {
                    true => served.tolerated_sends.push(errno),
                    false => served.owed_sends.push_back(owed),
                }
                continue;
            }
            untold = Some(errno);
            // The message is the caller's, who meets the error again if it stays; or it was a GSO
            // batch's and the datagrams went one by one.
            let all_well = left || !told.is_empty() || context.gso || reported || context.each;
            assert!(all_well, "an error is not told: {what}");
        }
        if begun > 0 {
            assert!(stopped || begun == before, "a message is left half sent: {what}");
            let data = msgs[first_left.expect("the one that has begun")].data.clone();
            let served = &mut self.sockets[socket];
            served.partial = Some(Partial { clone, data, sent: begun });
            // Its error may be told by the next call, or be gone when it is offered again.
            served.tolerated_sends.extend(untold);
        }
        statuses.iter().take_while(|status| **status != Status::Callers).count()
    }

    /// Compares what arrived with what the caller knows; `before` datagrams of the first message
    /// have come before. Gives how many have now left of the first message that is still the caller's,
    /// and how many datagrams have left in this call.
    fn compare(
        &self,
        msgs: &[Msg],
        statuses: &[Status],
        before: usize,
        what: &str,
    ) -> (usize, u64) {
        let arrived = self.arrived();
        let mut arrived = arrived.each_ref().map(|datagrams| datagrams.iter().peekable());
        let (mut begun, mut sent, mut first) = (0, 0, true);
        for (i, (msg, status)) in msgs.iter().zip(statuses).enumerate() {
            let came = &mut arrived[msg.dest];
            let datagrams = msg.datagrams();
            let failed = matches!(status, Status::Failed(_));
            assert!(failed || *status == Status::Callers || msg.bad.is_none(), "{i}: {what}");
            let mut done = if i == 0 { before } else { 0 };
            // Z1: after a multi-message call that took nothing and said nothing, which no kernel
            // does, it begins anew.
            if came.peek().is_some_and(|came| ***came == *datagrams[0]) {
                done = 0;
            }
            let mut left = datagrams[done..].iter();
            if *status == Status::Delivered {
                for datagram in left {
                    let came = came.next().map(Vec::as_slice);
                    assert_eq!(came, Some(*datagram), "message {i}: {what}");
                    sent += 1;
                }
                continue;
            }
            // Nothing of it came, or the beginning of what was segmented in user space.
            let may_have_begun = msg.own.is_some() && (failed || first);
            while may_have_begun && left.len() > 1 {
                let Some(datagram) = left.next() else { break };
                if came.next_if(|came| came == datagram).is_none() {
                    break;
                }
                (done, sent) = (done + 1, sent + 1);
            }
            if *status == Status::Callers && first {
                (begun, first) = (done, false);
            }
        }
        for mut rest in arrived {
            assert_eq!(rest.next(), None, "it came without the caller's knowledge: {what}");
        }
        (begun, sent)
    }

    fn count_sent(&mut self, socket: usize, clone: usize, sent: u64, what: &str) {
        let clone = self.sockets[socket].clone(clone);
        clone.sent += sent;
        if let End::Offload(socket) = &clone.end {
            assert_eq!(socket.counters().sent, clone.sent, "the counters: {what}");
        }
    }

    /// What has come to each receiver, all of which is taken off it.
    fn arrived(&self) -> [Vec<Vec<u8>>; 2] {
        const END: &[u8] = b"the end of it all";
        self.far.each_ref().map(|far| {
            self.near.get_ref().send_to(END, addr(far)).expect("loopback takes a datagram");
            let mut arrived = Vec::new();
            let mut buffer = [0; 2_000];
            loop {
                let len = far.recv(&mut buffer).expect("the end comes last");
                if &buffer[..len] == END {
                    return arrived;
                }
                arrived.push(buffer[..len].to_vec());
            }
        })
    }
}

/// Whether the messages are one GSO batch, by any rule for these.
fn is_one_batch(msgs: &[Msg]) -> bool {
    (2..=64).contains(&msgs.len()) && msgs.iter().all(|msg| msg.goes_with(&msgs[0]))
}

/// What the caller knows of each message, by the contract of the trait.
fn statuses(msgs: &[Msg], said: &Said, owed: Option<Owed>) -> Vec<Status> {
    let mut statuses = vec![Status::Callers; msgs.len()];
    match &said.result {
        Ok(count) => {
            assert!(*count <= msgs.len(), "{said:?} of {}", msgs.len());
            statuses[..*count].fill(Status::Delivered);
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // About a datagram sent before.
        Err(error) if errno(error) == libc::ECONNREFUSED => {}
        Err(_) if owed.is_some() => {}
        Err(error) => statuses[0] = Status::Failed(errno(error)),
    }
    assert!(said.failed.is_sorted_by(|a, b| a.0 < b.0), "told twice or out of order: {said:?}");
    for (i, errno) in &said.failed {
        assert_eq!(statuses.get(*i), Some(&Status::Delivered), "not dealt with: {said:?}");
        statuses[*i] = Status::Failed(*errno);
    }
    statuses
}

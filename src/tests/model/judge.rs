//! Compares the result of a send with the kernel's answers and the datagrams received.

use std::io;

use super::kernel::Answer;
use super::messages::{Msg, NO_ERRNO};
use super::world::{End, Owed, Partial, Served, World};
use crate::sys::fault::errno;
use crate::sys::numbers;
use crate::tests::delivered;

/// A message's outcome, as far as the caller knows it after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Delivered,
    Failed(i32),
    Callers,
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) result: io::Result<usize>,
    /// The errors that `send_each` reported, by index.
    pub(super) failed: Vec<(usize, i32)>,
}

pub(super) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_else(|| {
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "not the system's: {error:?}");
        NO_ERRNO
    })
}

impl Said {
    /// The errors that the caller got, in order, except `WouldBlock`.
    fn returned(&self) -> Vec<i32> {
        let error = self.result.as_ref().err().map(errno).filter(|errno| *errno != errno::EAGAIN);
        self.failed.iter().map(|(_, errno)| *errno).chain(error).collect()
    }

    fn is_blocked(&self) -> bool {
        self.result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// The circumstances of a call.
pub(super) struct Context {
    pub(super) log: Vec<Answer>,
    pub(super) gso: bool,
    /// Whether every GSO batch was offered to the kernel as such.
    pub(super) offered: bool,
    pub(super) each: bool,
}

impl Context {
    fn said(&self, errno: i32) -> bool {
        self.log.contains(&Answer::Failed(errno))
    }

    /// The errors that the kernel gave, except those that only mean "later".
    fn errors(&self) -> impl Iterator<Item = i32> {
        self.log.iter().filter_map(|answer| match answer {
            Answer::Failed(errno::EAGAIN) => None,
            Answer::Failed(errno) => Some(*errno),
            _ => None,
        })
    }
}

impl World {
    /// Compares the result of a call with the kernel's answers and the datagrams received. Returns how
    /// many messages have an outcome.
    pub(super) fn judge(
        &mut self,
        socket: usize,
        clone: usize,
        msgs: &[Msg],
        (said, context): &(Said, Context),
    ) -> usize {
        let owed = self.owed_send(socket, msgs, said, context);
        let statuses = statuses(msgs, said, owed);
        let first_left = statuses.iter().position(|status| *status == Status::Callers);
        let what = format!("{said:?} of {} messages, {:?}, owed {owed:?}", msgs.len(), context.log);

        let partial = self.sockets[socket].partial.take();
        let before = partial.filter(|partial| msgs.first().is_some_and(|m| m.data == partial.data));
        let before = before.map_or(0, |partial| partial.sent);
        let (begun, sent) = self.compare(msgs, &statuses, before, &what);
        if let End::Offload(_) = self.sockets[socket].clone(clone).end {
            self.count_sent(socket, clone, sent, &what);
        }

        let mut returned = said.returned();
        if let Some(owed) = owed {
            assert_eq!(returned.first(), Some(&owed.errno), "an error is lost: {what}");
            returned.remove(0);
        } else if context.gso && context.offered && is_one_batch(msgs) {
            is_of_a_datagram(&returned, context, &what);
        }
        let blocked = said.is_blocked();
        assert!(!blocked || context.said(errno::EAGAIN), "nobody said it would block: {what}");
        let stopped = context.log.iter().any(|answer| *answer != Answer::Passed);
        let known = owed.is_some() || !returned.is_empty();
        let known = known || first_left.is_none_or(|i| msgs[i].bad.is_some());
        assert!(stopped || known, "it ends for no reason: {what}");

        self.returned_errors_were_given(socket, msgs, &returned, context, &what);
        // A message whose TOS is rejected is sent without it.
        let about_tos = |errno| [errno::EINVAL, errno::EIO].contains(&errno);
        let without_tos = msgs.iter().any(|msg| msg.ecn) && context.errors().any(about_tos);
        let left = first_left.is_some() || without_tos;
        let unreturned =
            self.given_errors_were_returned((socket, clone), returned, left, context, &what);
        if begun > 0 {
            assert!(stopped || begun == before, "a message is left half sent: {what}");
            let data = msgs[first_left.expect("the one that has begun")].data.clone();
            let served = &mut self.sockets[socket];
            served.partial = Some(Partial { clone, data, sent: begun });
            // The next call may return its error, or not meet it again.
            served.tolerated_sends.extend(unreturned);
        }
        statuses.iter().take_while(|status| **status != Status::Callers).count()
    }

    /// The deferred error that this call has to return. Errors that are optional may come
    /// before it.
    fn owed_send(
        &mut self,
        socket: usize,
        msgs: &[Msg],
        said: &Said,
        context: &Context,
    ) -> Option<Owed> {
        let served = &mut self.sockets[socket];
        let heard = said.returned().first().copied();
        let is_owed = served.owed_sends.front().map(|owed| owed.errno) == heard;
        let earlier = heard
            .is_some_and(|errno| served.tolerated_sends.contains(&errno) && !context.said(errno));
        if msgs.is_empty() || (earlier && !is_owed) { None } else { served.owed_sends.pop_front() }
    }

    /// Every error that the caller got is the kernel's, or the message's own.
    fn returned_errors_were_given(
        &mut self,
        socket: usize,
        msgs: &[Msg],
        returned: &[i32],
        context: &Context,
        what: &str,
    ) {
        let Served { tolerated_sends: tolerated, owed_sends, .. } = &mut self.sockets[socket];
        for returned in returned {
            let own = msgs.iter().filter_map(|msg| msg.bad).any(|bad| bad.errno() == *returned);
            if !own && !context.said(*returned) {
                if let Some(at) = tolerated.iter().position(|errno| errno == returned) {
                    tolerated.remove(at);
                } else {
                    // After an error `send_each` goes on, and may meet the next deferred one.
                    let owed = if context.each { owed_sends.pop_front() } else { None };
                    assert_eq!(
                        owed.map(|owed| owed.errno),
                        Some(*returned),
                        "nobody said so: {what}"
                    );
                }
            }
        }
    }

    /// Every error that the kernel gave was returned, or is deferred, or is about a message that is
    /// still the caller's. Returns the last one of these.
    fn given_errors_were_returned(
        &mut self,
        (socket, clone): (usize, usize),
        mut returned: Vec<i32>,
        left: bool,
        context: &Context,
        what: &str,
    ) -> Option<i32> {
        let any_returned = !returned.is_empty();
        // `send_each` may have returned one in the middle, for all that were given before it.
        let one_for_several = context.each && returned.contains(&errno::ECONNREFUSED);
        let mut unreturned = None;
        for errno in context.errors() {
            let refused = errno == errno::ECONNREFUSED;
            if let Some(at) = returned.iter().position(|returned| *returned == errno) {
                if refused {
                    returned.remove(at);
                }
                continue;
            }
            // Another call returned it, or it is in the error queue (D18 where that is full).
            let reported = self.errors && numbers::ICMP_ERRORS.contains(&errno);
            if refused {
                let served = &mut self.sockets[socket];
                // Those that wait for a socket's next call are one, as in the kernel.
                let waits = served.owed_sends.iter().any(|owed| owed.errno == errno);
                if reported || one_for_several {
                    served.tolerated_sends.push(errno);
                } else if !waits {
                    served.owed_sends.push_back(Owed { errno, clone });
                }
                continue;
            }
            unreturned = Some(errno);
            // The message is the caller's, who meets the error again if it stays; or it was a GSO
            // batch's and the datagrams were sent unsegmented.
            let all_well = left || any_returned || context.gso || reported || context.each;
            assert!(all_well, "an error is lost: {what}");
        }
        unreturned
    }

    /// Compares the datagrams received with what the caller knows; `before` datagrams of the first
    /// have come before. Returns how many have now left of the first message that is still the caller's,
    /// and how many datagrams have left in this call.
    fn compare(
        &self,
        msgs: &[Msg],
        statuses: &[Status],
        before: usize,
        what: &str,
    ) -> (usize, u64) {
        let delivered = self.delivered();
        let mut delivered = delivered.each_ref().map(|datagrams| datagrams.iter().peekable());
        let (mut begun, mut sent, mut first) = (0, 0, true);
        for (i, (msg, status)) in msgs.iter().zip(statuses).enumerate() {
            let came = &mut delivered[msg.dest];
            let datagrams = msg.datagrams();
            let failed = matches!(status, Status::Failed(_));
            assert!(failed || *status == Status::Callers || msg.bad.is_none(), "{i}: {what}");
            let mut done = if i == 0 { before } else { 0 };
            // Z1: after a multi-message call that took nothing and returned no error, which no kernel
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
        for mut rest in delivered {
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

    /// Receives all that waits at each receiver.
    fn delivered(&self) -> [Vec<Vec<u8>>; 2] {
        self.far.each_ref().map(|far| delivered(self.near.get_ref(), far))
    }
}

/// Whether the messages are one GSO batch, by any rule for these.
fn is_one_batch(msgs: &[Msg]) -> bool {
    (2..=64).contains(&msgs.len()) && msgs.iter().all(|msg| msg.goes_with(&msgs[0]))
}

/// The error that a GSO batch met is no datagram's until that has met it by itself.
fn is_of_a_datagram(returned: &[i32], context: &Context, what: &str) {
    // D4: any error but "connection refused", in place of these four.
    let of_batch = [errno::EIO, errno::EOPNOTSUPP, errno::EINVAL, errno::EMSGSIZE];
    let Some(first) = returned.first().filter(|errno| of_batch.contains(errno)) else { return };
    // The batch met the first error that was not about an earlier datagram.
    let mut met = context.errors().filter(|errno| *errno != libc::ECONNREFUSED).skip(1);
    assert!(
        met.any(|errno| errno == *first),
        "a GSO batch's error is taken for a datagram's: {what}"
    );
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
        // The error is about a datagram sent before.
        Err(error) if errno(error) == errno::ECONNREFUSED => {}
        Err(_) if owed.is_some() => {}
        Err(error) => statuses[0] = Status::Failed(errno(error)),
    }
    assert!(said.failed.is_sorted_by(|a, b| a.0 < b.0), "reported twice or out of order: {said:?}");
    for (i, errno) in &said.failed {
        assert_eq!(statuses.get(*i), Some(&Status::Delivered), "not dealt with: {said:?}");
        statuses[*i] = Status::Failed(*errno);
    }
    statuses
}

//! Sends: repeats calls until each message has an outcome, and judges each call.

use std::io::IoSlice;

use super::*;
use crate::Ecn;
use crate::arena::MAX_COPIES;
use crate::offload::{Counters, GsoStatus};
use crate::send::coalesce::tests::first_batch;
use crate::send::coalesce::{MAX_BATCH_BYTES, explicit_segment_size};
use crate::sys::MAX_SEGMENTS;
use crate::tests::offload_kit::bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tests) enum SendWay {
    Batch,
    Each,
    Flush,
}

impl SendWay {
    pub(super) const ALL: [Self; 3] = [Self::Batch, Self::Each, Self::Flush];

    pub(super) fn of(byte: u8) -> Self {
        Self::ALL[usize::from(byte % 3)]
    }
}

/// The kind of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tests) enum Shape {
    /// One GSO batch.
    Alike,
    /// Messages with explicit segment sizes.
    OwnSegments,
    /// Batches to two destinations; single, empty and gathered messages; and messages with explicit segment sizes.
    Mixed,
    /// One GSO batch after another, of full frames.
    Long,
    /// `Mixed`, with messages that the real kernel rejects.
    Bad,
}

impl Shape {
    /// The scripted kernel rejects any message, so it gets only good ones.
    pub(super) fn of(byte: u8, is_real: bool) -> Self {
        let more = if is_real { [Self::Long, Self::Bad] } else { [Self::Mixed, Self::Alike] };
        let shapes = [
            [Self::Alike, Self::OwnSegments, Self::Mixed, Self::Mixed],
            [more[0], more[1], more[0], more[1]],
        ];
        shapes[usize::from(byte / 4 % 2)][usize::from(byte % 4)]
    }
}

#[derive(Debug)]
struct Msg {
    far: usize,
    data: Vec<u8>,
    own: Option<u16>,
    gathered: bool,
    ecn: bool,
    /// The error that the real kernel returns for it: it is too long, or goes to port 0.
    error: Option<i32>,
}

impl Msg {
    fn new(shape: Shape, number: usize) -> Self {
        let mixed = matches!(shape, Shape::Mixed | Shape::Bad);
        let error = match (shape, number % 8) {
            (Shape::Bad, 2) => Some(errno::EMSGSIZE),
            (Shape::Bad, 5) => Some(errno::EINVAL),
            _ => None,
        };
        let len = match (shape, number % 11) {
            _ if error == Some(errno::EMSGSIZE) => 70_000,
            (Shape::OwnSegments, _) => 35,
            (Shape::Long, _) => 1_400,
            (Shape::Mixed | Shape::Bad, 5) => 0,
            (Shape::Mixed | Shape::Bad, 9) => 61,
            _ => 40,
        };
        let has_own = shape == Shape::OwnSegments || mixed && number % 7 == 6;
        Self {
            far: usize::from(mixed && number / 3 % 2 == 1),
            data: bytes(number, len),
            own: (has_own && error.is_none()).then_some(10),
            gathered: mixed && number % 4 == 1,
            ecn: mixed && number / 5 % 3 == 1,
            error,
        }
    }

    /// The datagrams that the message should become.
    fn pieces(&self) -> Vec<&[u8]> {
        match self.own {
            Some(size) if !self.data.is_empty() => self.data.chunks(size.into()).collect(),
            _ => vec![&self.data],
        }
    }
}

/// Calls `then` with the messages in the library's type.
fn lend<R>(msgs: &[Msg], net: &Net, connected: bool, then: impl FnOnce(&[SendMsg<'_>]) -> R) -> R {
    let parts: Vec<_> = msgs
        .iter()
        .map(|msg| msg.data.split_at(msg.data.len() / 3))
        .map(|(one, other)| [IoSlice::new(one), IoSlice::new(other)])
        .collect();
    let lent = msgs.iter().zip(&parts).map(|(msg, parts)| {
        let lent = if msg.gathered { SendMsg::gather(parts) } else { SendMsg::new(&msg.data) };
        let mut dest = net.to(msg.far);
        if msg.error == Some(errno::EINVAL) {
            dest.set_port(0);
        }
        // On a connected socket most messages go to the peer without a destination.
        let to_peer = connected && msg.far == 0 && msg.error.is_none() && !msg.ecn;
        let lent = if to_peer { lent } else { lent.with_dest(dest) };
        let lent = if msg.ecn { lent.with_ecn(Ecn::Ect0) } else { lent };
        msg.own.map_or(lent, |size| lent.with_segment_size(size))
    });
    then(&lent.collect::<Vec<_>>())
}

/// A call, its result, and the state before it.
#[derive(Debug)]
struct Case<'a> {
    msgs: &'a [Msg],
    result: io::Result<usize>,
    /// The errors that `send_each` reported, by index.
    failed: Vec<(usize, i32)>,
    log: Vec<Answer>,
    before: Counters,
    /// Whether GSO was on, and whether the first header was a GSO batch.
    gso: bool,
    first_is_batch: bool,
}

impl World {
    pub(super) fn send(&mut self, way: SendWay, shape: Shape, count: usize) {
        let numbers = self.next..self.next + count;
        self.next = numbers.end;
        let msgs: Vec<_> = numbers.map(|number| Msg::new(shape, number)).collect();
        let (mut rest, mut calls) = (&msgs[..], 0);
        while !rest.is_empty() {
            rest = &rest[self.send_once(way, rest)..];
            calls += 1;
            assert!(calls < 200, "too many calls: {:?}", self.said);
        }
    }

    /// Makes and judges one call. Returns how many messages have an outcome.
    fn send_once(&mut self, way: SendWay, msgs: &[Msg]) -> usize {
        let before = self.net.near.state().counters();
        let gso = self.net.near.state().gso() && self.kind != Kind::Plain;
        let datagrams = msgs.iter().map(|msg| msg.pieces().len()).sum();
        let (kernel, kind, net, connected) = (&self.kernel, self.kind, &self.net, self.connected);
        let (mut failed, mut first_is_batch) = (Vec::new(), false);
        let socket: &dyn BatchSocket = match kind {
            Kind::Plain => net.near.get_ref(),
            Kind::Offload { .. } => &net.near,
        };
        let (result, log) = under(kernel, &mut self.backend, datagrams, || {
            lend(msgs, net, connected, |sends| {
                let batch = first_batch(sends, MAX_SEGMENTS).messages > 1;
                first_is_batch = gso && (batch || explicit_segment_size(&sends[0]).is_some());
                match way {
                    SendWay::Batch => socket.send_batch(sends),
                    SendWay::Each => socket.send_each(sends, |i, error| {
                        lock(kernel).give_up();
                        failed.push((i, error.raw_os_error().expect("an error of the system")));
                    }),
                    SendWay::Flush => {
                        let mut queue = SendQueue::new(4 << 20);
                        sends.iter().for_each(|msg| queue.push(msg).expect("the queue is ample"));
                        let result = socket.flush(&mut queue);
                        assert_eq!(queue.len(), sends.len() - result.as_ref().unwrap_or(&0));
                        result
                    }
                }
            })
        });
        self.said.push(format!("{result:?} {failed:?}"));
        self.judge(&Case { msgs, result, failed, log, before, gso, first_is_batch })
    }

    fn judge(&mut self, case: &Case<'_>) -> usize {
        let handled = *case.result.as_ref().unwrap_or(&0);
        assert!(handled <= case.msgs.len(), "{case:?}");
        assert!(case.failed.is_sorted_by(|a, b| a.0 < b.0), "{case:?}");
        assert!(case.failed.iter().all(|(i, _)| *i < handled), "{case:?}");

        // The handled messages arrived, except those that failed.
        let delivered = self.net.delivered();
        let mut came = delivered.each_ref().map(|datagrams| datagrams.iter().peekable());
        let (mut sent, mut dropped) = (0, 0);
        for (i, msg) in case.msgs[..handled].iter().enumerate() {
            if case.failed.iter().any(|(failed, _)| *failed == i) {
                continue;
            }
            let (pieces, came) = (msg.pieces(), &mut came[msg.far]);
            let next = |piece: &&[u8]| came.next_if(|came| came == piece).is_some();
            let taken = pieces.iter().copied().take_while(next).count();
            assert!(taken > 0, "message {i} is lost: {case:?}");
            assert!(taken == pieces.len() || self.kind != Kind::Plain, "{case:?}");
            (sent, dropped) = (sent + taken, dropped + pieces.len() - taken);
        }
        assert!(
            came.iter_mut().all(|came| came.next().is_none()),
            "duplicated or not counted: {case:?}"
        );

        // All errors are the kernel's: of its answers, or of a message that it never sends.
        let said: Vec<_> = case
            .log
            .iter()
            .filter_map(
                |answer| if let Answer::Failed(errno) = answer { Some(*errno) } else { None },
            )
            .collect();
        let is_of = |i: usize, errno| case.msgs[i].error == Some(errno) || said.contains(&errno);
        assert!(case.failed.iter().all(|(i, errno)| is_of(*i, *errno)), "{case:?}");
        // A message that is segmented in user space is the last one of its call. So is the last one before a message that
        // cannot be sent, or before a GSO batch that is more than a call copies.
        let next = &case.msgs[..case.msgs.len().min(handled + 1)];
        let copied: usize = next.iter().map(|msg| msg.data.len()).sum();
        let may_end = !case.gso && case.msgs.iter().any(|msg| msg.own.is_some())
            || next.last().is_some_and(|msg| msg.error.is_some())
            || copied > MAX_COPIES - MAX_BATCH_BYTES;
        let whole = !kernel::ends_call(&case.log) && !may_end;
        assert!(!whole || handled == case.msgs.len(), "short for no reason: {case:?}");
        let mut given_up = 0;
        if let Err(error) = &case.result {
            let errno = error.raw_os_error().expect("an error of the system");
            let own = case.msgs[0].error == Some(errno);
            assert!(own || said.last() == Some(&errno), "{case:?}");
            let about_none = [errno::EAGAIN, errno::ECONNREFUSED].contains(&errno);
            assert!(
                own || about_none || !case.first_is_batch || said.len() > 1,
                "no second try: {case:?}"
            );
            if errno != errno::EAGAIN {
                self.kernel().give_up();
                given_up = 1;
            }
        }
        if self.kind != Kind::Plain {
            self.judge_offload(case, handled, sent, dropped);
        }
        handled + given_up
    }

    fn judge_offload(&self, case: &Case<'_>, handled: usize, sent: usize, dropped: usize) {
        let counted = self.net.since(case.before);
        assert_eq!((counted.sent, counted.unsent), (sent as u64, dropped as u64), "{case:?}");
        let (status, rejected) = (self.net.near.state().gso_status(), counted.rejected_unsupported);
        if case.gso {
            assert_eq!(status == GsoStatus::Rejected, rejected > 0, "{case:?}");
        }
        let rejections = [errno::EIO, errno::EOPNOTSUPP].map(Answer::Failed);
        let is_said = case.log.iter().any(|answer| rejections.contains(answer));
        assert!(rejected == 0 || handled > 0 && is_said, "{case:?}");
        // Only EIO: with a report in the error queue EOPNOTSUPP may be about another datagram.
        let first = case.first_is_batch && case.log[0] == rejections[0];
        // Its first datagram fails, too: then the TOS may be the reason, and the batch goes without it.
        let of_tos = [errno::EIO, errno::EINVAL].map(Answer::Failed);
        let without_tos = case.msgs[0].ecn && case.log[1..].iter().any(|a| of_tos.contains(a));
        if first && !without_tos && handled > 0 && case.failed.is_empty() {
            assert_eq!(
                (rejected, self.net.near.state().gso()),
                (1, false),
                "it tries again: {case:?}"
            );
        }
    }
}

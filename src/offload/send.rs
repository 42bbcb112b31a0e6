//! Sending by trains, and what becomes of one that the kernel refuses.

use std::borrow::Borrow;
use std::io;
use std::sync::atomic::Ordering;

use super::Offload;
use crate::progress::{Direction, Progress};
use crate::segment::Limits;
use crate::send_msg::{Content, Outgoing};
use crate::sys::{self, AsSocket, BorrowedSocket, MAX_BATCH, Moved, Refusal, Step, Train};
use crate::{MmsgBuf, SendMsg, SendQueue};

/// Messages to be sent in order, consumed from the front as the kernel takes them.
pub(super) trait Messages {
    fn len(&self) -> usize;
    /// Those that are left.
    fn rest(&mut self) -> impl Iterator<Item: Outgoing<'_>>;
    /// The first `n` are with the kernel.
    fn advance(&mut self, n: usize);
}

impl Messages for &[SendMsg<'_>] {
    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn rest(&mut self) -> impl Iterator<Item: Outgoing<'_>> {
        self.iter()
    }

    fn advance(&mut self, n: usize) {
        *self = &self[n..];
    }
}

impl Messages for SendQueue {
    fn len(&self) -> usize {
        SendQueue::len(self)
    }

    fn rest(&mut self) -> impl Iterator<Item: Outgoing<'_>> {
        self.stage()
    }

    fn advance(&mut self, n: usize) {
        SendQueue::advance(self, n);
    }
}

impl<S: AsSocket> Offload<S> {
    /// Sends all messages, by trains where it can.
    pub(super) fn send_from(
        &self,
        arena: &mut MmsgBuf,
        messages: &mut impl Messages,
    ) -> io::Result<usize> {
        let socket = sys::borrow(&self.socket);
        let progress = Progress::begin(socket, Direction::Send, messages.len())?;
        arena.reserve(messages.len());
        let mut call = Call { offload: self, arena, socket, messages, progress };
        let mut limits = Limits::WIDEST;
        while call.progress.goes_on() {
            if self.gso() { call.send_trains(&mut limits)? } else { call.send_plainly()? }
        }
        Ok(call.progress.count)
    }
}

/// One call: who sends what, and how far it has come.
struct Call<'c, S, M> {
    offload: &'c Offload<S>,
    arena: &'c mut MmsgBuf,
    socket: BorrowedSocket<'c>,
    messages: &'c mut M,
    progress: Progress<'c>,
}

impl<S, M: Messages> Call<'_, S, M> {
    /// One step with trains; a train that is refused goes again without.
    fn send_trains(&mut self, limits: &mut Limits) -> io::Result<()> {
        let (headers, backend) = self.arena.engine();
        let sent = headers.send_trains(backend, self.socket, self.messages.rest(), *limits);
        self.messages.advance(sent.moved.datagrams);
        self.offload.counters.sent(sent.moved, sent.step.calls);
        let Some(train) = sent.stopped_at.filter(Train::is_segmented) else {
            return self.progress.add(sent.offered, sent.step);
        };
        match sent.step.error.as_ref().map(sys::segmentation_refused) {
            // The system took those before it and keeps the reason to itself: it comes next.
            None => {
                self.progress.count += sent.moved.datagrams;
                Ok(())
            }
            Some(None) => self.progress.add(sent.offered, sent.step),
            Some(Some(refusal)) => {
                self.progress.count += sent.moved.datagrams;
                if self.send_again(train)? {
                    self.blame(refusal, train, limits);
                }
                Ok(())
            }
        }
    }

    /// It was the train that was refused, not what is in it.
    fn blame(&self, refusal: Refusal, train: Train, limits: &mut Limits) {
        self.offload.counters.fell_back(refusal);
        match refusal {
            Refusal::Unsupported => self.offload.gso.store(false, Ordering::Relaxed),
            // One flow's segments may be too long for its route, and others' not. What it costs to
            // find out is paid once a call.
            Refusal::Size => limits.refused_len = limits.refused_len.min(train.segment),
        }
    }

    /// Sends the messages of a train that was refused one by one, and says whether that went
    /// better.
    fn send_again(&mut self, train: Train) -> io::Result<bool> {
        let before = self.progress.count;
        match train.own_segment_size {
            Some(_) => self.send_cut()?,
            None => self.send_up_to(train.count)?,
        }
        Ok(self.progress.count > before)
    }

    /// One step without trains.
    fn send_plainly(&mut self) -> io::Result<()> {
        let whole = |content: &Content<'_>| match content {
            Content::Plain(_) => true,
            Content::Full { meta, .. } => meta.segment_size.is_none(),
        };
        let next = self.messages.rest().take(MAX_BATCH);
        let count = next.take_while(|msg| whole(msg.content().borrow())).count();
        if count > 0 { self.send_up_to(count) } else { self.send_cut() }
    }

    /// Sends the next `most` messages as they are.
    fn send_up_to(&mut self, most: usize) -> io::Result<()> {
        let (headers, backend) = self.arena.engine();
        let (offered, step) = headers.send(backend, self.socket, self.messages.rest().take(most));
        let sent = self.messages.rest().take(step.count);
        let bytes = sent.map(|msg| msg.content().borrow().len()).sum();
        let moved = Moved { datagrams: step.count, bytes, ..Moved::default() };
        self.offload.counters.sent(moved, step.calls);
        self.messages.advance(step.count);
        self.progress.add(offered, step)
    }

    /// Sends the next message, which has a segment size, as the datagrams that it stands for.
    ///
    /// Once the first of them has left, the call waits for room for the others: the caller could
    /// not be told of a part of a message.
    fn send_cut(&mut self) -> io::Result<()> {
        let (headers, backend) = self.arena.engine();
        let mut sent = Moved::default();
        let mut calls = 0;
        let error = {
            let next = self.messages.rest().next().map(|msg| msg.to_msg());
            let Some(msg) = next else { return Ok(()) };
            let mut copy = Vec::new();
            let data = msg.one_buffer().unwrap_or_else(|| {
                msg.slices().for_each(|slice| copy.extend_from_slice(slice));
                &copy
            });
            let size = msg.meta().segment_size.map_or(usize::MAX, usize::from).max(1);
            let pieces = || data.chunks(size).map(|piece| msg.piece(piece));
            let total = pieces().len();
            loop {
                let left = pieces().skip(sent.datagrams);
                let (_, step) = headers.send(backend, self.socket, left);
                sent.bytes +=
                    pieces().skip(sent.datagrams).take(step.count).map(|m| m.len()).sum::<usize>();
                sent.datagrams += step.count;
                calls += step.calls;
                match step.error {
                    _ if sent.datagrams >= total => break None,
                    Some(error)
                        if error.kind() == io::ErrorKind::WouldBlock && sent.datagrams > 0 =>
                    {
                        if let Err(error) = sys::wait_writable(self.socket) {
                            break Some(error);
                        }
                    }
                    Some(error) => break Some(error),
                    None => {}
                }
            }
        };
        self.offload.counters.sent(sent, calls);
        match error {
            None => {
                self.messages.advance(1);
                self.progress.add(1, Step::moved(1))
            }
            Some(error) => self.progress.add(1, Step::stopped(0, error)),
        }
    }
}

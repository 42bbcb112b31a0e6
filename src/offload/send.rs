//! Sending by trains, and what becomes of one that the kernel refuses.

use std::borrow::Borrow;
use std::io;
use std::sync::atomic::Ordering;

use super::Offload;
use crate::pending;
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

/// Messages that a send takes from an iterator before it sends them: as many as a train has at
/// most, and still little to have on the stack.
const ITER_STEP: usize = 64;

impl<S: AsSocket> Offload<S> {
    /// Sends all messages, by trains where it can.
    pub(super) fn send_from(
        &self,
        arena: &mut MmsgBuf,
        messages: &mut impl Messages,
    ) -> io::Result<usize> {
        let socket = sys::borrow(&self.socket);
        let mut progress = Progress::begin(socket, Direction::Send, messages.len())?;
        let mut limits = Limits::WIDEST;
        self.send_on(arena, socket, messages, &mut progress, &mut limits)?;
        Ok(progress.count)
    }

    /// Sends what an iterator gives, which cannot be asked twice for what goes again.
    pub(super) fn send_iter_from<'m>(
        &self,
        arena: &mut MmsgBuf,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> io::Result<usize> {
        let socket = sys::borrow(&self.socket);
        let mut progress = Progress::begin(socket, Direction::Send, usize::MAX)?;
        let mut limits = Limits::WIDEST;
        let mut msgs = msgs.fuse();
        loop {
            let mut step = [SendMsg::new(&[]); ITER_STEP];
            let mut count = 0;
            for (slot, msg) in step.iter_mut().zip(&mut msgs) {
                *slot = msg;
                count += 1;
            }
            let mut left = &step[..count];
            progress.most = progress.count + count;
            self.send_on(arena, socket, &mut left, &mut progress, &mut limits)?;
            if count < ITER_STEP || !left.is_empty() {
                return Ok(progress.count);
            }
        }
    }

    /// Sends messages until all are gone or the call is over.
    fn send_on(
        &self,
        arena: &mut MmsgBuf,
        socket: BorrowedSocket<'_>,
        messages: &mut impl Messages,
        progress: &mut Progress<'_>,
        limits: &mut Limits,
    ) -> io::Result<()> {
        arena.reserve(messages.len())?;
        let mut call = Call { offload: self, arena, socket, messages, progress };
        while call.progress.goes_on() {
            if self.gso() { call.send_trains(limits)? } else { call.send_plainly()? }
        }
        Ok(())
    }
}

/// One call: who sends what, and how far it has come.
struct Call<'c, 's, S, M> {
    offload: &'c Offload<S>,
    arena: &'c mut MmsgBuf,
    socket: BorrowedSocket<'c>,
    messages: &'c mut M,
    progress: &'c mut Progress<'s>,
}

impl<S, M: Messages> Call<'_, '_, S, M> {
    /// One step with trains; a train that is refused goes again without.
    fn send_trains(&mut self, limits: &mut Limits) -> io::Result<()> {
        if self.messages.rest().next().is_some_and(|msg| limits.refuse(&msg)) {
            return self.send_cut();
        }
        let (headers, backend) = self.arena.engine();
        let sent = headers.send_trains(backend, self.socket, self.messages.rest(), *limits);
        self.messages.advance(sent.step.count);
        self.offload.counters.sent(sent.moved, sent.step.calls);
        let Some(train) = sent.stopped_at.filter(Train::is_segmented) else {
            return self.progress.add(sent.offered, sent.step);
        };
        match sent.step.error.as_ref().map(sys::segmentation_refused) {
            // The system took those before it and keeps the reason to itself: it comes next.
            None if sent.step.count > 0 => {
                self.progress.count += sent.step.count;
                Ok(())
            }
            None | Some(None) => self.progress.add(sent.offered, sent.step),
            Some(Some(refusal)) => {
                self.progress.count += sent.step.count;
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
            Refusal::Size => {
                let len = train.own_segment_size.map_or(train.segment, usize::from);
                limits.refused_len = limits.refused_len.min(len);
            }
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
    fn send_cut(&mut self) -> io::Result<()> {
        let (moved, step) = {
            let Some(msg) = self.messages.rest().next() else { return Ok(()) };
            send_pieces(self.arena, self.socket, &msg.to_msg())
        };
        self.offload.counters.sent(moved, step.calls);
        self.messages.advance(step.count);
        let in_the_middle = step.count == 0 && moved.datagrams > 0;
        if let (true, Some(error), 1..) = (in_the_middle, &step.error, self.progress.count) {
            // The next call begins with this message. It must tell of it, not send it once more.
            pending::keep(self.socket, Direction::Send, error);
        }
        self.progress.add(1, step)
    }
}

/// Sends the datagrams that a message with a segment size stands for. The step is of the message.
///
/// Once the first of them has left, it waits for room for the others, and an error that is about
/// none of them waits, too: the caller could not be told of a part of a message. Any other error
/// is the message's, though a part of it has left.
fn send_pieces(
    arena: &mut MmsgBuf,
    socket: BorrowedSocket<'_>,
    msg: &SendMsg<'_>,
) -> (Moved, Step) {
    let mut moved = Moved::default();
    let size = msg.meta().segment_size.map_or(usize::MAX, usize::from);
    // No system is asked what it makes of no size, with offload or without; and where nothing can be
    // waited for, a message could be left half sent.
    let refused = match size {
        0 => Some(io::ErrorKind::InvalidInput),
        _ if cfg!(one_by_one) => Some(io::ErrorKind::Unsupported),
        _ => None,
    };
    if let Some(kind) = refused {
        return (moved, Step::stopped(0, kind.into()).after(0));
    }
    let mut copy = Vec::new();
    let data = msg.one_buffer().unwrap_or_else(|| {
        msg.slices().for_each(|slice| copy.extend_from_slice(slice));
        &copy
    });
    let total = data.len().div_ceil(size).max(1);
    // An empty message is one empty datagram.
    let piece = |i: usize| &data[i * size..data.len().min((i + 1).saturating_mul(size))];
    if let Err(error) = arena.reserve(total) {
        return (moved, Step::stopped(0, error).after(0));
    }
    let (headers, backend) = arena.engine();
    let (mut calls, mut kept) = (0, None);
    let step = loop {
        let left = (moved.datagrams..total).map(|i| msg.piece(piece(i)));
        let (_, step) = headers.send(backend, socket, left);
        let sent = moved.datagrams..moved.datagrams + step.count;
        moved.bytes += sent.clone().map(|i| piece(i).len()).sum::<usize>();
        moved.datagrams = sent.end;
        calls += step.calls;
        let begun = moved.datagrams > 0;
        let error = match step.error {
            _ if moved.datagrams == total => break Step { error: kept, ..Step::moved(1) },
            None if step.count == 0 => break Step::moved(0),
            Some(error) if begun && error.kind() == io::ErrorKind::WouldBlock => {
                sys::wait_writable(socket).err()
            }
            Some(error) if begun && error.kind() == io::ErrorKind::ConnectionRefused => {
                kept = Some(error);
                None
            }
            error => error,
        };
        if let Some(error) = error {
            break Step::stopped(0, error);
        }
    };
    (moved, step.after(calls))
}

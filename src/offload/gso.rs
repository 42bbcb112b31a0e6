//! Sending with GSO.

mod rejected;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use super::state::{OffloadRef, OffloadState};
use crate::ancillary;
use crate::engine::arena::MmsgBuf;
use crate::engine::pool;
use crate::engine::progress::Progress;
use crate::engine::single::Single;
use crate::send::coalesce::{Limits, Source, segment_size};
use crate::send::msg::SendMsg;
use crate::send::outgoing::{Messages, Outgoing};
use crate::send::queue::SendQueue;
use crate::send::single::wire_single;
use crate::send::wire::wire;
use crate::sys::{
    self, Backend, BorrowedSocket, CallResult, Direction, GsoBatch, SendFlags, SendHeaders,
    SingleHeader, Transferred,
};

/// Messages to reserve memory for at first, if the iterator does not say how many it has.
const ITER_STEP: usize = 64;

impl OffloadRef<'_> {
    /// Sends all messages of a slice.
    pub(super) fn send_slice(
        &self,
        arena: &mut MmsgBuf,
        msgs: &[SendMsg<'_>],
        flags: SendFlags,
    ) -> io::Result<usize> {
        arena.reserve(msgs.len())?;
        let mut call = Call { flags, ..Call::begin(self, msgs.len())? };
        call.send(arena, &mut Source::new(msgs.iter()))?;
        Ok(call.progress.count)
    }

    /// Sends the one message of a slice, if it needs no arena.
    #[inline]
    pub(super) fn send_single(
        &self,
        msgs: &[SendMsg<'_>],
        flags: SendFlags,
    ) -> Option<io::Result<usize>> {
        let single = Single::of(msgs)?;
        let progress = match Progress::begin(self.socket, Direction::Send, 1) {
            Ok(progress) => progress,
            Err(error) => return Some(Err(error)),
        };
        let bytes = single.data.len();
        let size = segment_size(bytes, &single.options);
        // What was rejected matters to batches alone.
        if size.is_some() && Call::new(self, progress.clone()).looks_at_each() {
            return None;
        }
        let mut header = SingleHeader::new();
        // It fits: the size came from a `u16`.
        single.wire(&mut header, self.socket, size.map(|size| size as u16))?;
        let result = header.send(self.socket, single.data, flags);
        let batch = GsoBatch { messages: 1, bytes, segment: size.unwrap_or(bytes) };
        if result.count > 0 {
            let mut moved = Transferred::default();
            moved.add(&batch);
            self.state.counters.sent(moved, result.calls);
            return Some(Ok(1));
        }
        Some(Call { flags, ..Call::new(self, progress) }.single_stopped(msgs, batch, result))
    }

    /// Sends the messages of an iterator.
    pub(super) fn send_from<'m>(
        &self,
        arena: &mut MmsgBuf,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> io::Result<usize> {
        arena.reserve(msgs.size_hint().0.max(ITER_STEP))?;
        let progress = Progress::begin_iter(self.socket, msgs)?;
        let mut call = Call::new(self, progress);
        call.send(arena, &mut Source::new(msgs))?;
        Ok(call.progress.count)
    }

    /// Sends the datagrams of a queue.
    pub(super) fn send_queue(
        &self,
        arena: &mut MmsgBuf,
        queue: &mut SendQueue,
    ) -> io::Result<usize> {
        arena.reserve(queue.len())?;
        let mut call = Call::begin(self, queue.len())?;
        while call.progress.goes_on() {
            let before = call.progress.count;
            let result = call.send(arena, &mut Source::new(queue.stage()));
            queue.advance(call.progress.count - before);
            result?;
        }
        Ok(call.progress.count)
    }
}

/// One call: who sends, how far it has come, and what the kernel has rejected in it.
struct Call<'c> {
    offload: &'c OffloadState,
    socket: BorrowedSocket<'c>,
    progress: Progress<'c>,
    limits: Limits,
    flags: SendFlags,
}

impl<'c> Call<'c> {
    #[inline(always)]
    fn begin(sender: &OffloadRef<'c>, most: usize) -> io::Result<Self> {
        let progress = Progress::begin(sender.socket, Direction::Send, most)?;
        Ok(Self::new(sender, progress))
    }

    #[inline(always)]
    fn new(sender: &OffloadRef<'c>, progress: Progress<'c>) -> Self {
        let OffloadRef { state: offload, socket, .. } = *sender;
        // A GSO batch has one time of sending, and each datagram is to have its own.
        let gso = sender.permits_gso() && !ancillary::reports_send_times(socket);
        let limits = match gso {
            true => Limits { max_segments: offload.max_segments, ..Limits::NONE },
            false => Limits::NO_GSO,
        };
        Self { offload, socket, progress, limits, flags: SendFlags::NONE }
    }

    /// Sends the datagrams of a message that was rejected by itself, or ends with its error.
    #[cold]
    fn single_stopped(
        mut self,
        msgs: &[SendMsg<'_>],
        batch: GsoBatch,
        result: CallResult,
    ) -> io::Result<usize> {
        self.offload.counters.sent(Transferred::default(), result.calls);
        let rejected =
            result.error.as_ref().filter(|error| batch.is_segmented() && may_be_its_own(error));
        let sent = rejected.and_then(|error| {
            pool::with(|arena| {
                arena.reserve(msgs.len()).ok()?;
                self.reserve_copies(arena).ok()?;
                let mut headers = arena.send_storage().begin();
                let mut msgs = Source::new(msgs.iter());
                match wire(&mut headers, self.socket, &mut msgs, self.limits) {
                    None => Some(self.send_rejected(&mut headers, 0, error, result.reported_once)),
                    Some(_) => None,
                }
            })
        });
        sent.unwrap_or_else(|| self.progress.add(1, result))?;
        Ok(self.progress.count)
    }

    /// Whether each batch must be looked at before the kernel is offered it.
    fn looks_at_each(&self) -> bool {
        self.limits.rejected_len < usize::MAX
            || self.offload.health.any_rejects()
            || self.offload.partial.any()
    }

    /// Sends messages until there are no more or the call is over.
    #[inline(always)]
    fn send<'m, M: Outgoing<'m>>(
        &mut self,
        arena: &mut MmsgBuf,
        msgs: &mut Source<impl Messages<'m, Item = M>>,
    ) -> io::Result<()> {
        while self.progress.goes_on() && !msgs.is_empty() {
            if let Err(error) = self.reserve_copies(arena) {
                return self.progress.stop(error);
            }
            let mut headers = arena.send_storage().begin();
            if !self.looks_at_each() {
                let mut first = SingleHeader::new();
                match wire_single(&mut headers, &mut first, self.socket, msgs, &self.limits) {
                    // Again: an iterator may itself send, and meet a rejection.
                    Some(Ok(())) if msgs.is_empty() && !self.looks_at_each() => {
                        return self.send_only(&mut headers, &first);
                    }
                    Some(Ok(())) => headers.adopt(&first),
                    Some(Err(error)) => {
                        return self.progress.stop(error.after(self.progress.count));
                    }
                    None => {}
                }
            }
            let unsendable = wire(&mut headers, self.socket, msgs, self.limits);
            self.send_wired(&mut headers)?;
            if let Some(error) = unsendable.filter(|_| self.progress.goes_on()) {
                return self.progress.stop(error.after(self.progress.count));
            }
        }
        Ok(())
    }

    /// Sends the only batch that there is, by its header on the stack.
    #[inline(always)]
    fn send_only(
        &mut self,
        headers: &mut SendHeaders<'_>,
        header: &SingleHeader,
    ) -> io::Result<()> {
        let result = headers.send_single(header, self.socket, self.flags);
        let mut moved = Transferred::default();
        if result.count == 0 {
            self.offload.counters.sent(moved, result.calls);
            headers.adopt(header);
            return self.send_stopped(headers, 0, result).map(drop);
        }
        let batch = header.batch();
        moved.add(batch);
        self.offload.counters.sent(moved, result.calls);
        self.progress.add(batch.messages, CallResult::moved(batch.messages).after(result.calls))
    }

    /// Makes memory for copies of small buffers. Without GSO no buffers are joined.
    fn reserve_copies(&self, arena: &mut MmsgBuf) -> io::Result<()> {
        match self.limits.rejected_len {
            0 => Ok(()),
            _ => arena.send_storage().reserve_copies(),
        }
    }

    /// Sends what is wired.
    #[inline]
    fn send_wired(&mut self, wired: &mut SendHeaders<'_>) -> io::Result<()> {
        let mut at = 0;
        while at < wired.len() && self.progress.goes_on() {
            at += match self.looks_at_each() {
                false => self.send_whole(wired, at..wired.len())?,
                true => self.send_next(wired, at)?,
            };
        }
        Ok(())
    }

    /// Sends the next header, or as many as can go together, if some are not to be offered to the kernel as they are.
    /// Returns the number of headers that it has done with.
    #[cold]
    fn send_next(&mut self, wired: &mut SendHeaders<'_>, at: usize) -> io::Result<usize> {
        let sent = self.take_partial(wired, at);
        let is_rejected = self.is_rejected(wired, at);
        if sent > 0 || is_rejected {
            if is_rejected {
                self.offload.counters.not_offered();
            }
            return self.send_segments(wired, at, sent).result.map(|()| 1);
        }
        let end = (at + 1..wired.len()).find(|i| self.stands_alone(wired, *i));
        self.send_whole(wired, at..end.unwrap_or(wired.len()))
    }

    /// Whether a batch is not to be offered to the kernel.
    fn is_rejected(&self, wired: &SendHeaders<'_>, at: usize) -> bool {
        let (batch, health) = (wired.batch(at), &self.offload.health);
        batch.is_segmented()
            && (self.limits.reject(batch.segment)
                || (health.any_rejects() && health.rejects(dest(wired, at))))
    }

    /// Whether a batch must be looked at before it goes with others.
    fn stands_alone(&self, wired: &SendHeaders<'_>, at: usize) -> bool {
        self.is_rejected(wired, at) || (wired.batch(at).is_callers() && self.offload.partial.any())
    }

    /// Datagrams of a message with a segment size that an earlier call has sent.
    fn take_partial(&self, wired: &SendHeaders<'_>, at: usize) -> usize {
        let batch = wired.batch(at);
        if !(batch.is_callers() && self.offload.partial.any()) {
            return 0;
        }
        self.offload.partial.take(self.socket, batch.segment, &wired.memory(at))
    }

    /// Sends headers as they are, and the datagrams of one that is rejected. Returns the number of
    /// headers that it has done with.
    #[inline]
    fn send_whole(
        &mut self,
        wired: &mut SendHeaders<'_>,
        range: Range<usize>,
    ) -> io::Result<usize> {
        let offered = range.len();
        let step = wired.send(Backend::current(), self.socket, range.clone(), self.flags);
        let (mut moved, mut messages) = (Transferred::default(), 0);
        for i in range.start..range.start + step.count {
            moved.add(wired.batch(i));
            messages += wired.batch(i).messages;
        }
        self.offload.counters.sent(moved, step.calls);
        if moved.batches > 0 && self.offload.health.any_rejects() {
            self.offload.health.accept();
        }
        self.progress.add(messages, CallResult::moved(messages).after(step.calls))?;
        match step.count == offered {
            true => Ok(offered),
            false => self.send_stopped(wired, range.start + step.count, step),
        }
    }

    /// Goes on after a call that stopped at a header.
    #[cold]
    fn send_stopped(
        &mut self,
        wired: &mut SendHeaders<'_>,
        at: usize,
        step: CallResult,
    ) -> io::Result<usize> {
        let segmented = wired.batch(at).is_segmented();
        match step.error {
            Some(error) if segmented && may_be_its_own(&error) => {
                self.send_rejected(wired, at, &error, step.reported_once)?;
                Ok(step.count + 1)
            }
            error => {
                let stopped = CallResult { count: 0, calls: 0, error, ..step };
                self.progress.add(1, stopped).map(|()| step.count)
            }
        }
    }
}

/// The destination of a batch; `None` for the peer of a connected socket.
fn dest(wired: &SendHeaders<'_>, at: usize) -> Option<SocketAddr> {
    sys::socket_addr(wired.memory(at).name)
}

fn is_would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether an error is about a datagram sent before and no other.
fn is_connection_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Whether an error may be about the message or batch that met it. Not if the socket takes nothing now, nor if
/// the error is about a datagram sent before.
fn may_be_its_own(error: &io::Error) -> bool {
    !is_would_block(error) && !is_connection_refused(error)
}

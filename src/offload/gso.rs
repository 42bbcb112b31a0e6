//! Sending with GSO.
//!
//! A call offers its messages to the kernel as GSO batches. If the kernel stops at a batch, the call offers the rest
//! once more, without waiting, because `sendmmsg` hides every error but that of its first message. After a rejected
//! batch the next offer begins with its datagrams, and goes on with GSO batches.

use std::io;
use std::mem;
use std::sync::atomic::Ordering;

use super::counters::add;
use super::state::OffloadState;
use crate::arena::MmsgBuf;
use crate::events;
use crate::send::chunk::{self, CHUNK};
use crate::send::coalesce::{GsoBatch, MAX_BATCH_BYTES, Segmenting, explicit_segment_size};
use crate::send::msg::SendMsg;
use crate::sys::{self, BorrowedSocket, Dest, Flags, MAX_BATCH, Payload, Rejection, numbers};

/// How many rejected batches a call remembers.
const REMEMBERED: usize = 8;

impl OffloadState {
    /// Sends messages in order.
    ///
    /// # Errors
    ///
    /// The error of the first message, of which no datagram was sent.
    pub(super) fn send(
        &self,
        arena: &mut MmsgBuf,
        socket: BorrowedSocket<'_>,
        msgs: &[SendMsg<'_>],
    ) -> io::Result<usize> {
        let msgs = &msgs[..msgs.len().min(MAX_BATCH)];
        if msgs.is_empty() {
            return Ok(0);
        }
        let max_segments = if self.status.permits() { self.max_segments } else { 0 };
        let (tos, peer_is_v4) = (self.sends_tos(), &self.peer_is_v4);
        let segmenting = Segmenting { max_segments, tos, rejected: &[], peer_is_v4 };
        let mut call = Call { state: self, arena, socket };
        let offered = call.offer(msgs, &segmenting, Flags::NONE);
        if offered.messages == msgs.len() {
            return Ok(msgs.len());
        }
        call.go_on(msgs, segmenting, offered)
    }
}

/// One call: its socket, the socket's state, and memory for headers.
struct Call<'c> {
    state: &'c OffloadState,
    arena: &'c mut MmsgBuf,
    socket: BorrowedSocket<'c>,
}

/// The outcome of one offer.
struct Offered {
    /// The number of messages sent.
    messages: usize,
    /// Where the call stopped: at a header, or before a message for which there was none. `None` if a message is
    /// segmented in user space, before this one or now.
    next: Option<GsoBatch>,
    /// Why it stopped, reported only if nothing was sent.
    error: Option<io::Error>,
}

/// What the errors of a call change in its next offers.
struct Lessons<'m> {
    /// 0 while GSO is off.
    max_segments: usize,
    tos: bool,
    /// The last batches that the kernel rejected: their destination and segment size.
    rejected: [(Dest<'m>, usize); REMEMBERED],
    rejections: usize,
    /// A batch that met an error, while its datagrams are offered.
    pending: Option<Rejected>,
}

struct Rejected {
    error: io::Error,
    cause: Option<Rejection>,
    segment: usize,
}

impl Call<'_> {
    /// Offers messages to the kernel, and counts those it takes. A message that must be segmented in user space is sent
    /// alone.
    #[inline(always)]
    fn offer(
        &mut self,
        msgs: &[SendMsg<'_>],
        segmenting: &Segmenting<'_>,
        flags: Flags,
    ) -> Offered {
        let own_size = || explicit_segment_size(&msgs[0]).map(usize::from);
        let must_split = |size: &usize| !segmenting.permits(&msgs[0], *size);
        let is_restricted = segmenting.max_segments == 0 || !segmenting.rejected.is_empty();
        if let Some(size) = is_restricted.then(own_size).flatten().filter(must_split) {
            let sent = self.send_segments(&msgs[0], size, segmenting, flags);
            return sent.unwrap_or_else(|error| Offered {
                messages: 0,
                next: None,
                error: Some(error),
            });
        }
        let offered = self.arena.send_gso(self.socket, msgs, segmenting, flags);
        let messages = self.state.counters.sent(offered.sent);
        let unfilled = msgs.get(messages).filter(|msg| explicit_segment_size(msg).is_none());
        let next = offered.next.or_else(|| unfilled.map(|msg| GsoBatch::single(msg.len())));
        Offered { messages, next, error: offered.error }
    }

    /// Goes on after an offer of which only a part was sent, until a message fails or the socket is full.
    ///
    /// # Errors
    ///
    /// The error of the first message, of which no datagram was sent.
    #[cold]
    fn go_on<'m>(
        &mut self,
        msgs: &'m [SendMsg<'m>],
        start: Segmenting<'_>,
        mut offered: Offered,
    ) -> io::Result<usize> {
        let mut lessons = Lessons::new(start);
        let mut sent = 0;
        loop {
            sent += offered.messages;
            if offered.messages > 0 {
                self.note(&mut lessons, start);
            }
            let Some(next) = msgs.get(sent) else { return Ok(sent) };
            let flags = match (offered.error, offered.next) {
                (Some(error), batch) => match self.learn(&mut lessons, start, next, batch, error) {
                    Err(error) if sent == 0 => return Err(error),
                    Err(_) => return Ok(sent),
                    Ok(()) => Flags::NONE,
                },
                (None, _) if offered.messages == 0 => return Ok(sent),
                // The count hides the batch's error.
                (None, Some(batch)) if batch.is_segmented() => Flags::DONT_WAIT,
                (None, Some(_)) => return Ok(sent),
                (None, None) => Flags::NONE,
            };
            let Lessons { max_segments, tos, ref rejected, .. } = lessons;
            let segmenting = Segmenting { max_segments, tos, rejected, ..start };
            offered = self.offer(&msgs[sent..], &segmenting, flags);
        }
    }

    /// Changes the next offer after an error of the header that begins with `first`: a batch goes as its datagrams, and
    /// a message without its TOS.
    ///
    /// # Errors
    ///
    /// The error, if it is the message's own or about none.
    fn learn<'m>(
        &self,
        lessons: &mut Lessons<'m>,
        start: Segmenting<'_>,
        first: &SendMsg<'m>,
        header: Option<GsoBatch>,
        error: io::Error,
    ) -> io::Result<()> {
        use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
        if [WouldBlock, Interrupted, ConnectionRefused].contains(&error.kind()) {
            return Err(error);
        }
        if let Some(batch) = header.filter(GsoBatch::is_segmented) {
            // An ICMP error about another datagram may have the same number as a missing offload.
            let cause = sys::segmentation_rejected(&error).filter(|cause| {
                *cause == Rejection::Size || !sys::may_be_unrelated_icmp(self.socket, &error)
            });
            match cause {
                Some(Rejection::Unsupported) => lessons.max_segments = 0,
                _ => lessons.remember(first.dest, batch.segment),
            }
            lessons.pending = Some(Rejected { error, cause, segment: batch.segment });
            return Ok(());
        }
        let has_tos = || first.options().tos.is_some();
        if lessons.tos && sys::may_be_about_tos(&error) && has_tos() {
            // The kernel may have rejected the message's batch for its TOS, too.
            *lessons = Lessons { tos: false, ..Lessons::new(start) };
            return Ok(());
        }
        Err(error)
    }

    /// Notes what an offer has shown that took a message: why the kernel had rejected it before.
    fn note(&self, lessons: &mut Lessons<'_>, start: Segmenting<'_>) {
        if start.tos && !lessons.tos {
            self.state.rejects_tos.store(true, Ordering::Relaxed);
        }
        let Some(Rejected { error, cause: Some(cause), segment }) = lessons.pending.take() else {
            // An error of a firewall or a full queue says nothing about GSO.
            return;
        };
        let counters = &self.state.counters;
        let counter = match cause {
            Rejection::Unsupported => {
                self.state.status.reject();
                &counters.rejected_unsupported
            }
            Rejection::Size => &counters.rejected_size,
        };
        add(counter, 1);
        events::gso_rejected(&error, segment, cause == Rejection::Unsupported);
    }

    /// Sends the datagrams of a message with an explicit segment size. Once the kernel has taken one, the message counts as
    /// sent, and datagrams that are not taken are dropped.
    ///
    /// # Errors
    ///
    /// The kernel's, for what GSO does not carry: `EMSGSIZE` for too many bytes, `EINVAL` for too many segments. Else
    /// `OutOfMemory`.
    #[cold]
    fn send_segments(
        &mut self,
        msg: &SendMsg<'_>,
        size: usize,
        segmenting: &Segmenting<'_>,
        flags: Flags,
    ) -> io::Result<Offered> {
        if msg.len() > MAX_BATCH_BYTES {
            return Err(io::Error::from_raw_os_error(numbers::EMSGSIZE));
        }
        if msg.len().div_ceil(size) > numbers::MAX_EXPLICIT_SEGMENTS {
            return Err(io::Error::from_raw_os_error(numbers::EINVAL));
        }
        let mut gathered = mem::take(&mut self.arena.gathered);
        gathered.clear();
        let data = match msg.payload {
            Payload::One(data) => data,
            Payload::Many(_) => {
                gathered.try_reserve(msg.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
                msg.slices().for_each(|part| gathered.extend_from_slice(part));
                &gathered
            }
        };
        let sent = self.send_datagrams(msg, data, size, segmenting, flags);
        self.arena.gathered = gathered;
        Ok(sent)
    }

    fn send_datagrams<'m>(
        &mut self,
        msg: &SendMsg<'m>,
        data: &'m [u8],
        size: usize,
        segmenting: &Segmenting<'_>,
        flags: Flags,
    ) -> Offered {
        let mut chunk = chunk::empty();
        let (mut sent, all) = (0, data.len().div_ceil(size));
        while sent < all {
            let mut datagrams = data[sent * size..].chunks(size).map(|data| msg.segment(data));
            let datagrams = chunk::fill(&mut chunk, CHUNK, &mut datagrams);
            let offered = self.arena.send_gso(self.socket, datagrams, segmenting, flags);
            let (taken, stopped) = (self.state.counters.sent(offered.sent), offered.next);
            if taken == 0 && sent == 0 {
                return Offered { messages: 0, next: stopped, error: offered.error };
            }
            if taken == 0 {
                add(&self.state.counters.dropped, all - sent);
                return Offered { messages: 1, next: stopped, error: None };
            }
            sent += taken;
        }
        Offered { messages: 1, next: None, error: None }
    }
}

impl Lessons<'_> {
    fn new(start: Segmenting<'_>) -> Self {
        let Segmenting { max_segments, tos, .. } = start;
        let rejected = [(Dest::None, usize::MAX); REMEMBERED];
        Self { max_segments, tos, rejected, rejections: 0, pending: None }
    }
}

impl<'m> Lessons<'m> {
    /// Remembers a rejected batch in place of the oldest one.
    fn remember(&mut self, dest: Dest<'m>, segment: usize) {
        self.rejected[self.rejections % REMEMBERED] = (dest, segment);
        self.rejections += 1;
    }
}

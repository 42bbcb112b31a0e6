//! Sending with GSO.
//!
//! A call offers its messages to the kernel as GSO batches. If the kernel stops at a batch, the call offers that batch
//! once more, alone and without waiting, because `sendmmsg` hides every error but that of its first message. A batch that
//! the kernel rejects goes as its datagrams, and the rest of the call by GSO again, within [limits](Limits).

use std::io;
use std::mem;
use std::sync::atomic::Ordering;

use super::state::{MAX_PAYLOAD, OffloadState};
use crate::arena::MmsgBuf;
use crate::events;
use crate::send::chunk::{self, CHUNK};
use crate::send::coalesce::{GsoBatch, MAX_BATCH_BYTES, Segmenting, explicit_segment_size};
use crate::send::msg::SendMsg;
use crate::send::prepare::is_v4;
use crate::sys::{self, BorrowedSocket, Dest, Flags, MAX_BATCH, Payload, Rejection, numbers};

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
        let segmenting = Segmenting {
            max_segments: if self.status.permits() { self.max_segments } else { 0 },
            tos: self.sends_tos(),
            rejected: &[],
            singly_from: usize::MAX,
        };
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

/// The result of one offer.
struct Offered {
    /// The number of messages sent.
    messages: usize,
    end: End,
}

/// Where and why an offer ended.
enum End {
    /// All messages were sent.
    AllSent,
    /// The socket or the memory for copies is full, or a count hides the error of a single message.
    Full,
    /// Before a message that must be segmented in user space.
    BeforeMessage,
    /// At a batch, by a count that hides the reason.
    AtBatch(GsoBatch),
    /// The kernel rejected the first batch.
    RejectedBatch(GsoBatch, io::Error),
    /// The error of the first message, or of none: a full socket, a signal.
    OwnError(io::Error),
}

impl End {
    fn of_error(socket: BorrowedSocket<'_>, error: io::Error, header: Option<GsoBatch>) -> Self {
        use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
        // The call has been repeated for such an error already.
        let may_be_icmp = || {
            sys::segmentation_rejected(&error).is_none()
                && sys::may_be_unrelated_icmp(socket, &error)
        };
        let of_header = || {
            ![WouldBlock, Interrupted, ConnectionRefused].contains(&error.kind()) && !may_be_icmp()
        };
        match header {
            Some(batch) if batch.is_segmented() && of_header() => Self::RejectedBatch(batch, error),
            _ => Self::OwnError(error),
        }
    }
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
        let explicit_size = || explicit_segment_size(&msgs[0]).map(usize::from);
        let must_split = |size: &usize| !segmenting.permits(&msgs[0], *size);
        let is_restricted = segmenting.max_segments == 0 || !segmenting.rejected.is_empty();
        if let Some(size) = is_restricted.then(explicit_size).flatten().filter(must_split) {
            let sent = self.send_segments(&msgs[0], size, segmenting, flags);
            return sent.unwrap_or_else(|error| Offered { messages: 0, end: End::OwnError(error) });
        }
        let offered = self.arena.send_gso(self.socket, msgs, segmenting, flags);
        let messages = self.state.counters.sent(offered.sent);
        let end = match (msgs.get(messages), offered.error, offered.next) {
            (None, ..) => End::AllSent,
            (_, Some(error), header) => End::of_error(self.socket, error, header),
            _ if messages == 0 => End::Full,
            (.., Some(batch)) if batch.is_segmented() => End::AtBatch(batch),
            (Some(msg), _, None) if explicit_segment_size(msg).is_some() => End::BeforeMessage,
            _ => End::Full,
        };
        Offered { messages, end }
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
        start: Segmenting<'m>,
        mut offered: Offered,
    ) -> io::Result<usize> {
        let mut limits = Limits::new(start);
        let mut sent = 0;
        loop {
            sent += offered.messages;
            if offered.messages > 0 {
                self.record_rejection(&mut limits);
            }
            let Some(next) = msgs.get(sent) else { return Ok(sent) };
            let (mut rest, mut flags) = (&msgs[sent..], Flags::NONE);
            match offered.end {
                End::AllSent | End::BeforeMessage => {}
                End::Full => return Ok(sent),
                End::AtBatch(batch) => (rest, flags) = (&rest[..batch.messages], Flags::DONT_WAIT),
                End::RejectedBatch(batch, error) => {
                    let cause = sys::segmentation_rejected(&error);
                    limits.reject(next.dest, Rejected { error, cause, segment: batch.segment });
                }
                // The kernel may have rejected the message's batch for its TOS, too.
                End::OwnError(error) if limits.blames_tos(next, &error) => {
                    limits = Limits::new(Segmenting { tos: false, ..start });
                }
                End::OwnError(error) if sent == 0 => return Err(error),
                End::OwnError(_) => return Ok(sent),
            }
            offered = self.offer(rest, &limits.segmenting(), flags);
        }
    }

    /// Records why the kernel had rejected a batch, whose datagrams it has taken now, and whether it rejects a TOS.
    fn record_rejection(&self, limits: &mut Limits<'_>) {
        if !limits.start.tos {
            self.state.rejects_tos.store(true, Ordering::Relaxed);
        }
        // An error of a firewall or a full queue says nothing about GSO.
        let Some(Rejected { error, cause: Some(cause), segment }) = limits.unproved.take() else {
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
        counter.fetch_add(1, Ordering::Relaxed);
        events::gso_rejected(&error, segment, cause == Rejection::Unsupported);
    }

    /// Sends the datagrams of a message with an explicit segment size. Once the kernel has taken one, the message counts as
    /// sent, and datagrams that are not taken are dropped.
    ///
    /// # Errors
    ///
    /// The kernel's, for what GSO does not carry: `EMSGSIZE` for more bytes than a datagram to the same address has, `EINVAL`
    /// for too many segments. Else `OutOfMemory`.
    #[cold]
    fn send_segments(
        &mut self,
        msg: &SendMsg<'_>,
        size: usize,
        segmenting: &Segmenting<'_>,
        flags: Flags,
    ) -> io::Result<Offered> {
        // The length of an IPv6 packet does not count its header (RFC 8200), that of an IPv4 packet does (RFC 791).
        let peer_is_v4 =
            || sys::peer(self.socket).is_none_or(|peer| peer.ip().to_canonical().is_ipv4());
        let is_v4 = || is_v4(&msg.dest).unwrap_or_else(peer_is_v4);
        if msg.len() > MAX_PAYLOAD || msg.len() > MAX_BATCH_BYTES && is_v4() {
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
            let taken = self.state.counters.sent(offered.sent);
            if taken == 0 && sent == 0 {
                return Offered {
                    messages: 0,
                    end: offered.error.map_or(End::Full, End::OwnError),
                };
            }
            if taken == 0 {
                self.state.counters.unsent.fetch_add((all - sent) as u64, Ordering::Relaxed);
                return Offered { messages: 1, end: End::Full };
            }
            sent += taken;
        }
        Offered { messages: 1, end: End::AllSent }
    }
}

/// A batch that met an error.
struct Rejected {
    error: io::Error,
    cause: Option<Rejection>,
    segment: usize,
}

/// How many destinations with rejected batches a call tells apart.
const PLACES: usize = 8;

/// How many rejected batches end GSO for the rest of the call.
const MAX_REJECTIONS: usize = 2 * PLACES;

/// What goes singly in the rest of a call, because the kernel rejected a batch like it. Keeps the cost of rejections
/// near that of plain sends, for any number of destinations.
///
/// 1. Segments of at least the rejected size to the same destination.
/// 2. If more than [`PLACES`] destinations reject batches, segments of at least the smallest rejected size to any.
/// 3. Everything after [`MAX_REJECTIONS`], or after the first if the kernel has no GSO for the device.
struct Limits<'m> {
    start: Segmenting<'m>,
    /// The destinations, each with its smallest rejected size.
    places: [(Dest<'m>, usize); PLACES],
    used: usize,
    rejections: usize,
    /// The last rejected batch, until the kernel takes its datagrams.
    unproved: Option<Rejected>,
}

impl<'m> Limits<'m> {
    fn new(start: Segmenting<'m>) -> Self {
        let places = [(Dest::None, usize::MAX); PLACES];
        Self { start, places, used: 0, rejections: 0, unproved: None }
    }

    /// How the next offer sends its messages.
    fn segmenting(&self) -> Segmenting<'_> {
        Segmenting { rejected: &self.places[..self.used], ..self.start }
    }

    fn reject(&mut self, dest: Dest<'m>, rejected: Rejected) {
        let size = rejected.segment;
        self.rejections += 1;
        match self.places[..self.used].iter_mut().find(|(known, _)| *known == dest) {
            Some((_, smallest)) => *smallest = size,
            None if self.used < PLACES => {
                self.places[self.used] = (dest, size);
                self.used += 1;
            }
            None => {
                let smallest = self.places.iter().map(|(_, size)| *size).min();
                self.start.singly_from = smallest.map_or(size, |smallest| smallest.min(size));
            }
        }
        if self.rejections == MAX_REJECTIONS || rejected.cause == Some(Rejection::Unsupported) {
            self.start.max_segments = 0;
        }
        self.unproved = Some(rejected);
    }

    /// Whether the kernel may have rejected the message for its TOS.
    fn blames_tos(&self, msg: &SendMsg<'_>, error: &io::Error) -> bool {
        self.start.tos && sys::may_be_about_tos(error) && msg.meta().tos.is_some()
    }
}

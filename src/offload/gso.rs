//! Sending with GSO.
//!
//! A call offers its messages to the kernel as GSO batches. If the kernel stops at a batch, the call offers the rest
//! once more, without waiting, because `sendmmsg` hides every error but that of its first message. If the kernel
//! rejects the batch, the rest goes as single datagrams, each with its own result.

use std::io;
use std::mem;
use std::sync::atomic::Ordering;

use super::counters::add;
use super::state::OffloadState;
use crate::arena::MmsgBuf;
use crate::events;
use crate::send::coalesce::{GsoBatch, own_segment_size};
use crate::send::msg::SendMsg;
use crate::send::wire::Wiring;
use crate::sys::{self, BorrowedSocket, Payload, Rejection, SendFlags};

/// How many datagrams of a message with its own segment size are offered at once.
const SEGMENTS_PER_OFFER: usize = 64;

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
        if msgs.is_empty() {
            return Ok(0);
        }
        let mut call = Call { state: self, arena, socket };
        let (max_segments, tos) = (self.max_segments, self.sends_tos());
        let wiring = match self.status.permits() {
            true => Wiring::Gso { max_segments, tos },
            false => Wiring::Single { tos },
        };
        let Progress { mut messages, mut stopped } = call.offer(msgs, wiring, SendFlags::NONE)?;
        if let Stopped::AtBatch(None) = stopped {
            let rest = &msgs[messages..];
            let Ok(more) = call.offer(rest, wiring, SendFlags::DONT_WAIT) else {
                return Ok(messages);
            };
            (messages, stopped) = (messages + more.messages, more.stopped);
        }
        let (Stopped::AtBatch(Some(error)) | Stopped::AtMessage(Some(error))) = stopped else {
            return Ok(messages);
        };
        match call.fall_back(&msgs[messages..], wiring, error) {
            Ok(sent) => Ok(messages + sent),
            Err(error) if messages == 0 => Err(error),
            Err(_) => Ok(messages),
        }
    }
}

/// One call: its socket, the socket's state, and memory for headers.
struct Call<'c> {
    state: &'c OffloadState,
    arena: &'c mut MmsgBuf,
    socket: BorrowedSocket<'c>,
}

/// How many of the offered messages were sent, and where the kernel stopped.
struct Progress {
    messages: usize,
    stopped: Stopped,
}

/// Where the kernel stopped. It reports the error only if it stopped at the first header.
enum Stopped {
    Nowhere,
    AtMessage(Option<io::Error>),
    AtBatch(Option<io::Error>),
}

impl Call<'_> {
    /// Offers messages to the kernel, and counts those it takes. Without GSO, a message with its own segment size is
    /// sent alone.
    fn offer(
        &mut self,
        msgs: &[SendMsg<'_>],
        wiring: Wiring,
        flags: SendFlags,
    ) -> io::Result<Progress> {
        if let (Wiring::Single { .. }, Some(size)) = (wiring, own_segment_size(&msgs[0])) {
            return self.send_segments(&msgs[0], size.into(), wiring, flags);
        }
        let offered = self.arena.send_gso(self.socket, msgs, wiring, flags)?;
        let messages = self.state.counters.sent(offered.sent);
        let stopped = match offered.next {
            None => Stopped::Nowhere,
            Some(batch) if batch.is_segmented() => Stopped::AtBatch(offered.error),
            Some(_) => Stopped::AtMessage(offered.error),
        };
        Ok(Progress { messages, stopped })
    }

    /// Sends messages again after the first one, or the GSO batch that it begins, met an error: without its TOS, or all
    /// of them without GSO.
    ///
    /// # Errors
    ///
    /// The error of the first message.
    #[cold]
    fn fall_back(
        &mut self,
        msgs: &[SendMsg<'_>],
        wiring: Wiring,
        error: io::Error,
    ) -> io::Result<usize> {
        use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
        // These errors are not about a message of the call.
        if [WouldBlock, Interrupted, ConnectionRefused].contains(&error.kind()) {
            return Err(error);
        }
        let has_tos = || msgs[0].options().is_ok_and(|options| options.tos.is_some());
        if wiring.tos() && sys::may_be_about_tos(&error) && has_tos() {
            let sent = self.offer(msgs, wiring.without_tos(), SendFlags::NONE)?;
            if sent.messages > 0 {
                self.state.rejects_tos.store(true, Ordering::Relaxed);
                return Ok(sent.messages);
            }
        }
        let batch = self.arena.first_batch().filter(GsoBatch::is_segmented);
        let (Some(batch), Wiring::Gso { tos, .. }) = (batch, wiring) else { return Err(error) };
        let sent = self.offer(msgs, Wiring::Single { tos }, SendFlags::NONE)?;
        if let (0, Stopped::AtMessage(Some(error))) = (sent.messages, sent.stopped) {
            // The kernel may reject both the TOS and GSO.
            return self.fall_back(msgs, Wiring::Single { tos }, error);
        }
        self.note_rejection(batch, &error);
        Ok(sent.messages)
    }

    /// Counts a rejected batch whose datagrams the kernel takes, and turns GSO off if the path does not support it.
    fn note_rejection(&self, batch: GsoBatch, error: &io::Error) {
        let counters = &self.state.counters;
        match sys::segmentation_rejected(error) {
            // An ICMP error may have the same number.
            Some(Rejection::Unsupported) if sys::may_be_unrelated_icmp(self.socket, error) => {}
            Some(Rejection::Unsupported) => {
                self.state.status.reject();
                add(&counters.rejected_unsupported, 1);
                events::gso_rejected(error, batch.segment, true);
            }
            Some(Rejection::Size) => {
                add(&counters.rejected_size, 1);
                events::gso_rejected(error, batch.segment, false);
            }
            // An error of a firewall or a full queue says nothing about GSO.
            None => {}
        }
    }

    /// Sends the datagrams of a message with its own segment size. Once the kernel has taken one, the message counts as
    /// sent, and datagrams that are not taken are dropped.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    #[cold]
    fn send_segments(
        &mut self,
        msg: &SendMsg<'_>,
        size: usize,
        wiring: Wiring,
        flags: SendFlags,
    ) -> io::Result<Progress> {
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
        let sent = self.send_datagrams(msg, data, size, wiring, flags);
        self.arena.gathered = gathered;
        sent
    }

    fn send_datagrams<'m>(
        &mut self,
        msg: &SendMsg<'m>,
        data: &'m [u8],
        size: usize,
        wiring: Wiring,
        flags: SendFlags,
    ) -> io::Result<Progress> {
        let (mut sent, all) = (0, data.len().div_ceil(size));
        while sent < all {
            let mut row = [msg.segment(&[]); SEGMENTS_PER_OFFER];
            let mut count = 0;
            for (place, data) in row.iter_mut().zip(data[sent * size..].chunks(size)) {
                *place = msg.segment(data);
                count += 1;
            }
            let offered = self.arena.send_gso(self.socket, &row[..count], wiring, flags)?;
            let taken = self.state.counters.sent(offered.sent);
            if taken == 0 && sent == 0 {
                return Ok(Progress { messages: 0, stopped: Stopped::AtMessage(offered.error) });
            }
            if taken == 0 {
                add(&self.state.counters.dropped, all - sent);
                break;
            }
            sent += taken;
        }
        Ok(Progress { messages: 1, stopped: Stopped::Nowhere })
    }
}

//! The datagrams that a socket has received and not yet handed out.

use std::io;

use mmsg::offload::OffloadState;
use mmsg::{AsyncBatchSocket, BatchSocket, Message, RecvBatch};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Receives in a row that find a datagram at once. After them, a quiet socket looks how many more there are.
const ROW: u32 = 8;
/// Messages in a batch. Each may be coalesced from 64 datagrams.
const SLOTS: usize = 32;
/// The longest message. A slot uses the pages that a message has reached.
const SLOT_LEN: usize = 65_535;

#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) stays_quiet: bool,
    /// Plain receives that found a datagram, since one found none.
    in_a_row: u32,
    /// Without slots until there may be a burst.
    batch: RecvBatch,
    /// The message of the next datagram.
    message: usize,
    /// Where the next datagram begins in its message.
    offset: usize,
    /// Datagrams of the batches since the kernel had none.
    in_turn: usize,
}

impl Received {
    /// Counts a plain receive.
    pub(crate) fn count(&mut self, found: bool) {
        if found {
            self.in_a_row = self.in_a_row.saturating_add(1);
        } else {
            (self.in_a_row, self.in_turn) = (0, 0);
        }
    }

    /// Whether to look how many datagrams wait, before a plain receive. One peer that is answered fast makes a long row, too, of
    /// one datagram each.
    pub(crate) fn may_be_burst(&mut self) -> bool {
        if self.in_a_row < ROW || self.stays_quiet {
            return false;
        }
        self.in_a_row = 0;
        if self.batch.slots() == 0 {
            self.batch = RecvBatch::try_new(SLOTS, SLOT_LEN).unwrap_or_default();
        }
        self.batch.slots() > 0
    }

    /// Receives a batch in place of the last one, which must have been handed out. Returns the number of datagrams since the
    /// kernel had none: tasks may answer them after the last, small batch.
    ///
    /// tokio forgets that the socket is readable only while none of its datagrams is left here: if the kernel has none, or if
    /// `takes` says that the caller takes the only one. So whoever waits for readiness, by any call, finds what is left.
    pub(crate) fn fill(
        &mut self,
        socket: &UdpSocket,
        offload: Option<&OffloadState>,
        takes: bool,
    ) -> io::Result<usize> {
        let batch = &mut self.batch;
        batch.clear();
        (self.message, self.offset) = (0, 0);
        let (mut count, mut only) = (0, false);
        let result = socket.try_io(Interest::READABLE, || {
            match offload {
                Some(offload) => offload.on(socket).recv_into(batch)?,
                None => socket.batch_call(&mut |socket| socket.recv_into(batch))?,
            };
            count = batch.datagram_count();
            only = takes && count == 1 && batch.drained();
            if batch.is_empty() || only { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        count += self.in_turn;
        self.in_turn = if result.is_ok() { count } else { 0 };
        if only { Ok(count) } else { result.map(|()| count) }
    }

    /// Calls `make` with the next datagram and its message, and takes the datagram out, unless the call `peeks`.
    pub(crate) fn next<R>(
        &mut self,
        peeks: bool,
        make: impl FnOnce(&[u8], &Message<'_>) -> R,
    ) -> Option<R> {
        loop {
            let message = self.batch.message(self.message)?;
            // Slots hold any message. What is truncated is a coalesced message whose boundaries are unknown.
            if message.truncated() {
                self.message += 1;
                continue;
            }
            let rest = &message.data()[self.offset..];
            let len =
                message.meta().segment_size.map_or(rest.len(), |size| rest.len().min(size.into()));
            let (result, next) = (make(&rest[..len], &message), self.offset + len);
            if !peeks {
                let is_last = next == message.data().len();
                (self.message, self.offset) =
                    if is_last { (self.message + 1, 0) } else { (self.message, next) };
            }
            return Some(result);
        }
    }
}

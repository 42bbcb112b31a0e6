//! The progress of a call that may take several system calls.

use std::io;

use crate::engine::deferred_error;
use crate::send::msg::SendMsg;
use crate::sys::{BorrowedSocket, CallResult, Direction, RecvFlags};

/// Adds up the system calls of one batch, and decides when it ends and what becomes of an error.
#[derive(Clone)]
pub(crate) struct Progress<'s> {
    socket: BorrowedSocket<'s>,
    direction: Direction,
    /// Messages transferred.
    pub(crate) count: usize,
    /// The most messages to transfer.
    pub(crate) most: usize,
    /// System calls made.
    pub(crate) calls: usize,
    over: bool,
}

impl<'s> Progress<'s> {
    /// Begins a call for up to `most` messages.
    ///
    /// # Errors
    ///
    /// The socket's deferred error, if there is one and `most` is not 0.
    #[inline]
    pub(crate) fn begin(
        socket: BorrowedSocket<'s>,
        direction: Direction,
        most: usize,
    ) -> io::Result<Self> {
        if most > 0 {
            if let Some(error) = deferred_error::take(socket, direction) {
                return Err(error);
            }
        }
        Ok(Self { socket, direction, count: 0, most, calls: 0, over: false })
    }

    /// Begins a send from an iterator. An empty iterator leaves a deferred error in place.
    ///
    /// # Errors
    ///
    /// That of [`begin`](Self::begin); one message has then been taken from the iterator.
    #[inline]
    pub(crate) fn begin_iter<'m>(
        socket: BorrowedSocket<'s>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> io::Result<Self> {
        match Self::begin(socket, Direction::Send, usize::MAX) {
            Err(error) if msgs.next().is_none() => {
                deferred_error::defer(socket, Direction::Send, &error);
                Self::begin(socket, Direction::Send, 0)
            }
            begun => begun,
        }
    }

    /// Whether to make another system call.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        !self.over && self.count < self.most
    }

    /// The flags of a receive's next system call: only the first message is waited for.
    #[inline]
    pub(crate) fn flags(&self, flags: RecvFlags) -> RecvFlags {
        if self.count == 0 { flags } else { flags | RecvFlags::DONT_WAIT }
    }

    /// Ends the batch before a message that cannot be transferred.
    ///
    /// # Errors
    ///
    /// `error`, if no message was transferred. Otherwise the next call meets it again.
    pub(crate) fn stop(&mut self, error: io::Error) -> io::Result<()> {
        self.over = true;
        if self.count == 0 { Err(error) } else { Ok(()) }
    }

    /// Adds the result of a system call on `offered` messages.
    ///
    /// # Errors
    ///
    /// The result's error, if no message was transferred in the whole batch.
    #[inline(always)]
    pub(crate) fn add(&mut self, offered: usize, result: CallResult) -> io::Result<()> {
        self.count += result.count;
        self.calls += result.calls;
        // A short count means that no more was waiting, or an error that the system will repeat.
        self.over = result.ended || result.count < offered;
        match result.error {
            None => Ok(()),
            Some(error) if self.count == 0 => Err(error),
            Some(error) => {
                if self.would_be_lost(result.reported_once, &error) {
                    deferred_error::defer(self.socket, self.direction, &error);
                }
                Ok(())
            }
        }
    }

    /// Whether a call with the remaining messages would not meet the error again.
    #[inline(always)] // By a reference, all of `self` would be in memory.
    fn would_be_lost(&self, reported_once: bool, error: &io::Error) -> bool {
        match self.direction {
            Direction::Receive => error.kind() != io::ErrorKind::WouldBlock,
            Direction::Send => reported_once,
        }
    }
}

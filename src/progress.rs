//! How far a call has come that may take several system calls.

use std::io;

use crate::pending;
use crate::sys::{BorrowedSocket, Step};
use crate::{RecvFlags, SendMsg};

/// Which way a call moves messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Receive,
    Send,
}

/// Adds up the steps of one call, and decides when it is over and what becomes of an error.
pub(crate) struct Progress<'s> {
    socket: BorrowedSocket<'s>,
    direction: Direction,
    /// Messages moved.
    pub(crate) count: usize,
    /// Messages to be moved at most.
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
    /// The error that was kept for this socket, if there is one and the call is for any message.
    #[inline]
    pub(crate) fn begin(
        socket: BorrowedSocket<'s>,
        direction: Direction,
        most: usize,
    ) -> io::Result<Self> {
        if most > 0 {
            if let Some(error) = pending::take(socket, direction) {
                return Err(error);
            }
        }
        Ok(Self { socket, direction, count: 0, most, calls: 0, over: false })
    }

    /// Begins a send of what an iterator gives. Without messages that is no call, and the error that
    /// was kept waits for the next one.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin). One message has been taken from the iterator then.
    #[inline]
    pub(crate) fn begin_iter<'m>(
        socket: BorrowedSocket<'s>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> io::Result<Self> {
        match Self::begin(socket, Direction::Send, usize::MAX) {
            Err(error) if msgs.next().is_none() => {
                pending::keep(socket, Direction::Send, &error);
                Self::begin(socket, Direction::Send, 0)
            }
            begun => begun,
        }
    }

    /// Whether a further step is to be made.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        !self.over && self.count < self.most
    }

    /// The flags of the next step of a receive: only the first message is waited for.
    #[inline]
    pub(crate) fn flags(&self, flags: RecvFlags) -> RecvFlags {
        if self.count == 0 { flags } else { flags | RecvFlags::DONT_WAIT }
    }

    /// Ends the call before a message that cannot be moved.
    ///
    /// # Errors
    ///
    /// `error`, if no message was moved in the whole call. Otherwise the next call meets it.
    pub(crate) fn stop(&mut self, error: io::Error) -> io::Result<()> {
        self.over = true;
        if self.count == 0 { Err(error) } else { Ok(()) }
    }

    /// Adds a step that was offered `offered` messages.
    ///
    /// # Errors
    ///
    /// The step's, if no message was moved in the whole call.
    #[inline]
    pub(crate) fn add(&mut self, offered: usize, step: Step) -> io::Result<()> {
        self.count += step.count;
        self.calls += step.calls;
        // A step that moved less met an error that the system keeps, or there was no more.
        self.over = step.ended || step.count < offered;
        match step.error {
            None => Ok(()),
            Some(error) if self.count == 0 => Err(error),
            Some(error) => {
                if self.would_be_lost(step.told_once, &error) {
                    pending::keep(self.socket, self.direction, &error);
                }
                Ok(())
            }
        }
    }

    /// Whether an error would not be met again by who calls again with the messages that are left.
    fn would_be_lost(&self, told_once: bool, error: &io::Error) -> bool {
        match self.direction {
            Direction::Receive => error.kind() != io::ErrorKind::WouldBlock,
            Direction::Send => told_once,
        }
    }
}

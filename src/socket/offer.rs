//! How many messages a send that goes on past errors offers at a time.

use std::io;

use crate::send::msg::SendMsg;

/// How many messages to offer next. After an error it is one: the next message often fails, too, and one message
/// costs no more than `send_to`. Each success doubles the number.
pub(crate) struct Offer {
    count: usize,
}

impl Offer {
    /// The most datagrams of a GSO batch. An array of so many messages still fits the stack.
    pub(crate) const MOST: usize = 64;

    pub(crate) const fn new() -> Self {
        Self { count: Self::MOST }
    }

    /// The number of messages.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether the count is at its maximum again.
    pub(crate) fn is_most(&self) -> bool {
        self.count == Self::MOST
    }

    /// The first of these messages.
    pub(crate) fn of<'s, 'm>(&self, msgs: &'s [SendMsg<'m>]) -> &'s [SendMsg<'m>] {
        &msgs[..self.count.min(msgs.len())]
    }

    /// Adapts the count to the result of a send of `offered` messages. Returns how many were handled: those
    /// that were sent, or the one that failed.
    pub(crate) fn record(
        &mut self,
        offered: usize,
        result: io::Result<usize>,
        failed: impl FnOnce(io::Error),
    ) -> usize {
        match result {
            Ok(sent) if sent >= offered => {
                self.count = (2 * self.count).min(Self::MOST);
                offered
            }
            // After a short count the next message is about to fail.
            Ok(sent) => {
                self.count = 1;
                sent
            }
            Err(error) => {
                self.count = 1;
                failed(error);
                1
            }
        }
    }
}

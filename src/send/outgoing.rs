//! What a send reads its messages from: a `SendMsg`, a reference to one, or a datagram of a queue.

use std::slice;

use super::content::{InlineOptions, MsgOptions, SendBuffers};
use super::msg::SendMsg;
use crate::sys::DestRef;

/// A message that a send can read: a `SendMsg`, a reference to one, or a datagram of a queue.
pub(crate) trait Outgoing<'a> {
    /// The destination.
    fn dest(&self) -> DestRef<'_, 'a>;
    /// The payload.
    fn buffers(&self) -> SendBuffers<'a>;
    /// Options and control messages.
    fn options(&self) -> MsgOptions<'a>;
    /// The payload and the options, if the payload is one buffer and no options are behind a reference.
    fn unlent(&self) -> Option<(&'a [u8], &InlineOptions)>;
    /// Converts to a `SendMsg`.
    fn to_msg(&self) -> SendMsg<'a>;
}

impl<'a> Outgoing<'a> for SendMsg<'a> {
    #[inline]
    fn dest(&self) -> DestRef<'_, 'a> {
        self.dest_ref()
    }

    #[inline]
    fn buffers(&self) -> SendBuffers<'a> {
        self.buffers()
    }

    #[inline]
    fn options(&self) -> MsgOptions<'a> {
        self.options()
    }

    #[inline]
    fn unlent(&self) -> Option<(&'a [u8], &InlineOptions)> {
        self.unlent()
    }

    fn to_msg(&self) -> SendMsg<'a> {
        *self
    }
}

impl<'a, M: Outgoing<'a>> Outgoing<'a> for &M {
    #[inline]
    fn dest(&self) -> DestRef<'_, 'a> {
        (**self).dest()
    }

    #[inline]
    fn buffers(&self) -> SendBuffers<'a> {
        (**self).buffers()
    }

    #[inline]
    fn options(&self) -> MsgOptions<'a> {
        (**self).options()
    }

    #[inline]
    fn unlent(&self) -> Option<(&'a [u8], &InlineOptions)> {
        (**self).unlent()
    }

    fn to_msg(&self) -> SendMsg<'a> {
        (**self).to_msg()
    }
}

/// Messages in order.
pub(crate) trait Messages<'a>: Iterator<Item: Outgoing<'a>> {
    /// Takes up to `most` of the next messages, if they are known to be like the message returned last: one buffer of
    /// the same length, the same destination, the same options. Returns their payload: a whole number of such
    /// lengths, at least one, which follows that message's payload in memory.
    #[inline]
    fn take_alike(&mut self, most: usize) -> Option<&'a [u8]> {
        let _ = most;
        None
    }
}

impl<'a> Messages<'a> for slice::Iter<'_, SendMsg<'a>> {}

impl<'a> Messages<'a> for &mut dyn Iterator<Item = SendMsg<'a>> {}

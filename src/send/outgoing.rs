//! What a send reads its messages from: a `SendMsg`, a reference to one, or an entry of a queue.

use super::content::{MsgOptions, SendBuffers};
use super::msg::SendMsg;
use crate::sys::DestRef;

/// A message that a send can read: a `SendMsg`, a reference to one, or an entry of a queue.
pub(crate) trait Outgoing<'a> {
    /// The destination.
    fn dest(&self) -> DestRef<'_, 'a>;
    /// The payload.
    fn buffers(&self) -> SendBuffers<'a>;
    /// Options and control messages.
    fn options(&self) -> MsgOptions<'a>;
    /// The payload, if it is one buffer without options or control messages.
    fn plain(&self) -> Option<&'a [u8]>;
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
    fn plain(&self) -> Option<&'a [u8]> {
        self.plain()
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
    fn plain(&self) -> Option<&'a [u8]> {
        (**self).plain()
    }

    fn to_msg(&self) -> SendMsg<'a> {
        (**self).to_msg()
    }
}

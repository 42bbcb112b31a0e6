//! What a send reads its messages from: a `SendMsg`, a reference to one, or an entry of a queue.

use std::borrow::Borrow;

use super::msg::{Content, SendMsg};
use crate::sys::DestRef;

/// A message that a send can read: a `SendMsg`, a reference to one, or an entry of a queue.
pub(crate) trait Outgoing<'a> {
    /// The destination.
    fn dest(&self) -> DestRef<'_, 'a>;
    /// Payload, control messages and options.
    fn content(&self) -> impl Borrow<Content<'a>>;
    /// The payload, if it is one buffer without control messages or options.
    fn plain(&self) -> Option<&'a [u8]>;
    /// Converts to a `SendMsg`.
    fn to_msg(&self) -> SendMsg<'a>;
}

impl<'a> Outgoing<'a> for SendMsg<'a> {
    #[inline]
    fn dest(&self) -> DestRef<'_, 'a> {
        DestRef::Addr(self.dest.as_ref())
    }

    #[inline]
    fn content(&self) -> impl Borrow<Content<'a>> {
        &self.content
    }

    #[inline]
    fn plain(&self) -> Option<&'a [u8]> {
        match self.content {
            Content::Plain(data) => Some(data),
            Content::Full { .. } => None,
        }
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
    fn content(&self) -> impl Borrow<Content<'a>> {
        (**self).content()
    }

    #[inline]
    fn plain(&self) -> Option<&'a [u8]> {
        (**self).plain()
    }

    fn to_msg(&self) -> SendMsg<'a> {
        (**self).to_msg()
    }
}

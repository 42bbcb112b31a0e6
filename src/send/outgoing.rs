//! What a send reads its messages from: a `SendMsg`, a reference to one, or an entry of a queue.

use std::borrow::Borrow;
use std::net::SocketAddr;

use super::msg::{Content, SendMsg};
use crate::sys::RawAddrRef;

/// A destination, if there is one, in either form.
#[derive(Clone, Copy)]
pub(crate) enum DestRef<'m, 'a> {
    /// In the message.
    Addr(Option<&'m SocketAddr>),
    /// In memory that the message borrows.
    Ready(RawAddrRef<'a>),
}

impl DestRef<'_, '_> {
    pub(crate) fn get(self) -> Option<SocketAddr> {
        match self {
            DestRef::Addr(addr) => addr.copied(),
            DestRef::Ready(addr) => addr.get(),
        }
    }
}

/// What a send takes its messages from: by reference, by value, or out of a queue.
pub(crate) trait Outgoing<'a> {
    /// Where it goes.
    fn dest(&self) -> DestRef<'_, 'a>;
    /// What it is made of.
    fn content(&self) -> impl Borrow<Content<'a>>;
    /// Its bytes, if they are all that it is made of.
    fn plain(&self) -> Option<&'a [u8]>;
    /// As a message.
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

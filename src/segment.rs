//! Finding runs of messages that the kernel can carry as one train. No system calls here.

#![cfg_attr(one_by_one, allow(dead_code))] // No train is sent there.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::net::{IpAddr, SocketAddr};
use std::ptr;

use crate::send_msg::{Content, DestRef, Outgoing, SendBuffers};
use crate::sys::{RawAddrRef, kinds};
use crate::{CONTROL_SPACE, ControlMessages, SendMeta};

/// The most segments of a train that every kernel with `UDP_SEGMENT` takes: `UDP_MAX_SEGMENTS` in
/// include/linux/udp.h up to Linux 6.8. Later ones take 128, but none says so.
const MAX_SEGMENTS: usize = 64;
/// The largest payload of an IPv4 datagram, and so of a train before it is cut: 65,535 bytes less
/// the IP and the UDP header (RFC 791, RFC 768).
const MAX_BYTES_V4: usize = 65_535 - 20 - 8;
/// The same of IPv6, whose length field does not count its own header (RFC 8200).
const MAX_BYTES_V6: usize = 65_535 - 8;

/// What bounds the trains of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Segments of this length and longer are not joined: the kernel has refused some.
    pub(crate) refused_len: usize,
}

impl Limits {
    /// Whatever the protocol allows.
    pub(crate) const WIDEST: Self = Self { refused_len: usize::MAX };

    /// Whether a message has a segment size of its own that need not be tried.
    #[inline]
    pub(crate) fn refuse<'m>(&self, msg: &impl Outgoing<'m>) -> bool {
        match msg.content().borrow() {
            Content::Plain(_) => false,
            Content::Full { meta, .. } => {
                meta.segment_size.is_some_and(|size| usize::from(size) >= self.refused_len)
            }
        }
    }
}

/// Messages that follow one another and can go as one: to one destination, with the same wishes
/// and control messages, each as long as the first but the last, which may be shorter, and none
/// of them empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'m> {
    dest: Dest<'m>,
    /// `None` for plain messages.
    wishes: Option<(SendMeta, &'m [u8])>,
    /// Length of each message but the last.
    segment: usize,
    bytes: usize,
    count: usize,
    /// Bytes that further messages may have together. 0 once no further one can follow.
    room: usize,
}

/// A destination to compare others with.
#[derive(Clone, Copy, Debug)]
enum Dest<'m> {
    Addr(Option<SocketAddr>),
    Ready(RawAddrRef<'m>),
}

impl<'m> Dest<'m> {
    #[inline]
    fn new(dest: DestRef<'_, 'm>) -> Self {
        match dest {
            DestRef::Addr(addr) => Self::Addr(addr.copied()),
            DestRef::Ready(addr) => Self::Ready(addr),
        }
    }

    /// A slice of messages has its destinations in one form, a queue in the other.
    #[inline]
    fn is(&self, other: DestRef<'_, '_>) -> bool {
        match (self, other) {
            (Self::Addr(one), DestRef::Addr(other)) => one.as_ref() == other,
            (Self::Ready(one), DestRef::Ready(other)) => one.same(other),
            _ => false,
        }
    }

    fn get(&self) -> Option<SocketAddr> {
        match self {
            Self::Addr(addr) => *addr,
            Self::Ready(addr) => addr.get(),
        }
    }
}

impl<'m> Run<'m> {
    /// A run of one message, whatever it is; others may follow it only if it is of the right kind.
    #[inline]
    pub(crate) fn start(msg: &impl Outgoing<'m>, limits: Limits) -> Self {
        let content = msg.content();
        let content = content.borrow();
        let (bytes, wishes, joins) = match *content {
            Content::Plain(data) => (data.len(), None, true),
            Content::Full { meta, control, .. } => {
                let data = content.one_buffer();
                // What has a segment size is a train already; and a further control message must
                // fit behind the others.
                let joins = data.is_some()
                    && meta.segment_size.is_none()
                    && control.len() <= CONTROL_SPACE / 2
                    && !has_segment_size(control);
                (content.len(), Some((meta, control)), joins)
            }
        };
        let joins = joins && bytes > 0 && bytes < limits.refused_len;
        let dest = Dest::new(msg.dest());
        let room = if joins { max_bytes(dest.get()).saturating_sub(bytes) } else { 0 };
        Self { dest, wishes, segment: bytes, bytes, count: 1, room }
    }

    /// Counts in as many of the next messages as can go in the same train, and hands the bytes of
    /// each to `each`. Gives the message that comes after them.
    #[inline]
    pub(crate) fn join<M: Outgoing<'m>>(
        &mut self,
        msgs: &mut impl Iterator<Item = M>,
        mut each: impl FnMut(&'m [u8]),
    ) -> Option<M> {
        let mut next = match self.wishes {
            None => self.join_alike(msgs, &mut each, |msg| msg.plain()),
            Some(wishes) => self.join_alike(msgs, &mut each, |msg| wishful(msg, &wishes)),
        };
        while let Some(data) = next.as_ref().and_then(|msg| self.take(msg)) {
            each(data);
            next = msgs.next();
        }
        next
    }

    /// Counts in what `data_of` gives the bytes of: messages with the run's wishes.
    #[inline(always)]
    fn join_alike<M: Outgoing<'m>>(
        &mut self,
        msgs: &mut impl Iterator<Item = M>,
        each: &mut impl FnMut(&'m [u8]),
        data_of: impl Fn(&M) -> Option<&'m [u8]>,
    ) -> Option<M> {
        // One loop for each form of destination, so that it need not look which one it is.
        match self.dest {
            Dest::Addr(Some(SocketAddr::V4(to))) => self.join_equal(
                msgs,
                each,
                data_of,
                |dest| matches!(dest, DestRef::Addr(Some(SocketAddr::V4(dest))) if *dest == to),
            ),
            Dest::Addr(Some(SocketAddr::V6(to))) => self.join_equal(
                msgs,
                each,
                data_of,
                |dest| matches!(dest, DestRef::Addr(Some(SocketAddr::V6(dest))) if *dest == to),
            ),
            Dest::Ready(to) => self.join_equal(
                msgs,
                each,
                data_of,
                |dest| matches!(dest, DestRef::Ready(dest) if dest.same(to)),
            ),
            to @ Dest::Addr(None) => self.join_equal(msgs, each, data_of, |dest| to.is(dest)),
        }
    }

    /// What most trains are: messages of one length. Little is looked at for each of them, and
    /// nothing is kept but what is left to be had.
    #[inline(always)]
    fn join_equal<M: Outgoing<'m>>(
        &mut self,
        msgs: &mut impl Iterator<Item = M>,
        each: &mut impl FnMut(&'m [u8]),
        data_of: impl Fn(&M) -> Option<&'m [u8]>,
        is_dest: impl Fn(DestRef<'_, '_>) -> bool,
    ) -> Option<M> {
        let segment = self.segment;
        let most = self.room.checked_div(segment).unwrap_or(0).min(MAX_SEGMENTS - 1);
        let mut left = most;
        let next = loop {
            let Some(msg) = msgs.next() else { break None };
            match data_of(&msg) {
                Some(data) if data.len() == segment && left > 0 && is_dest(msg.dest()) => {
                    each(data);
                    left -= 1;
                }
                _ => break Some(msg),
            }
        };
        let joined = most - left;
        self.count += joined;
        self.bytes += joined * segment;
        self.room -= joined * segment;
        if self.count == MAX_SEGMENTS {
            self.room = 0;
        }
        next
    }

    /// Counts the next message in, if it can go in the same train, and gives its bytes then.
    fn take(&mut self, msg: &impl Outgoing<'m>) -> Option<&'m [u8]> {
        let data = match &self.wishes {
            None => msg.plain()?,
            Some(wishes) => wishful(msg, wishes)?,
        };
        let len = data.len();
        let fits = len <= self.segment && len <= self.room && len > 0;
        if !fits || !self.dest.is(msg.dest()) {
            return None;
        }
        self.count += 1;
        self.bytes += len;
        let over = len < self.segment || self.count == MAX_SEGMENTS;
        self.room = if over { 0 } else { self.room - len };
        Some(data)
    }

    /// Messages in it.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Length of each message but the last, which may be shorter.
    pub(crate) fn segment(&self) -> usize {
        self.segment
    }

    /// Length of all together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where all of it goes.
    pub(crate) fn dest(&self) -> Option<SocketAddr> {
        self.dest.get()
    }

    /// Whether its messages ask for nothing and have no control messages.
    pub(crate) fn is_plain(&self) -> bool {
        self.wishes.is_none()
    }

    /// The segment size that its only message had from the caller.
    pub(crate) fn own_segment_size(&self) -> Option<u16> {
        self.wishes.and_then(|(meta, _)| meta.segment_size)
    }

    /// What the train must ask the kernel for, so that it is cut where its messages end, and the
    /// control messages to go with it.
    pub(crate) fn wishes(&self) -> (SendMeta, &'m [u8]) {
        let (mut meta, control) = self.wishes.unwrap_or((SendMeta::new(), &[]));
        // A train of two or more has segments that fit a datagram.
        meta.segment_size = u16::try_from(self.segment).ok();
        (meta, control)
    }
}

/// The bytes of a message, if it has these wishes and control messages.
#[inline(always)]
fn wishful<'m>(msg: &impl Outgoing<'m>, wishes: &(SendMeta, &[u8])) -> Option<&'m [u8]> {
    match msg.content().borrow() {
        Content::Full { buffers: SendBuffers::One(data), control, meta }
            if *meta == wishes.0 && same_bytes(control, wishes.1) =>
        {
            Some(*data)
        }
        _ => None,
    }
}

/// Equality, quick for the two that are mostly equal: none at all, and the very same bytes.
#[inline(always)]
fn same_bytes(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && (one.is_empty() || ptr::eq(one, other) || one == other)
}

/// Whether the caller's own control messages say where the kernel is to cut: the last one that it
/// finds counts (udp_cmsg_send in net/ipv4/udp.c).
fn has_segment_size(control: &[u8]) -> bool {
    ControlMessages::new(control).any(|message| (message.level, message.kind) == kinds::SEGMENT)
}

/// The most bytes that a train to `dest` can have. Of a connected socket's peer, the family is
/// not known here.
#[inline]
fn max_bytes(dest: Option<SocketAddr>) -> usize {
    match dest.map(|dest| dest.ip()) {
        Some(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none() => MAX_BYTES_V6,
        _ => MAX_BYTES_V4,
    }
}

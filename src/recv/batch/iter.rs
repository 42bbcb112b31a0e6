//! Iterators over the messages and the datagrams of a batch.

use std::fmt;
use std::iter::{FusedIterator, Zip};
use std::slice;

use super::contents::Contents;
use crate::ancillary::RecvMeta;
use crate::recv::datagram::Datagram;
use crate::recv::envelope::Envelope;
use crate::recv::in_place::{DatagramMut, DatagramsMut, MessageMut};
use crate::recv::message::Message;
use crate::recv::received::{Missing, describe};
use crate::recv::scattered::Parts;
use crate::recv::split::Segments;
use crate::sys::{SlotIter, SlotIterMut};

/// Iterates over the messages in a [`RecvBatch`](crate::RecvBatch).
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// let bytes: usize = batch.messages().map(|message| message.len()).sum();
/// assert_eq!(bytes, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    contents: &'a Contents,
    next: usize,
}

impl<'a> Messages<'a> {
    pub(super) fn new(contents: &'a Contents) -> Self {
        Self { contents, next: 0 }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Message<'a>> {
        let message = self.contents.message(self.next);
        self.next += usize::from(message.is_some());
        message
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.contents.len - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Messages<'_> {}
impl FusedIterator for Messages<'_> {}

/// Iterates over the datagrams in a [`RecvBatch`](crate::RecvBatch), one segment of a coalesced message at a time.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// let whole = batch.iter().filter(|d| !d.truncated()).count();
/// assert_eq!(whole, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Iter<'a> {
    contents: &'a Contents,
    /// Set if every message is a single whole datagram; the other fields are unused then.
    singles: Option<Zip<SlotIter<'a>, slice::Iter<'a, RecvMeta>>>,
    next: usize,
    /// Remaining segments of the message in the slot before `next`.
    segments: Option<Segments<'a>>,
}

impl<'a> Iter<'a> {
    #[inline]
    pub(super) fn new(contents: &'a Contents) -> Self {
        Self { contents, singles: contents.singles(), next: 0, segments: None }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Datagram<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Datagram<'a>> {
        // Loop-invariant: the compiler unswitches the loop.
        if let Some(singles) = &mut self.singles {
            let ((payload, row), meta) = singles.next()?;
            let result = row.result();
            let parts = Parts::one(&payload[..payload.len().min(result.len)]);
            // Sockets without metadata pay for one comparison.
            let meta = if result.control_len > 0 { meta } else { &RecvMeta::NONE };
            let envelope = Envelope::new(row.source(), meta, &[]);
            return Some(Datagram::new(parts, envelope, Missing::NOTHING));
        }
        if let Some(datagram) = self.segments.as_mut().and_then(Segments::next) {
            return Some(datagram);
        }
        let (datagram, next, segments) = self.contents.any_datagram(self.next)?;
        (self.next, self.segments) = (next, Some(segments));
        Some(datagram)
    }
}

impl FusedIterator for Iter<'_> {}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contents, next, segments, .. } = self;
        f.debug_struct("Iter")
            .field("contents", contents)
            .field("next", next)
            .field("segments", &segments.as_ref().map_or(0, Segments::len))
            .finish_non_exhaustive()
    }
}

/// Iterates over the messages in a [`RecvBatch`](crate::RecvBatch), whose bytes may be changed in place.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// batch.messages_mut().for_each(|mut message| message.data_mut().fill(0));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct MessagesMut<'a> {
    slots: Zip<SlotIterMut<'a>, slice::Iter<'a, RecvMeta>>,
    filled: bool,
}

impl<'a> MessagesMut<'a> {
    pub(super) fn new(contents: &'a mut Contents) -> Self {
        let filled = contents.filled;
        Self { slots: contents.iter_mut(), filled }
    }
}

impl<'a> Iterator for MessagesMut<'a> {
    type Item = MessageMut<'a>;

    #[inline]
    fn next(&mut self) -> Option<MessageMut<'a>> {
        let ((payload, row), meta) = self.slots.next()?;
        let has_meta = self.filled || row.result().control_len > 0;
        let (received, envelope) = describe(row, if has_meta { meta } else { &RecvMeta::NONE });
        let len = payload.len().min(received.reported);
        Some(MessageMut::new(&mut payload[..len], received, envelope))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for MessagesMut<'_> {}
impl FusedIterator for MessagesMut<'_> {}

impl fmt::Debug for MessagesMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessagesMut").field("left", &self.slots.size_hint().0).finish()
    }
}

/// Iterates over the datagrams in a [`RecvBatch`](crate::RecvBatch), whose bytes may be changed in place.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// batch.iter_mut().for_each(|mut d| d.data_mut().fill(0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct IterMut<'a> {
    messages: MessagesMut<'a>,
    /// Remaining datagrams of the message before.
    datagrams: Option<DatagramsMut<'a>>,
}

impl<'a> IterMut<'a> {
    pub(super) fn new(contents: &'a mut Contents) -> Self {
        Self { messages: MessagesMut::new(contents), datagrams: None }
    }
}

impl<'a> Iterator for IterMut<'a> {
    type Item = DatagramMut<'a>;

    #[inline]
    fn next(&mut self) -> Option<DatagramMut<'a>> {
        loop {
            if let Some(datagram) = self.datagrams.as_mut().and_then(Iterator::next) {
                return Some(datagram);
            }
            self.datagrams = Some(self.messages.next()?.into_datagrams_mut());
        }
    }
}

impl FusedIterator for IterMut<'_> {}

//! A received message, and the iterators that split it into its datagrams.

use std::fmt;
use std::iter::FusedIterator;
use std::mem;

use crate::recv::datagram::{Datagram, DatagramMut, Origin, accessors, debug_without_payload};
use crate::sys::{ControlMessages, RecvResult, numbers};

/// A received message: a single datagram or a coalesced message, with its metadata.
///
/// [`RecvBatch::messages`](crate::RecvBatch::messages) yields them, and
/// [`recv_slices`](crate::BatchSocket::recv_slices) passes one for each buffer that it fills.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for message in batch.messages() {
///     println!("{} datagrams from {:?}", message.datagrams().count(), message.addr());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Message<'a> {
    data: &'a [u8],
    truncation: Truncation,
    origin: Origin<'a>,
    control: &'a [u8],
}

impl<'a> Message<'a> {
    /// The message that a receive left in `buffer`.
    #[inline(always)]
    pub(crate) fn new(
        buffer: &'a [u8],
        result: &RecvResult,
        origin: Origin<'a>,
        control: &'a [u8],
    ) -> Self {
        let data = &buffer[..result.len.min(buffer.len())];
        Self { data, truncation: Truncation::of(result, &origin), origin, control }
    }

    /// Sets whether `data` has all that was received, and not only the part in the first of several buffers.
    #[inline(always)]
    pub(super) fn with_all(mut self, has_all: bool) -> Self {
        self.truncation.is_part = !has_all;
        self
    }

    accessors!();

    /// The bytes received.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether bytes are missing at the end, because the buffer was too short. Where the system coalesces datagrams,
    /// a message from an Internet address also counts as truncated if its control data was truncated and holds no
    /// segment size: its datagram boundaries may be lost.
    #[doc(alias = "MSG_TRUNC")]
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.truncation.truncated()
    }

    /// The datagrams in the message: one, or the segments of a coalesced message (see [`Datagrams`]).
    #[must_use]
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'a> {
        Datagrams::new(self.data, self.truncation, self.origin)
    }

    /// Whether control messages were lost because their buffer was too small.
    #[must_use]
    pub fn control_truncated(&self) -> bool {
        self.truncation.control
    }

    /// All control messages; of a [`RecvMsg`](crate::RecvMsg) those that it [keeps](crate::RecvMsg::with_control). Received
    /// descriptors are closed, and their numbers read as -1.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// Ancillary::TIMESTAMP.require(&socket)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// socket.recv_into(&mut batch)?;
    /// for message in batch.messages() {
    ///     for control in message.control_messages() {
    ///         println!("level {}, type {}: {} bytes", control.level, control.ty, control.data.len());
    ///     }
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn control_messages(&self) -> ControlMessages<'a> {
        ControlMessages::new(self.control)
    }
}

debug_without_payload!(Message);

/// What a message lacks.
#[derive(Clone, Copy)]
struct Truncation {
    /// Payload at its end (`MSG_TRUNC`).
    data: bool,
    /// Control messages (`MSG_CTRUNC`).
    control: bool,
    /// The datagram boundaries, because the segment size may be among the lost control messages.
    boundaries: bool,
    /// Payload in other buffers: the message is whole, its datagram here is not.
    is_part: bool,
}

impl Truncation {
    #[inline]
    fn of(result: &RecvResult, origin: &Origin<'_>) -> Self {
        let (data, control) = (result.truncated, result.control_truncated);
        Self { data, control, boundaries: control && may_be_coalesced(origin), is_part: false }
    }

    #[inline]
    fn truncated(self) -> bool {
        self.data || self.boundaries
    }
}

/// Whether a message without a segment size may be coalesced: only Internet sockets do that, and their messages have a
/// source.
#[cold]
fn may_be_coalesced(origin: &Origin<'_>) -> bool {
    let has_size = origin.meta.segment_size.is_some();
    numbers::GRO.is_some() && !has_size && origin.source.get().is_some()
}

/// Iterates over the datagrams of one message: a single one, or each segment of a coalesced message.
///
/// A truncated message yields its whole datagrams, then the received part of the next one, marked
/// [`truncated`](Datagram::truncated) even if that part is empty. A message whose segment size was lost yields one
/// empty truncated datagram, since its datagram boundaries are unknown; the message itself has the bytes.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// let message = batch.message(0).expect("one came");
/// assert_eq!(message.datagrams().map(|d| d.len()).sum::<usize>(), message.len());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Datagrams<'a> {
    /// The bytes not yielded yet.
    rest: &'a [u8],
    origin: Origin<'a>,
    split: Split,
}

impl<'a> Datagrams<'a> {
    /// An empty iterator.
    pub(crate) const NONE: Self = Self { rest: &[], origin: Origin::NONE, split: Split::NONE };

    #[inline]
    fn new(data: &'a [u8], truncation: Truncation, origin: Origin<'a>) -> Self {
        let rest = if truncation.boundaries { &[] } else { data };
        Self { rest, origin, split: Split::new(truncation, &origin) }
    }
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    #[inline]
    fn next(&mut self) -> Option<Datagram<'a>> {
        let (len, truncated) = self.split.next(self.rest.len())?;
        let (data, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(Datagram { data, origin: self.origin, truncated })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.split.count(self.rest.len());
        (left, Some(left))
    }
}

impl ExactSizeIterator for Datagrams<'_> {}
impl FusedIterator for Datagrams<'_> {}

/// Shows the datagrams to come.
impl fmt::Debug for Datagrams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// Iterates over the datagrams of one message, mutable.
///
/// Like [`Datagrams`], it yields a [`truncated`](DatagramMut::truncated) datagram where bytes are missing.
pub(crate) struct DatagramsMut<'a> {
    /// The bytes not yielded yet.
    rest: &'a mut [u8],
    origin: Origin<'a>,
    split: Split,
}

impl<'a> DatagramsMut<'a> {
    #[inline]
    pub(crate) fn new(buffer: &'a mut [u8], result: &RecvResult, origin: Origin<'a>) -> Self {
        let truncation = Truncation::of(result, &origin);
        let len = if truncation.boundaries { 0 } else { result.len.min(buffer.len()) };
        Self { rest: &mut buffer[..len], origin, split: Split::new(truncation, &origin) }
    }
}

impl<'a> Iterator for DatagramsMut<'a> {
    type Item = DatagramMut<'a>;

    #[inline]
    fn next(&mut self) -> Option<DatagramMut<'a>> {
        let (len, truncated) = self.split.next(self.rest.len())?;
        let (data, rest) = mem::take(&mut self.rest).split_at_mut(len);
        self.rest = rest;
        Some(DatagramMut { data, origin: self.origin, truncated })
    }
}

/// Where a message is split into its datagrams.
#[derive(Clone, Copy, Debug)]
struct Split {
    /// Whether another datagram follows; an empty message yields one.
    more: bool,
    /// Length of each segment but the last.
    segment: usize,
    /// Whether bytes are missing at the message's end: its last datagram is then incomplete or empty.
    truncated: bool,
}

impl Split {
    /// Nothing follows.
    const NONE: Self = Self { more: false, segment: 0, truncated: false };

    #[inline]
    fn new(truncation: Truncation, origin: &Origin<'_>) -> Self {
        let segment = match origin.meta.segment_size {
            Some(size @ 1..) => size.into(),
            _ => usize::MAX,
        };
        Self { more: true, segment, truncated: truncation.truncated() || truncation.is_part }
    }

    /// The length of the next datagram, if `left` bytes are left, and whether it is truncated.
    #[inline(always)]
    fn next(&mut self, left: usize) -> Option<(usize, bool)> {
        if !self.more {
            return None;
        }
        let len = self.segment.min(left);
        // In a truncated message another datagram follows a whole segment even if no bytes are left.
        self.more = left > len || (self.truncated && len == self.segment);
        Some((len, self.truncated && !self.more))
    }

    /// The number of datagrams to come, if `left` bytes are left.
    #[inline]
    fn count(&self, left: usize) -> usize {
        match (self.more, self.truncated) {
            (false, _) => 0,
            (true, false) => left.div_ceil(self.segment).max(1),
            (true, true) => left / self.segment + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ancillary::RecvMeta;
    use crate::sys::{RawAddr, encode_addr};
    use proptest::prelude::*;

    /// A message of all `bytes`, from an Internet address.
    fn check(
        bytes: &[u8],
        segment_size: Option<u16>,
        (truncated, control_truncated): (bool, bool),
        check: impl FnOnce(Message<'_>, RecvResult, Origin<'_>),
    ) {
        let result = RecvResult {
            truncated,
            control_truncated,
            ..RecvResult::of(bytes.len(), bytes.len(), 0)
        };
        let mut name = RawAddr::NO_NAME;
        let len = encode_addr(&([127, 0, 0, 1], 53).into(), &mut name);
        let meta = RecvMeta { segment_size, ..RecvMeta::NONE };
        let origin = Origin { source: RawAddr::new(&name, len), meta: &meta };
        check(Message::new(bytes, &result, origin, &[]), result, origin);
    }

    type Plain = Vec<(Vec<u8>, bool)>;

    fn plain<'a>(datagrams: impl Iterator<Item = Datagram<'a>>) -> Plain {
        datagrams.map(|datagram| (datagram.data().to_vec(), datagram.truncated())).collect()
    }

    proptest! {
        #[test]
        fn a_coalesced_message_is_split_as_chunks_are(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            segment in 1u16..50,
            truncated in any::<bool>(),
        ) {
            let mut naive: Plain =
                bytes.chunks(segment.into()).map(|c| (c.to_vec(), false)).collect();
            // The truncated datagram is empty if the bytes end with a whole segment.
            if naive.last().is_none_or(|(d, _)| truncated && d.len() == usize::from(segment)) {
                naive.push((Vec::new(), false));
            }
            naive.last_mut().expect("never empty").1 = truncated;

            check(&bytes, Some(segment), (truncated, false), |message, result, origin| {
                let mut datagrams = message.datagrams();
                assert_eq!(plain(datagrams.clone()), naive);
                for left in (0..=naive.len()).rev() {
                    assert_eq!(datagrams.len(), left);
                    datagrams.next();
                }
                let mut copy = bytes.clone();
                let changeable = DatagramsMut::new(&mut copy, &result, origin);
                assert_eq!(plain(changeable.map(DatagramMut::into_datagram)), naive);
            });
        }
    }

    /// Only a message that may be coalesced, and whose segment size is missing, has unknown boundaries.
    #[cfg(linux_like)] // Elsewhere no message loses its segment size by truncated control data.
    #[test]
    fn datagram_boundaries_are_unknown_only_without_the_segment_size() {
        for (control, size, lost) in
            [(true, None, true), (true, Some(7), false), (false, None, false)]
        {
            check(b"abcd", size, (false, control), |message, result, origin| {
                assert_eq!((message.truncated(), message.control_truncated()), (lost, control));
                let whole = if lost { (Vec::new(), true) } else { (b"abcd".to_vec(), false) };
                assert_eq!(plain(message.datagrams()), [whole]);
                assert_eq!((message.datagrams().len(), message.data()), (1, &b"abcd"[..]));
                // Without a source it is from another family, which coalesces nothing.
                let mut buffer = *b"abcd";
                let shown = DatagramsMut::new(&mut buffer, &result, origin);
                assert_eq!(shown.map(|d| d.len()).sum::<usize>(), if lost { 0 } else { 4 });
                let other = Message::new(b"abcd", &result, Origin::NONE, &[]);
                assert_eq!((other.truncated(), other.control_truncated()), (false, control));
            });
        }
    }
}

//! A message split into its datagrams.

use std::iter::FusedIterator;
use std::mem;
use std::num::NonZero;

use crate::recv::datagram::{Datagram, DatagramMut, Message};
use crate::recv::envelope::Envelope;
use crate::recv::received::{Missing, Received};
use crate::recv::scattered::Parts;

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
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    /// The bytes not yielded yet.
    rest: Parts<'a>,
    envelope: Envelope<'a>,
    split: Split,
}

/// Where a message is split into its datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    /// Whether another datagram follows; an empty message yields one.
    more: bool,
    /// Length of each segment but the last.
    segment: usize,
    /// The bytes missing at the message's end: if any are, its last datagram is incomplete or empty.
    missing: Missing,
}

impl Split {
    /// Returns the split of a message, and how many of its bytes to split: 0 if the datagram boundaries are unknown.
    #[inline]
    pub(crate) fn new(received: &Received, len: usize) -> (Self, usize) {
        let segment = received.segment_size.map_or(usize::MAX, NonZero::get);
        let split = Self { more: true, segment, missing: received.missing(len) };
        (split, if received.truncation.segment_size { 0 } else { len })
    }

    /// The length of the next datagram, if `left` bytes are left, and the bytes missing from it.
    #[inline(always)]
    pub(crate) fn next(&mut self, left: usize) -> Option<(usize, Missing)> {
        if !self.more {
            return None;
        }
        let len = self.segment.min(left);
        // In a truncated message another datagram follows a whole segment even if no bytes are left.
        let is_truncated = self.missing.is_truncated();
        self.more = left > len || (is_truncated && len == self.segment);
        let ends = is_truncated && !self.more;
        let missing =
            if ends { self.missing.of_last_segment(len, self.segment) } else { Missing::NOTHING };
        Some((len, missing))
    }

    /// The number of datagrams to come, if `left` bytes are left.
    #[inline]
    pub(crate) fn count(&self, left: usize) -> usize {
        match (self.more, self.missing.is_truncated()) {
            (false, _) => 0,
            (true, false) => left.div_ceil(self.segment).max(1),
            (true, true) => left / self.segment + 1,
        }
    }
}

impl<'a> Message<'a> {
    /// The datagrams in the message: one, or the segments of a coalesced message (see [`Datagrams`]).
    #[must_use]
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'a> {
        Datagrams::new(self.parts, &self.received, self.envelope)
    }
}

impl<'a> Datagrams<'a> {
    /// An empty iterator.
    pub(crate) const NONE: Self = Self {
        rest: Parts::NONE,
        envelope: Envelope::NONE,
        split: Split { more: false, segment: 0, missing: Missing::NOTHING },
    };

    #[inline]
    pub(crate) fn new(parts: Parts<'a>, received: &Received, envelope: Envelope<'a>) -> Self {
        let (split, len) = Split::new(received, parts.len());
        let rest = if len == 0 { Parts::NONE } else { parts };
        Self { rest, envelope, split }
    }
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    #[inline]
    fn next(&mut self) -> Option<Datagram<'a>> {
        // The common case: more bytes follow in the same buffer, so that this datagram is whole.
        if let Some(parts) = self.rest.split_within(self.split.segment) {
            return Some(Datagram::new(parts, self.envelope, Missing::NOTHING));
        }
        let (len, missing) = self.split.next(self.rest.len())?;
        let parts = self.rest.split_to(len);
        Some(Datagram::new(parts, self.envelope, missing))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.split.count(self.rest.len());
        (left, Some(left))
    }
}

impl ExactSizeIterator for Datagrams<'_> {}
impl FusedIterator for Datagrams<'_> {}

/// Iterates over the datagrams of one message, mutable.
///
/// Like [`Datagrams`], it yields a [`truncated`](DatagramMut::truncated) datagram where bytes are missing.
pub(crate) struct DatagramsMut<'a> {
    /// The bytes not yielded yet.
    rest: &'a mut [u8],
    envelope: Envelope<'a>,
    split: Split,
}

impl<'a> DatagramsMut<'a> {
    #[inline]
    pub(crate) fn new(data: &'a mut [u8], received: &Received, envelope: Envelope<'a>) -> Self {
        let (split, len) = Split::new(received, data.len());
        Self { rest: &mut data[..len], envelope, split }
    }
}

impl<'a> Iterator for DatagramsMut<'a> {
    type Item = DatagramMut<'a>;

    #[inline]
    fn next(&mut self) -> Option<DatagramMut<'a>> {
        let (len, missing) = self.split.next(self.rest.len())?;
        let (data, rest) = mem::take(&mut self.rest).split_at_mut(len);
        self.rest = rest;
        Some(DatagramMut::new(data, self.envelope, missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ancillary::RecvMeta;
    use crate::recv::received::Truncation;
    use crate::sys::RawAddr;
    use proptest::prelude::*;

    fn envelope() -> Envelope<'static> {
        static NOWHERE: RawAddr = RawAddr::NONE;
        Envelope::new(NOWHERE.lend(), &RecvMeta::NONE)
    }

    fn message(bytes: &[u8], received: Received) -> Message<'_> {
        Message::new(Parts::one(bytes), received, envelope(), &[])
    }

    fn received(len: usize, segment_size: Option<u16>, truncation: Truncation) -> Received {
        let segment_size = segment_size.and_then(|size| NonZero::new(size.into()));
        Received { reported: len, segment_size, truncation }
    }

    fn truncation(data: bool) -> Truncation {
        Truncation { data, ..Truncation::NONE }
    }

    type Plain = Vec<(Vec<u8>, bool)>;

    fn plain<'a>(datagrams: impl Iterator<Item = Datagram<'a>>) -> Plain {
        datagrams.map(|d| (d.slices().collect::<Vec<_>>().concat(), d.truncated())).collect()
    }

    proptest! {
        #[test]
        fn d19_a_coalesced_message_is_split_as_chunks_are(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            segment in 1u16..50,
            buffer in 1usize..70,
            truncated in any::<bool>(),
        ) {
            let received = received(bytes.len(), Some(segment), truncation(truncated));
            let mut naive: Plain =
                bytes.chunks(segment.into()).map(|c| (c.to_vec(), false)).collect();
            // The truncated datagram is empty if the bytes end with a whole segment.
            if naive.last().is_none_or(|(d, _)| truncated && d.len() == usize::from(segment)) {
                naive.push((Vec::new(), false));
            }
            naive.last_mut().expect("never empty").1 = truncated;

            let whole = message(&bytes, received);
            prop_assert_eq!(whole.datagrams().len(), naive.len());
            prop_assert_eq!(plain(whole.datagrams()), naive.clone());
            let mut copy = bytes.clone();
            let changeable = DatagramsMut::new(&mut copy, &received, envelope());
            prop_assert_eq!(plain(changeable.map(DatagramMut::into_datagram)), naive.clone());

            let slices: Vec<_> = bytes.chunks_mut(buffer).map(std::io::IoSliceMut::new).collect();
            let parts = Parts::many(&slices, received.reported);
            let mut scattered = Datagrams::new(parts, &received, envelope());
            prop_assert_eq!(plain(scattered.clone()), naive.clone());
            for left in (0..naive.len()).rev() {
                scattered.next();
                prop_assert_eq!(scattered.len(), left);
            }
        }
    }

    #[test]
    fn d19_a_message_without_its_segment_size_gives_an_empty_truncated_datagram() {
        let lost = Truncation { control: true, segment_size: true, ..Truncation::NONE };
        let message = message(b"abcd", received(4, None, lost));
        assert!(message.truncated());
        assert_eq!(message.datagrams().len(), 1);
        assert_eq!(plain(message.datagrams()), [(Vec::new(), true)]);
        assert_eq!(message.data(), b"abcd");
    }

    #[test]
    fn d33_control_data_truncated_alone_hides_nothing() {
        let control = Truncation { control: true, ..Truncation::NONE };
        let message = message(b"abcd", received(4, None, control));
        assert!(message.control_truncated() && !message.truncated());
        assert_eq!(plain(message.datagrams()), [(b"abcd".to_vec(), false)]);
    }

    #[test]
    fn a_truncated_message_has_a_full_length_only_if_reported() {
        let full_len = |received: Received| message(b"four", received).full_len();
        assert_eq!(full_len(received(4, None, truncation(true))), None);
        assert_eq!(full_len(received(9, None, truncation(true))), Some(9));
        assert_eq!(full_len(received(4, None, Truncation::NONE)), Some(4));
        // The last datagram lacks no more than the rest of its segment.
        for (reported, last) in [(5, 2), (9, 3)] {
            let cut = message(b"four", received(reported, Some(3), truncation(true)));
            assert_eq!(cut.datagrams().last().and_then(|d| d.full_len()), Some(last));
        }
    }
}

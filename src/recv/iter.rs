//! The iterator over the datagrams of a batch.

use std::iter::FusedIterator;

use crate::recv::batch::RecvBatch;
use crate::recv::datagram::Datagram;
use crate::recv::split::Datagrams;

/// Iterates over the datagrams in a [`RecvBatch`], one segment of a coalesced message at a time.
///
/// ```
/// use mmsg::{RecvBatch, iter::Iter};
/// fn total(datagrams: Iter<'_>) -> usize {
///     datagrams.map(|datagram| datagram.len()).sum()
/// }
/// assert_eq!(total(RecvBatch::new(16, 1500).iter()), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    batch: &'a RecvBatch,
    /// The next message.
    next: usize,
    /// The rest of the current message.
    datagrams: Datagrams<'a>,
}

impl RecvBatch {
    /// The datagrams of the last receive, in the order in which they were received.
    ///
    /// Where bytes are missing, a [`truncated`](Datagram::truncated) datagram, possibly empty, shows it (see
    /// [`Datagrams`]).
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter { batch: self, next: 0, datagrams: Datagrams::NONE }
    }
}

impl<'a> IntoIterator for &'a RecvBatch {
    type Item = Datagram<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Datagram<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Datagram<'a>> {
        loop {
            if let Some(datagram) = self.datagrams.next() {
                return Some(datagram);
            }
            if self.next == self.batch.message_count() {
                return None;
            }
            self.datagrams = self.batch.get(self.next).datagrams();
            self.next += 1;
        }
    }
}

impl FusedIterator for Iter<'_> {}

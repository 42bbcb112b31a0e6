//! A received message, and the iterator that splits it into its datagrams.

use std::iter::FusedIterator;
use std::mem;

use crate::ancillary::RecvMeta;
use crate::recv::datagram::{
    Datagram, DatagramMut, Envelope, accessors, accessors_of_bytes, debug_without_payload,
};
use crate::recv::received::{Received, Split};
use crate::recv::scattered::Parts;
use crate::sys::{ControlMessages, RawAddr, RecvResult};

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
    parts: Parts<'a>,
    pub(crate) received: Received,
    envelope: Envelope<'a>,
    control: &'a [u8],
}

impl<'a> Message<'a> {
    #[inline(always)]
    pub(crate) fn new(
        parts: Parts<'a>,
        received: Received,
        envelope: Envelope<'a>,
        control: &'a [u8],
    ) -> Self {
        Self { parts, received, envelope, control }
    }

    /// Everything but the payload.
    pub(super) fn attributes(&self) -> (RecvResult, RawAddr, RecvMeta) {
        let Received { len, data_truncated: truncated, control_truncated, .. } = self.received;
        let result = RecvResult { truncated, control_truncated, ..RecvResult::of(len, len) };
        (result, self.envelope.source.to_owned(), *self.envelope.meta)
    }

    accessors!();

    accessors_of_bytes!();

    /// Whether bytes are missing at the end, because the buffer was too short. Where the system coalesces datagrams,
    /// a message from an Internet address also counts as truncated if its control data was truncated and holds no
    /// segment size: its datagram boundaries may be lost.
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.received.truncated()
    }

    /// The datagrams in the message: one, or the segments of a coalesced message (see [`Datagrams`]).
    #[must_use]
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'a> {
        Datagrams::new(self.parts, &self.received, self.envelope)
    }

    /// Whether control messages were lost because their buffer was too small.
    #[must_use]
    pub fn control_truncated(&self) -> bool {
        self.received.control_truncated
    }

    /// All control messages. Received descriptors are closed, and their numbers read as -1.
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

impl<'a> Datagrams<'a> {
    /// An empty iterator.
    pub(crate) const NONE: Self =
        Self { rest: Parts::NONE, envelope: Envelope::NONE, split: Split::NONE };

    #[inline]
    pub(crate) fn new(parts: Parts<'a>, received: &Received, envelope: Envelope<'a>) -> Self {
        let (split, len) = Split::new(received);
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
            return Some(Datagram::new(parts, self.envelope, false));
        }
        let (len, truncated) = self.split.next(self.rest.len())?;
        let parts = self.rest.split_to(len);
        Some(Datagram::new(parts, self.envelope, truncated))
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
        let (split, len) = Split::new(received);
        Self { rest: &mut data[..len], envelope, split }
    }
}

impl<'a> Iterator for DatagramsMut<'a> {
    type Item = DatagramMut<'a>;

    #[inline]
    fn next(&mut self) -> Option<DatagramMut<'a>> {
        let (len, truncated) = self.split.next(self.rest.len())?;
        let (data, rest) = mem::take(&mut self.rest).split_at_mut(len);
        self.rest = rest;
        Some(DatagramMut::new(data, self.envelope, truncated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ancillary::RecvMeta;
    use crate::sys::RawAddr;
    use proptest::prelude::*;

    fn envelope() -> Envelope<'static> {
        static NOWHERE: RawAddr = RawAddr::NONE;
        Envelope::new(NOWHERE.lend(), &RecvMeta::NONE)
    }

    fn message(bytes: &[u8], received: Received) -> Message<'_> {
        Message::new(Parts::one(bytes), received, envelope(), &[])
    }

    fn received(len: usize, segment_size: Option<u16>, truncated: bool, control: bool) -> Received {
        let result =
            RecvResult { truncated, control_truncated: control, ..RecvResult::of(len, len) };
        let meta = RecvMeta { segment_size, ..RecvMeta::NONE };
        let source = RawAddr::new(Some(&([127, 0, 0, 1], 53).into()));
        Received::new(&result, len, &meta, || source.lend())
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
            let received = received(bytes.len(), Some(segment), truncated, false);
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
            let parts = Parts::many(&slices, received.len);
            let mut scattered = Datagrams::new(parts, &received, envelope());
            prop_assert_eq!(plain(scattered.clone()), naive.clone());
            for left in (0..naive.len()).rev() {
                scattered.next();
                prop_assert_eq!(scattered.len(), left);
            }
        }
    }

    #[cfg(linux_like)] // Elsewhere no message loses its segment size by truncated control data.
    #[test]
    fn d19_a_message_without_its_segment_size_gives_an_empty_truncated_datagram() {
        let message = message(b"abcd", received(4, None, false, true));
        assert!(message.truncated());
        assert_eq!(message.datagrams().len(), 1);
        assert_eq!(plain(message.datagrams()), [(Vec::new(), true)]);
        assert_eq!(message.data(), b"abcd");
    }

    #[test]
    fn d33_control_data_truncated_alone_hides_nothing() {
        let message = message(b"abcd", received(4, Some(9), false, true));
        assert!(message.control_truncated() && !message.truncated());
        assert_eq!(plain(message.datagrams()), [(b"abcd".to_vec(), false)]);
    }
}

//! Datagrams that wait to be sent, joined into GSO batches as they come. No I/O.

use std::fmt;
use std::net::SocketAddr;

use mmsg::{SendMeta, SendMsg};

/// The most datagrams that a GSO batch or a coalesced message has on Linux.
pub(crate) const MAX_SEGMENTS: usize = 64;
/// The longest GSO batch in bytes: the longest UDP payload over IPv4.
const MAX_BATCH: usize = 65_507;

/// Transmits of quinn, one after another in memory.
#[derive(Default)]
pub(crate) struct Batches {
    bytes: Vec<u8>,
    batches: Vec<Batch>,
}

struct Batch {
    dest: SocketAddr,
    /// With the segment size, if there are several datagrams.
    meta: SendMeta,
    /// Where the batch ends in the bytes. It begins where the batch before it ends.
    end: usize,
    datagrams: usize,
    /// Whether all datagrams of the batch have the segment size, so that others may follow.
    is_open: bool,
}

impl Batch {
    fn segment(&self) -> Option<usize> {
        self.meta.segment_size.map(usize::from)
    }
}

impl Batches {
    /// Adds the datagrams of `data`, each of the segment size in `meta` but the last, or a single one if `meta`
    /// has no segment size. The datagrams join the last batch, up to `most` datagrams, if destination and options
    /// are equal.
    pub(crate) fn push(&mut self, dest: SocketAddr, mut meta: SendMeta, data: &[u8], most: usize) {
        meta.segment_size =
            meta.segment_size.filter(|size| *size > 0 && usize::from(*size) < data.len());
        let segment = meta.segment_size.map(usize::from);
        let datagrams = segment.map_or(1, |segment| data.len().div_ceil(segment));
        self.bytes.extend_from_slice(data);
        let end = self.bytes.len();
        if self.joins(dest, &meta, data.len(), datagrams, most) {
            if let Some(last) = self.batches.last_mut() {
                last.end = end;
                last.datagrams += datagrams;
                last.is_open = last.segment().is_some_and(|segment| data.len() % segment == 0);
            }
            return;
        }
        let is_open = segment.is_some_and(|segment| data.len() % segment == 0);
        self.batches.push(Batch { dest, meta, end, datagrams, is_open });
    }

    /// Whether datagrams may follow those of the last batch. None follows a single datagram: it may be a
    /// probe for the path's MTU, which fails alone.
    fn joins(
        &self,
        dest: SocketAddr,
        meta: &SendMeta,
        len: usize,
        datagrams: usize,
        most: usize,
    ) -> bool {
        let [before @ .., last] = &self.batches[..] else { return false };
        let start = before.last().map_or(0, |batch| batch.end);
        let Some(segment) = last.segment().filter(|_| last.is_open) else { return false };
        let mut options = *meta;
        options.segment_size = last.meta.segment_size;
        last.dest == dest
            && last.meta == options
            && meta
                .segment_size
                .map_or(len <= segment && len > 0, |size| usize::from(size) == segment)
            && last.datagrams + datagrams <= most
            && last.end - start + len <= MAX_BATCH
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + self.batches.len() * size_of::<Batch>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.batches.clear();
    }

    /// A message for each batch.
    pub(crate) fn msgs(&self) -> impl Iterator<Item = SendMsg<'_>> + Send {
        self.batches.iter().scan(0, |start, batch| {
            let data = &self.bytes[*start..batch.end];
            *start = batch.end;
            Some(SendMsg::to(batch.dest, data).with_meta(&batch.meta))
        })
    }

    /// How many datagrams a batch has.
    pub(crate) fn datagrams(&self, batch: usize) -> usize {
        self.batches[batch].datagrams
    }
}

impl fmt::Debug for Batches {
    /// Without the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, batches } = self;
        f.debug_struct("Batches")
            .field("bytes", &bytes.len())
            .field("batches", &batches.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meta(tos: u8, segment_size: Option<u16>) -> SendMeta {
        let mut meta = SendMeta::new();
        (meta.tos, meta.segment_size) = (Some(tos), segment_size);
        meta
    }

    proptest! {
        #[test]
        fn each_datagram_leaves_once_in_order_as_it_came(
            // Port, ECN bits, segment size, whole segments, bytes of a shorter last one.
            pushed in prop::collection::vec((1u16..3, 0u8..2, 1u16..4, 0usize..30, 0usize..4), 0..20),
            most in 1usize..65,
        ) {
            let mut batches = Batches::default();
            let mut expected = Vec::new();
            for (count, &(port, tos, segment, whole, rest)) in (0u8..).zip(&pushed) {
                let data = vec![count; whole * usize::from(segment) + rest % usize::from(segment)];
                let dest = SocketAddr::from(([127, 0, 0, 1], port));
                batches.push(dest, meta(tos, Some(segment)), &data, most);
                if data.is_empty() {
                    expected.push((dest, tos, data));
                } else {
                    let datagrams = data.chunks(segment.into());
                    expected.extend(datagrams.map(|data| (dest, tos, data.to_vec())));
                }
            }
            let mut left = Vec::new();
            for (i, msg) in batches.msgs().enumerate() {
                let (dest, meta) = (msg.dest().unwrap(), msg.meta());
                let data: Vec<_> = msg.slices().flatten().copied().collect();
                let segment = meta.segment_size.map_or(data.len().max(1), usize::from);
                let datagrams: Vec<_> = data.chunks(segment).map(<[u8]>::to_vec).collect();
                let datagrams = if data.is_empty() { vec![data.clone()] } else { datagrams };
                prop_assert_eq!(datagrams.len(), batches.datagrams(i));
                prop_assert!(meta.segment_size.is_some() == (datagrams.len() > 1));
                left.extend(datagrams.into_iter().map(|data| (dest, meta.tos.unwrap(), data)));
            }
            prop_assert_eq!(left, expected);
        }
    }

    #[test]
    fn transmits_of_one_connection_join_up_to_the_limits() {
        let dest = SocketAddr::from(([127, 0, 0, 1], 1));
        let of = |sizes: &[(usize, Option<u16>)], most| {
            let mut batches = Batches::default();
            for (len, segment) in sizes {
                batches.push(dest, meta(2, *segment), &vec![0; *len], most);
            }
            (0..batches.batches.len()).map(|i| batches.datagrams(i)).collect::<Vec<_>>()
        };
        let ten = (12_000, Some(1200));
        assert_eq!(of(&[ten; 4], 64), [40]);
        assert_eq!(of(&[ten; 7], 64), [50, 20], "bytes");
        assert_eq!(of(&[(1000, Some(100)); 7], 64), [60, 10], "datagrams");
        assert_eq!(of(&[ten; 2], 10), [10, 10], "fewer were asked for");
        assert_eq!(of(&[ten, (700, None), (700, None)], 64), [11, 1], "a shorter one ends it");
        assert_eq!(of(&[ten, (1200, None), ten], 64), [21]);
        assert_eq!(of(&[ten, (1452, None), ten], 64), [10, 1, 10], "a probe goes alone");
        assert_eq!(of(&[ten, (13_000, Some(1300))], 64), [10, 10], "another size");
    }
}

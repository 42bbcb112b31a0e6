//! Messages split in place beside a naive twin.

use std::num::NonZero;

use proptest::prelude::*;

use super::*;
use crate::ancillary::RecvMeta;
use crate::recv::received::Truncation;
use crate::recv::split::Datagrams;
use crate::sys::RawAddr;

fn envelope() -> Envelope<'static> {
    static NOWHERE: RawAddr = RawAddr::NONE;
    Envelope::new(NOWHERE.lend(), &RecvMeta::NONE, &[])
}

/// Bytes, whether they are truncated, the full length.
type Plain = (Vec<u8>, bool, Option<usize>);

fn plain(datagram: &Datagram<'_>) -> Plain {
    (datagram.data().to_vec(), datagram.truncated(), datagram.full_len())
}

/// A message of which `lost` bytes are missing, if any; the system may not report how many.
fn received(len: usize, segment: Option<u16>, lost: Option<usize>, known: bool) -> Received {
    let reported = if known { len + lost.unwrap_or(0) } else { len };
    let truncation = Truncation { data: lost.is_some(), ..Truncation::NONE };
    let segment_size = segment.and_then(|size| NonZero::new(size.into()));
    Received { reported, segment_size, truncation }
}

/// The datagrams, found byte by byte.
fn naive(bytes: &[u8], segment: Option<u16>, lost: Option<usize>, known: bool) -> Vec<Plain> {
    let segment = segment.map_or(usize::MAX, usize::from);
    let mut all = vec![(Vec::new(), false, Some(0))];
    for byte in bytes {
        if all.last().is_some_and(|(data, ..)| data.len() == segment) {
            all.push((Vec::new(), false, Some(0)));
        }
        let (data, _, full_len) = all.last_mut().expect("never empty");
        data.push(*byte);
        *full_len = Some(data.len());
    }
    let Some(lost) = lost else { return all };
    if all.last().is_some_and(|(data, ..)| data.len() == segment) {
        all.push((Vec::new(), false, None));
    }
    let (data, truncated, full_len) = all.last_mut().expect("never empty");
    *truncated = true;
    let all_of_it = data.len() + lost.min(segment - data.len());
    *full_len = (known && lost > 0).then_some(all_of_it);
    all
}

proptest! {
    #[test]
    fn splitting_in_place_is_splitting_a_copy(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        segment in prop::option::of(1u16..50),
        lost in prop::option::of(0usize..70),
        known in any::<bool>(),
        buffer in 1usize..70,
    ) {
        let received = received(bytes.len(), segment, lost, known);
        let naive = naive(&bytes, segment, lost, known);
        let shared = Datagrams::new(Parts::one(&bytes), &received, envelope());
        prop_assert_eq!(shared.map(|d| plain(&d)).collect::<Vec<_>>(), naive.clone());

        // Each datagram is marked by its number, and each byte belongs to one.
        let marked: Vec<u8> = naive
            .iter()
            .enumerate()
            .flat_map(|(i, (data, ..))| data.iter().map(move |byte| byte ^ (i as u8 + 1)))
            .collect();
        let mut message = MessageMut::new(&mut bytes, received, envelope());
        let mut datagrams = message.datagrams_mut();
        for (i, expected) in naive.iter().enumerate() {
            prop_assert_eq!(datagrams.len(), naive.len() - i);
            let mut datagram = datagrams.next().expect("as many as were found");
            prop_assert_eq!(&plain(&datagram.as_datagram()), expected);
            datagram.data_mut().iter_mut().for_each(|byte| *byte ^= i as u8 + 1);
            prop_assert_eq!(datagram.data(), datagram.as_datagram().data());
        }
        prop_assert!(datagrams.next().is_none());
        prop_assert_eq!(message.data(), &marked);

        // Over several buffers a datagram has its bytes in the first of them.
        let mut buffers: Vec<_> = bytes.chunks_mut(buffer).map(IoSliceMut::new).collect();
        let all = naive.iter().map(|(data, ..)| data.len()).sum();
        let heads: Vec<_> =
            split_scattered(&mut buffers, all, received, envelope())
                .map(|datagram| (datagram.data().to_vec(), datagram.truncated()))
                .collect();
        let parts = Parts::many(&buffers, received.reported);
        let twin = Datagrams::new(parts, &received, envelope());
        let twin: Vec<_> = twin.map(|d| (d.data().to_vec(), d.truncated())).collect();
        prop_assert_eq!(heads, twin);
    }
}

#[test]
fn d19_a_message_without_its_segment_size_has_nothing_to_change() {
    let truncation = Truncation { control: true, segment_size: true, ..Truncation::NONE };
    let received = Received { truncation, ..received(4, None, None, true) };
    let mut bytes = *b"abcd";
    let mut message = MessageMut::new(&mut bytes, received, envelope());
    assert_eq!((message.data(), message.truncated()), (&b"abcd"[..], true));
    assert_eq!(message.as_message().full_len(), Some(4));
    let datagrams: Vec<_> = message.datagrams_mut().collect();
    assert_eq!(datagrams.len(), 1);
    assert_eq!(plain(&datagrams[0].as_datagram()), (Vec::new(), true, None));
}

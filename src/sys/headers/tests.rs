//! What the kernel leaves in a header, written by hand: what no kernel at hand would write.

use std::io::IoSliceMut;
use std::iter;
use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::sys::addr::{NAME_LEN, RawAddr};
use crate::sys::{CONTROL_SPACE, DestRef, GsoBatch, RecvResult};

#[test]
fn r2_fields_that_a_call_overwrites_are_set_anew() {
    let mut storage = RecvStorage::new();
    storage.reserve(2).expect("there is memory");
    let (mut first, mut second) = ([0; 10], [0; 10]);
    let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    let mut sources = [RawAddr::NONE; 2];
    for _ in 0..2 {
        let mut wired = storage.wire();
        for (buffer, source) in buffers.iter_mut().zip(&mut sources) {
            wired.push(std::slice::from_mut(buffer), source.space(), None);
        }
        let mut wired = wired.wired();
        assert_eq!(wired.len(), 2);
        for header in wired.as_mut().0 {
            let result = header.result();
            assert_eq!((result.source_len, result.control_len), (NAME_LEN, CONTROL_SPACE));
            assert_eq!((header.buffers().1, result.truncated), (1, false));
            assert!(!header.name().0.is_null() && !header.control().0.is_null());
            // As a kernel leaves them after a short message.
            header.set_result(RecvResult {
                source_len: 16,
                truncated: true,
                control_truncated: true,
                ..result
            });
        }
    }
}

/// Buffers of one header, and the memory that they are read from.
fn joined(pieces: &[(usize, bool)]) -> (Vec<u8>, Vec<Range<usize>>) {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (len, is_adjacent) in pieces {
        let end = ranges.last().map_or(0, |last| last.end);
        let start = if *is_adjacent { end } else { end + 1 };
        ranges.push(start..start + len);
    }
    let memory = (0..ranges.last().map_or(0, |last| last.end)).map(|i| i as u8).collect();
    (memory, ranges)
}

/// Joins a buffer, and others of the same length.
fn join_alike<'a>(buffers: &mut Extension<'_, 'a>, data: &'a [u8], alike: &[&'a [u8]]) {
    let joined = match buffers.join_alike(data, alike.len()) {
        Others::Copied(space) => {
            let copies = alike.concat();
            space[..copies.len()].copy_from_slice(&copies);
            buffers.join_copied(copies.len());
            alike.len()
        }
        Others::Adjacent(mut last) => alike.iter().take_while(|data| last.join(data)).count(),
        Others::Apart => 0,
    };
    alike[joined..].iter().for_each(|data| buffers.join(data));
}

proptest! {
    /// Adjacent, apart, long, short and empty ones, in a storage whose memory for copies comes to an end.
    #[test]
    fn a_header_has_the_bytes_of_its_buffers_however_they_are_joined(
        headers in prop::collection::vec(
            prop::collection::vec(
                (prop_oneof![0usize..40, 700usize..800, Just(2_000), Just(100)], any::<bool>()),
                1..30,
            ),
            1..4,
        ),
        way in 0..3,
    ) {
        let mut storage = SendStorage::new();
        storage.reserve(4).expect("there is memory");
        let memories: Vec<_> = headers.iter().map(|pieces| joined(pieces)).collect();
        storage.reserve_copies().expect("there is memory");
        let mut wired = storage.begin();
        for (memory, ranges) in &memories {
            let mut header = wired.push(DestRef::Addr(None), &memory[ranges[0].clone()]);
            header.extend(|buffers| {
                let mut all = ranges[1..].iter().map(|range| &memory[range.clone()]).peekable();
                while let Some(data) = all.next() {
                    match way {
                        0 => buffers.join(data),
                        1 => buffers.add_part(data),
                        _ => {
                            let mut alike = Vec::new();
                            let is_alike = |next: &&[u8]| next.len() == data.len();
                            alike.extend(iter::from_fn(|| all.next_if(is_alike)));
                            join_alike(buffers, data, &alike);
                        }
                    }
                }
            });
            header.complete(GsoBatch { messages: 1, bytes: 0, segment: 0 }, false);
        }
        for (i, (memory, ranges)) in memories.iter().enumerate() {
            let expected: Vec<u8> =
                ranges.iter().flat_map(|range| memory[range.clone()].to_vec()).collect();
            prop_assert_eq!(wired.memory(i).payload.collect::<Vec<_>>().concat(), expected);
        }
    }
}

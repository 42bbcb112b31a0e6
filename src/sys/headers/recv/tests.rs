//! The fields of a header that each receive resets, and the alignment of slots.

use std::io::IoSliceMut;

use super::*;

#[test]
fn fields_that_a_call_overwrites_are_set_anew() {
    let mut storage = RecvStorage::new();
    storage.reserve(2).expect("there is memory");
    let (mut first, mut second) = ([0; 10], [0; 10]);
    let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    for _ in 0..2 {
        let mut headers = storage.begin();
        buffers.iter_mut().for_each(|buffer| headers.push_slice(buffer));
        for i in 0..2 {
            let header = storage.headers.at(i);
            let result = header.result();
            assert_eq!((result.source_len, result.control_len), (NAME_LEN, CONTROL_SPACE));
            assert_eq!((header.buffers().1, result.truncated, result.len), (1, false, 0));
            assert!(!header.control().0.is_null());
            // A truncated message leaves these values.
            let (truncated, control_truncated) = (true, true);
            let short =
                RecvResult { len: 10, source_len: 16, truncated, control_truncated, ..result };
            header.set_result(short);
        }
    }
}

/// The kernel copies slowly to some offsets in a page: see [`Slots`].
#[test]
fn the_first_slot_begins_a_page_and_the_others_cache_lines() {
    for (count, len) in [(1, 1), (3, 1_500), (8, 65_535), (2, 4_096)] {
        let mut slots = Slots::try_new(count, len).expect("there is memory");
        slots.set_received(count - 1, RecvResult::of(len, len, 0), &RawAddr::NO_NAME);
        assert_eq!((slots.len(), slots.slot_len()), (count, len));
        assert_eq!(slots.payload(0).as_ptr().addr() % 4_096, 0);
        for i in 0..count {
            assert_eq!(slots.payload(i).as_ptr().addr() % 64, 0);
            assert_eq!(slots.payload(i).len(), len);
            slots.payload_mut(i).fill(i as u8);
        }
        assert!((0..count).all(|i| slots.payload(i).iter().all(|byte| *byte == i as u8)));
        let on_lines = slots.iter_mut().0.filter(|slot| slot.as_ptr().addr() % 64 == 0);
        assert_eq!(on_lines.count(), count);
    }
}

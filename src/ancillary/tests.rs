//! The codec: round trips in every platform's layout, and any bytes at all.

use proptest::prelude::*;

use super::encode::append;
use super::{ControlMessages, Layout};

/// 64-bit Linux, 32-bit Linux, macOS, 64-bit BSD; each also with the other byte order.
fn layouts() -> impl Strategy<Value = Layout> {
    let shapes = [(8, 16, 8), (4, 12, 4), (4, 12, 4), (4, 16, 8)];
    (0..shapes.len(), any::<bool>()).prop_map(move |(i, big_endian)| {
        let (len_bytes, data_offset, align) = shapes[i];
        Layout { len_bytes, data_offset, align, big_endian }
    })
}

proptest! {
    #[test]
    fn what_is_appended_is_read_back(
        layout in layouts(),
        messages in prop::collection::vec((any::<i32>(), any::<i32>(), prop::collection::vec(any::<u8>(), 0..65)), 0..6),
    ) {
        let mut buf = [0xaa; 1024];
        let mut end = 0;
        for (level, kind, payload) in &messages {
            end = append(layout, &mut buf, end, (*level, *kind), payload).expect("the room is ample");
        }
        let read: Vec<_> = ControlMessages::with_layout(&buf[..end], layout)
            .map(|message| (message.level, message.kind, message.data.to_vec()))
            .collect();
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn any_bytes_are_survived(layout in layouts(), bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let taken: usize = ControlMessages::with_layout(&bytes, layout)
            .map(|message| layout.data_offset + message.data.len())
            .sum();
        prop_assert!(taken <= bytes.len());
    }

    #[test]
    fn small_lengths_in_a_row_are_survived(layout in layouts(), lengths in prop::collection::vec(0u8..40, 0..64)) {
        // Mostly zero bytes with small numbers between: headers that are nearly right.
        let bytes: Vec<u8> = lengths.iter().flat_map(|len| [*len, 0, 0, 0]).collect();
        prop_assert!(ControlMessages::with_layout(&bytes, layout).count() <= bytes.len());
    }
}

#[test]
fn a_message_that_does_not_fit_writes_nothing() {
    let layout = Layout { len_bytes: 8, data_offset: 16, align: 8, big_endian: false };
    let mut buf = [0xaa; 23];
    assert_eq!(append(layout, &mut buf, 0, (1, 2), b"x"), None);
    assert_eq!(buf, [0xaa; 23]);
}

#[test]
fn the_last_message_may_lack_its_padding() {
    let layout = Layout { len_bytes: 8, data_offset: 16, align: 8, big_endian: false };
    let mut buf = [0; 24];
    append(layout, &mut buf, 0, (1, 2), b"x").expect("24 bytes are enough");
    let read: Vec<_> = ControlMessages::with_layout(&buf[..17], layout).collect();
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].data, b"x");
}

//! The codec: round trips in every platform's layout, and any bytes at all.

use proptest::prelude::*;

use crate::sys::ControlMessages;
use crate::sys::Layout;
use crate::sys::control_message::append;

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
    fn the_decoder_reads_what_the_encoder_appended(
        layout in layouts(),
        messages in prop::collection::vec((any::<i32>(), any::<i32>(), prop::collection::vec(any::<u8>(), 0..65)), 0..6),
    ) {
        let mut buf = [0xaa; 1024];
        let mut end = 0;
        for (level, ty, payload) in &messages {
            end = append(layout, &mut buf, end, (*level, *ty), payload).expect("the buffer is ample");
        }
        let read: Vec<_> = ControlMessages::with_layout(&buf[..end], layout)
            .map(|message| (message.level, message.ty, message.data.to_vec()))
            .collect();
        prop_assert_eq!(read, messages);
    }
}

#[test]
fn a_segment_size_is_read_in_either_byte_order() {
    for big_endian in [false, true] {
        for (len_bytes, data_offset, align) in [(8, 16, 8), (4, 12, 4)] {
            let layout = Layout { len_bytes, data_offset, align, big_endian };
            let size: [u8; 4] = [0, 0, 0x05, 0xdc];
            let mut buf = [0xaa; 64];
            let end = append(layout, &mut buf, 0, (17, 104), &size).expect("there is space");
            assert_eq!(end, data_offset + size.len().next_multiple_of(align));
            // By hand: the header's numbers, each in the layout's byte order.
            let number = |value: u32| match big_endian {
                true => value.to_be_bytes(),
                false => value.to_le_bytes(),
            };
            let len = number(u32::try_from(data_offset + 4).expect("a small number"));
            let len_at = if big_endian { len_bytes - 4 } else { 0 };
            assert_eq!(buf[len_at..len_at + 4], len);
            assert_eq!(buf[len_bytes..len_bytes + 8], [number(17), number(104)].concat());
            let read: Vec<_> = ControlMessages::with_layout(&buf[..end], layout).collect();
            assert_eq!(read.len(), 1);
            // The payload is in the machine's order, whatever the header's layout.
            assert_eq!((read[0].level, read[0].ty, read[0].data), (17, 104, &size[..]));
        }
    }
}

#[test]
fn a_length_that_reaches_beyond_the_end_stops_the_walk() {
    let layout = Layout { len_bytes: 8, data_offset: 16, align: 8, big_endian: false };
    for len in [0u64, 1, 15, 25, 26, 1 << 32, u64::MAX - 7, u64::MAX] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&len.to_le_bytes());
        assert_eq!(ControlMessages::with_layout(&bytes, layout).count(), 0, "{len}");
    }
    for len in 16u64..=24 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&len.to_le_bytes());
        let read: Vec<_> = ControlMessages::with_layout(&bytes, layout).collect();
        assert_eq!((read.len(), read[0].data.len() as u64), (1, len - 16), "{len}");
    }
}

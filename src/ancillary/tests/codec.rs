//! The codec: round trips in every platform's layout, and any bytes at all.

use proptest::prelude::*;

use crate::sys::ControlMessages;
use crate::sys::Layout;
use crate::sys::control_message::append;

/// 64-bit Linux; 32-bit Linux and macOS; 64-bit BSD.
fn layouts() -> impl Strategy<Value = Layout> {
    prop::sample::select(vec![(8, 16, 8), (4, 12, 4), (4, 16, 8)])
        .prop_map(|(len_bytes, data_offset, align)| Layout { len_bytes, data_offset, align })
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
fn a_control_message_is_its_length_level_type_and_payload() {
    for (len_bytes, data_offset, align) in [(8, 16, 8), (4, 12, 4)] {
        let layout = Layout { len_bytes, data_offset, align };
        let size: [u8; 4] = [0, 0, 0x05, 0xdc];
        let mut buf = [0xaa; 64];
        let end = append(layout, &mut buf, 0, (17, 104), &size).expect("there is space");
        assert_eq!(end, data_offset + size.len().next_multiple_of(align));
        // By hand, in this machine's byte order.
        let len = match len_bytes {
            8 => (data_offset as u64 + 4).to_ne_bytes().to_vec(),
            _ => (data_offset as u32 + 4).to_ne_bytes().to_vec(),
        };
        assert_eq!(buf[..len_bytes], len);
        assert_eq!(buf[len_bytes..len_bytes + 8], [17i32, 104].map(i32::to_ne_bytes).concat());
        let read: Vec<_> = ControlMessages::with_layout(&buf[..end], layout).collect();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].level, read[0].ty, read[0].data), (17, 104, &size[..]));
    }
}

#[test]
fn a_length_that_reaches_beyond_the_end_stops_the_walk() {
    let layout = Layout { len_bytes: 8, data_offset: 16, align: 8 };
    for len in [0u64, 1, 15, 25, 26, 1 << 32, u64::MAX - 7, u64::MAX] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&len.to_ne_bytes());
        assert_eq!(ControlMessages::with_layout(&bytes, layout).count(), 0, "{len}");
    }
    for len in 16u64..=24 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&len.to_ne_bytes());
        let read: Vec<_> = ControlMessages::with_layout(&bytes, layout).collect();
        assert_eq!((read.len(), read[0].data.len() as u64), (1, len - 16), "{len}");
    }
}

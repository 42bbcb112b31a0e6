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

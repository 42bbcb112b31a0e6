//! Splits a coalesced message into its datagrams, truncated or whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mmsg::{Datagram, RecvBatch, RecvMeta, RecvMsg};

/// Buffer sizes tried for each input, one byte apart. Longer buffers are split in the same way.
const CAPACITIES: usize = 8;
const LONGEST: usize = 64;

fuzz_target!(|data: &[u8]| {
    let Some(([size, capacity], payload)) = data.split_first_chunk() else { return };
    let payload = &payload[..payload.len().min(LONGEST + 2 * CAPACITIES)];
    // Mostly small numbers, sometimes one of two bytes.
    let size = match size {
        0..200 => u16::from(*size),
        _ => (u16::from(*size) - 199) * 97,
    };
    let mut meta = RecvMeta::default();
    meta.segment_size = Some(size).filter(|size| *size > 0);
    let mut buffer = [0xEE; LONGEST + CAPACITIES];
    let shortest = usize::from(*capacity) % LONGEST;
    for capacity in shortest..shortest + CAPACITIES {
        let buffer = &mut buffer[..capacity];
        let expected = Expected { payload, size: size.into(), capacity };

        let mut msg = RecvMsg::new(buffer);
        msg.fill(payload, None, meta);
        expected.check(&msg);
        if capacity > 0 {
            let mut batch = RecvBatch::new(1, capacity);
            assert!(batch.push(None, payload, meta) && !batch.push(None, payload, meta));
            let mut changeable = 0;
            for (i, datagram) in batch.iter_mut().enumerate() {
                expected.check_datagram(i, &datagram.into_datagram());
                changeable += 1;
            }
            assert_eq!(changeable, expected.count());
        }
    }
    mmsg_fuzz::count(2 * CAPACITIES);
});

/// The naive twin: cuts the received payload at multiples of the segment size.
struct Expected<'a> {
    payload: &'a [u8],
    /// 0 means not segmented.
    size: usize,
    capacity: usize,
}

impl Expected<'_> {
    fn received(&self) -> &[u8] {
        &self.payload[..self.payload.len().min(self.capacity)]
    }

    fn truncated(&self) -> bool {
        self.payload.len() > self.capacity
    }

    fn count(&self) -> usize {
        match (self.size, self.truncated()) {
            (0, _) => 1,
            // After the whole datagrams comes the rest of the next one, which may be empty.
            (size, true) => self.received().len() / size + 1,
            (size, false) => self.received().len().div_ceil(size).max(1),
        }
    }

    fn check(&self, msg: &RecvMsg<'_>) {
        let message = msg.message();
        assert_eq!((message.len(), message.truncated()), (self.received().len(), self.truncated()));
        assert_eq!(message.datagrams().len(), self.count());
        let mut count = 0;
        for datagram in message.datagrams() {
            self.check_datagram(count, &datagram);
            count += 1;
        }
        assert_eq!(count, self.count());
    }

    fn check_datagram(&self, i: usize, datagram: &Datagram<'_>) {
        let received = self.received();
        let end = if self.size == 0 { usize::MAX } else { (i + 1) * self.size };
        let rest = &received[i * self.size..end.min(received.len())];
        assert_eq!(datagram.data(), rest, "datagram {i} of {} bytes", self.size);
        let is_last = i + 1 == self.count();
        assert_eq!(datagram.truncated(), is_last && self.truncated(), "datagram {i}");
    }
}

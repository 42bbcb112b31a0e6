//! A coalesced message into its datagrams: over one buffer and over two, truncated and whole.
#![no_main]

use std::io::IoSliceMut;

use libfuzzer_sys::fuzz_target;
use mmsg::{RecvMeta, RecvMsg};

fuzz_target!(|data: &[u8]| {
    let Some(([size, capacity, first], payload)) = data.split_first_chunk() else { return };
    // Small numbers, and now and then one of two bytes.
    let size = match size {
        0..200 => u16::from(*size),
        _ => (u16::from(*size) - 199) * 97,
    };
    let capacity = usize::from(*capacity) * 2;
    let first = capacity.min(usize::from(*first));
    let meta = || {
        let mut meta = RecvMeta::default();
        meta.segment_size = Some(size).filter(|size| *size > 0);
        meta
    };

    let mut buffer = vec![0xEE; capacity];
    let mut msg = RecvMsg::new(&mut buffer);
    msg.fill(payload, None, meta());
    check(payload, size, capacity, &msg);
    let changed: Vec<Vec<u8>> = msg.datagrams_mut().map(|datagram| datagram.data().to_vec()).collect();
    let seen: Vec<Vec<u8>> = msg.datagrams().map(|datagram| datagram.data().to_vec()).collect();
    assert_eq!(changed, seen);

    let (one, other) = buffer.split_at_mut(first);
    let mut parts = [IoSliceMut::new(one), IoSliceMut::new(other)];
    let mut msg = RecvMsg::scatter(&mut parts);
    msg.fill(payload, None, meta());
    check(payload, size, capacity, &msg);
});

/// The datagrams are the payload in steps of the segment size, as far as it was received.
fn check(payload: &[u8], size: u16, capacity: usize, msg: &RecvMsg<'_>) {
    let received = &payload[..payload.len().min(capacity)];
    let truncated = payload.len() > capacity;
    assert_eq!((msg.len(), msg.truncated()), (received.len(), truncated));
    let got: Vec<(Vec<u8>, bool)> = msg
        .datagrams()
        .map(|datagram| (datagram.slices().collect::<Vec<_>>().concat(), datagram.truncated()))
        .collect();
    assert_eq!(msg.datagrams().len(), got.len());
    let mut expected: Vec<(Vec<u8>, bool)> = if size == 0 {
        vec![(received.to_vec(), truncated)]
    } else {
        received.chunks(size.into()).map(|chunk| (chunk.to_vec(), false)).collect()
    };
    if size > 0 && truncated {
        // The last whole datagram is followed by the rest of the next, which may be empty.
        match expected.last_mut() {
            Some(last) if last.0.len() < usize::from(size) => last.1 = true,
            _ => expected.push((Vec::new(), true)),
        }
    } else if expected.is_empty() {
        expected.push((Vec::new(), false));
    }
    assert_eq!(got, expected, "segments of {size} in {capacity} bytes");
}

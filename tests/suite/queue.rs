//! The send queue on sockets that accept everything, a part or nothing.

use std::io::IoSlice;

use mmsg::errors::PushError;
use mmsg::{BatchSocket, Offload, SendMeta, SendMsg, SendQueue};

use crate::common::recv::payloads;
use crate::common::sockets::{addr, connected, udp4};
use crate::common::{code, errno, payload, queue_of, some_settings};

/// The payload's address for each queued datagram.
fn places(queue: &SendQueue) -> Vec<*const u8> {
    queue.iter().filter_map(|msg| msg.slices().next()).map(<[u8]>::as_ptr).collect()
}

#[test]
fn a_message_that_can_never_fit_has_its_own_error() {
    let each = 10 + SendQueue::OVERHEAD;
    let mut queue = SendQueue::new(2 * each);
    let fits = SendMsg::new(b"0123456789");
    let longest = vec![0; 2 * each - SendQueue::OVERHEAD];
    let too_long = vec![0; longest.len() + 1];
    // A datagram whose payload fits, but not with its settings.
    let meta = SendMeta::new().with_hop_limit(3);
    let with_settings = SendMsg::new(&longest).with_meta(&meta);
    for filled in 0..=2 {
        assert_eq!(SendQueue::cost(&fits) <= queue.remaining(), filled < 2);
        for never in [SendMsg::new(&too_long), with_settings] {
            assert!(SendQueue::cost(&never) > queue.capacity());
            assert_eq!(queue.push(&never), Err(PushError::TooLong), "with {filled} in it");
        }
        let expected = if filled == 0 { Ok(()) } else { Err(PushError::Full) };
        assert_eq!(queue.push(&SendMsg::new(&longest)), expected, "with {filled} in it");
        if filled == 0 {
            queue.clear();
        }
        assert_eq!((queue.len(), queue.bytes()), (filled, filled * each), "as before");
        assert_eq!(queue.push(&fits).is_ok(), filled < 2);
    }
    let [full, never] = [PushError::Full, PushError::TooLong].map(std::io::Error::from);
    // A full queue is ordinary, so its error must not allocate.
    assert!(full.kind() == std::io::ErrorKind::WouldBlock && full.get_ref().is_none(), "{full:?}");
    assert_eq!(never.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(never.get_ref().and_then(|e| e.downcast_ref()), Some(&PushError::TooLong));
}

#[test]
fn one_payload_goes_to_many_and_is_stored_once() {
    let (from, to) = (udp4(), [udp4(), udp4(), udp4()]);
    let dests = || to.iter().map(addr);
    let data = payload(7, 900);
    let parts = [&data[..12], &data[12..]].map(IoSlice::new);
    let meta = some_settings();
    let msg = SendMsg::gather(&parts).with_meta(&meta);
    let cost = SendQueue::cost(&msg) + 2 * SendQueue::OVERHEAD;
    let mut queue = SendQueue::new(cost + 2 * SendQueue::OVERHEAD + 20);
    queue.push(&SendMsg::to(addr(&to[0]), b"first")).expect("it fits");
    let rest = queue.remaining();
    // Four fit; the fifth removes them all.
    let five = dests().chain(dests()).take(5);
    assert_eq!(queue.push_to_all(&msg, five), Err(PushError::Full));
    assert_eq!((queue.len(), queue.remaining()), (1, rest));
    queue.push_to_all(&msg, dests()).expect("they fit");
    queue.push(&SendMsg::to(addr(&to[2]), b"last")).expect("it fits");
    assert_eq!((queue.len(), rest - cost), (5, queue.remaining() + 4 + SendQueue::OVERHEAD));
    assert_eq!(places(&queue)[1..4], [places(&queue)[1]; 3], "stored once");
    assert!(queue.iter().skip(1).take(3).all(|msg| msg.meta() == meta));
    assert!(queue.iter().skip(1).take(3).map(|msg| msg.dest()).eq(dests().map(Some)));

    // This does not change the queue.
    assert_eq!(queue.push_to_all(&msg, dests()), Err(PushError::Full));
    queue.push_to_all(&SendMsg::new(&[0; 9_000]), []).expect("nobody gets it");
    assert_eq!(queue.len(), 5);

    // The datagrams leave one by one, and the payload stays for the remaining ones.
    assert!(queue.discard_front() && queue.discard_front());
    assert_eq!(queue.bytes(), 3 * SendQueue::OVERHEAD + 4);
    assert_eq!(from.flush(&mut queue).expect("loopback takes them"), 3);
    assert_eq!((queue.bytes(), payloads(&to[1], 1)), (0, vec![data.clone()]));
    assert_eq!(payloads(&to[2], 2), [&data[..], b"last"]);
}

/// Datagrams of one length to one destination form a GSO batch. What a closure does not write is zero.
#[test]
fn what_closures_write_is_sent_as_pushes_are() {
    let (offload, to) = (Offload::builder().gro(false).build(udp4()).expect("a socket"), udp4());
    let mut queue = SendQueue::new(1 << 20);
    queue.push(&SendMsg::new(&[0xff; 20_000])).expect("there is space");
    queue.clear();
    for _ in 0..10 {
        let msg = SendMsg::to(addr(&to), b"header");
        queue.push_with(&msg, 1_000, |_| Some(500)).expect("there is space");
    }
    offload.flush(&mut queue).expect("loopback takes them");
    assert_eq!(offload.state().counters().sent_batches, u64::from(offload.state().gso()));
    let expected = [&b"header"[..], &[0; 500]].concat();
    assert!(payloads(&to, 10).iter().all(|data| *data == expected));
}

/// A message that is segmented in user space is sent by calls of its own.
#[test]
fn a_flush_goes_on_after_a_short_count() {
    let (near, far) = (udp4(), udp4());
    let near = Offload::builder().gso(false).build(near).expect("a UDP socket");
    let segments = SendMsg::to(addr(&far), &[7; 200]).with_segment_size(2);
    let [before, after] = [&b"before"[..], b"after"].map(|data| SendMsg::to(addr(&far), data));
    let mut queue = queue_of([before, segments, after]);
    assert_eq!((near.flush(&mut queue).expect("loopback takes all"), queue.len()), (3, 0));
    let got = payloads(&far, 102);
    assert_eq!([&got[0], &got[101]], [&b"before"[..], b"after"]);
}

/// More bytes than a 32-bit program can count, by offering the same memory many times.
#[test]
fn a_sum_of_lengths_that_overflows_leaves_the_queue_as_before() {
    let (a, b) = connected();
    let megabyte = vec![0; 1 << 20];
    let parts = vec![IoSlice::new(&megabyte); (1 << 12) + 1];
    let msg = SendMsg::gather(&parts);
    let expected = ((1u64 << 32) + (1 << 20)).try_into().unwrap_or(usize::MAX);
    assert_eq!((msg.len(), msg.is_empty()), (expected, false));
    let mut queue = SendQueue::new(2 << 20);
    queue.push(&SendMsg::new(b"before")).expect("there is space");
    assert_eq!(queue.push(&msg), Err(PushError::TooLong));
    // On 32 bits these sums wrap to 0.
    assert_eq!(queue.push(&SendMsg::gather(&parts[1..])), Err(PushError::TooLong));
    queue.push(&SendMsg::new(b"after")).expect("there is space");
    assert_eq!(queue.bytes(), 11 + 2 * SendQueue::OVERHEAD);
    assert_eq!(a.flush(&mut queue).expect("the peer has space"), 2);
    assert_eq!(payloads(&b, 2), [&b"before"[..], b"after"]);
    // Two messages of 2^31 bytes, whose sum wraps on 32 bits, with others around them.
    let (half, one) = (SendMsg::gather(&parts[..1 << 11]), SendMsg::new(b"one"));
    let offload = Offload::new(a).expect("a UDP socket");
    for msgs in [[half, half], [half, one], [msg, msg]] {
        assert_eq!(code(offload.send_batch(&msgs)), errno::EMSGSIZE);
    }
    assert_eq!(offload.send_batch(&[one, msg]).expect("the first is good"), 1);
    assert_eq!(payloads(&b, 1), [b"one"]);
}

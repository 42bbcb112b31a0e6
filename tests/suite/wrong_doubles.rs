//! Test doubles that return wrong counts, skip messages or exchange memory: all calls must end and show no bytes of
//! another message.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::sync::Mutex;

use mmsg::{
    Ancillary, BatchSocket, BatchSocketExt, RecvBatch, RecvMeta, RecvMsg, SendMsg, SendQueue,
};

use super::doubles::{BAD, Double, messages};
use crate::common::sockets::udp4;
use crate::common::{no_failure, numbered};

/// Returns the same result for every send, even of no messages.
struct Liar {
    says: usize,
    calls: Cell<usize>,
}

impl BatchSocket for Liar {
    fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        Ok(0)
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        self.calls.set(self.calls.get() + 1);
        assert!(self.calls.get() < 1_000, "a call that does not end");
        assert!(!msgs.is_empty(), "a call for nothing");
        Ok(self.says)
    }
}

#[test]
fn d16_counts_larger_than_what_was_offered_overflow_nothing_and_end() {
    for says in [31, 255, 256, 257, 1_000, usize::MAX / 2, usize::MAX - 1, usize::MAX] {
        for count in [0, 1, 31, 255, 256, 257, 600] {
            let data = numbered(count, 8);
            let msgs = messages(&data);
            let liar = || Liar { says, calls: Cell::new(0) };
            let mut queue = SendQueue::new(1 << 20);
            msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
            // The send ends at the first group of 256 that is accepted only in part.
            let expected = if says < 256 { count.min(says) } else { count };
            assert_eq!(liar().flush(&mut queue).expect("no error"), expected);
            assert_eq!(queue.len(), count - expected);

            assert_eq!(liar().send_each(&msgs, no_failure).expect("no error"), count);
        }
    }
}

#[test]
fn d16_a_double_that_stops_half_way_without_an_error_ends_every_call() {
    /// Accepts some messages and then none.
    struct Tired(Cell<usize>);
    impl BatchSocket for Tired {
        fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
            Ok(0)
        }
        fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
            let taken = self.0.get().min(msgs.len());
            self.0.set(self.0.get() - taken);
            Ok(taken)
        }
    }
    let data = numbered(600, 8);
    let msgs = messages(&data);
    for takes in [0, 1, 255, 256, 257, 512, 599] {
        let tired = || Tired(Cell::new(takes));
        assert_eq!(tired().send_each(&msgs, no_failure).expect("no error"), takes);
        let mut queue = SendQueue::new(1 << 20);
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
        let tired = tired();
        while tired.flush(&mut queue).expect("no error") > 0 {}
        assert_eq!(queue.len(), 600 - takes);
    }
}

#[test]
fn an_error_behind_the_first_datagrams_ends_a_flush_with_a_count() {
    /// Returns an error from its second call only.
    #[derive(Default)]
    struct Once(Cell<usize>);
    impl BatchSocket for Once {
        fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
            Ok(0)
        }
        fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
            let calls = self.0.replace(self.0.get() + 1);
            if calls == 1 { Err(ErrorKind::ConnectionRefused.into()) } else { Ok(msgs.len()) }
        }
    }
    let (socket, data) = (Once::default(), numbered(300, 8));
    let mut queue = SendQueue::new(1 << 20);
    messages(&data).iter().for_each(|msg| queue.push(msg).expect("there is space"));
    assert_eq!(socket.flush(&mut queue).expect("the first call takes them"), 256);
    assert_eq!((socket.0.get(), queue.len()), (2, 44));
    assert_eq!(socket.flush(&mut queue).expect("the rest is taken"), 44);

    let (socket, mut failed) = (Once::default(), Vec::new());
    let done = socket.send_each(messages(&data), |i, error| failed.push((i, error.kind())));
    assert_eq!(done.expect("the socket takes messages"), 300);
    assert_eq!(failed, [(256, ErrorKind::ConnectionRefused)]);
}

#[test]
fn d11_failures_are_not_offered_with_all_that_follow_them() {
    /// Rejects bad messages and counts the messages offered.
    struct OfferCounter(Cell<usize>);
    impl BatchSocket for OfferCounter {
        fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
            Ok(0)
        }
        fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
            self.0.set(self.0.get() + msgs.len());
            match msgs.iter().position(|msg| msg.slices().next() == Some(BAD)) {
                Some(0) => Err(ErrorKind::InvalidInput.into()),
                Some(good) => Ok(good),
                None => Ok(msgs.len()),
            }
        }
    }
    const N: usize = 4_096;
    // Bad messages: all, none, every second, every hundredth, only the first.
    for every in [1, usize::MAX, 2, 100, N] {
        let bad = |i: usize| i % every == 0 && every < usize::MAX;
        let msgs: Vec<_> =
            (0..N).map(|i| SendMsg::new(if bad(i) { BAD } else { b"good" })).collect();
        let (counting, mut failed) = (OfferCounter(Cell::new(0)), Vec::new());
        let done = counting.send_each(&msgs, &mut |i, _| failed.push(i)).expect("no error");
        assert_eq!((done, failed), (N, (0..N).filter(|i| bad(*i)).collect()));
        assert!(counting.0.get() <= 4 * N, "{} offered, every {every}th bad", counting.0.get());
    }
}

/// Receives twice and returns the second datagram, like a double that drops some.
struct Second<'a>(&'a std::net::UdpSocket);

impl BatchSocket for Second<'_> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        self.0.recv_batch(&mut msgs[..1])?;
        let _ = Ancillary::HOP_LIMIT.disable(self.0)?;
        self.0.recv_batch(&mut msgs[..1])
    }

    fn send_batch(&self, _: &[SendMsg<'_>]) -> io::Result<usize> {
        Ok(0)
    }
}

#[test]
fn r2_metadata_of_a_skipped_datagram_does_not_reach_the_next() {
    let socket = udp4();
    let enabled = Ancillary::HOP_LIMIT.enable(&socket).expect("a socket");
    let to = socket.local_addr().expect("it is bound");
    socket.send_to(b"first", to).expect("it is taken");
    socket.send_to(b"second", to).expect("it is taken");
    let mut batch = RecvBatch::new(2, 8);
    assert_eq!(Second(&socket).recv_into(&mut batch).expect("both are there"), 1);
    let second = batch.iter().next().expect("one was counted");
    assert_eq!((second.data(), second.meta().hop_limit), (&b"second"[..], None), "{enabled:?}");
}

/// Receives any number of messages and returns any count.
struct Miscounting {
    count: usize,
    meta: RecvMeta,
}

impl BatchSocket for Miscounting {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        if let Some(msg) = msgs.first_mut() {
            msg.fill(b"the only one", None, self.meta);
        }
        Ok(self.count)
    }

    fn send_batch(&self, _: &[SendMsg<'_>]) -> io::Result<usize> {
        Ok(self.count)
    }
}

#[test]
fn d16_a_count_larger_than_the_buffers_is_clamped() {
    for (count, size) in [(usize::MAX, None), (33, Some(1)), (usize::MAX / 2 + 1, Some(65_535))] {
        let mut meta = RecvMeta::default();
        meta.segment_size = size;
        let liar = Miscounting { count, meta };
        for slots in [1, 5, 40] {
            let mut batch = RecvBatch::new(slots, 8);
            let n = liar.recv_into(&mut batch).expect("it never fails");
            assert_eq!((n, batch.message_count()), (slots.min(16), slots.min(16)));
            assert_eq!(batch.messages().count(), n);
            let bytes: usize = batch.iter().map(|datagram| datagram.len()).sum();
            assert_eq!(bytes, 8);
            assert!(batch.messages().next().is_some_and(|message| message.truncated()));
        }
    }
}

/// Receives messages and moves those that it keeps to the front.
struct Picky<'a>(&'a Double);

impl BatchSocket for Picky<'_> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        let count = self.0.recv_batch(msgs)?;
        let mut kept = 0;
        for i in 0..count {
            if msgs[i].data().first() != Some(&b'-') {
                msgs.swap(kept, i);
                kept += 1;
            }
        }
        Ok(kept)
    }

    fn send_batch(&self, _: &[SendMsg<'_>]) -> io::Result<usize> {
        Ok(0)
    }
}

#[test]
fn d16_a_message_that_a_double_moves_out_of_its_slot_is_truncated() {
    let sent = ["one", "-no", "two", "-never", "three"].map(|data| data.as_bytes().to_vec());
    let double = Double::with_inbox(&sent);
    let mut batch = RecvBatch::new(8, 8);
    assert_eq!(Picky(&double).recv_into(&mut batch).expect("three are kept"), 3);
    let got: Vec<_> = batch.messages().map(|m| (m.data(), m.truncated(), m.addr())).collect();
    let from = batch.message(0).and_then(|message| message.addr());
    assert!(from.is_some());
    assert_eq!(got, [(&b"one"[..], false, from), (b"", true, from), (b"", true, from)]);
}

/// Replaces the memory that it was given with its own or none.
struct Changeling;

impl BatchSocket for Changeling {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        /// Addresses of the memory, which is never freed; a leak checker finds it here.
        static MEMORY: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        for msg in msgs.iter_mut() {
            let memory = Box::leak(Box::new([0; 16]));
            MEMORY.lock().expect("nobody panics with it").push(memory.as_ptr().addr());
            *msg = RecvMsg::new(memory);
            msg.fill(b"from elsewhere", None, RecvMeta::default());
        }
        msgs[1] = RecvMsg::new(&mut []);
        msgs[1].fill(b"nowhere", None, RecvMeta::default());
        Ok(msgs.len())
    }

    fn send_batch(&self, _: &[SendMsg<'_>]) -> io::Result<usize> {
        Ok(0)
    }
}

#[test]
fn d16_a_double_that_fills_other_memory_shows_no_bytes_of_another_message() {
    let mut batch = RecvBatch::new(2, 8);
    let double = Double::with_inbox(&[b"earlier".to_vec(), b"earlier".to_vec()]);
    assert_eq!(double.recv_into(&mut batch).expect("both are there"), 2);
    assert_eq!(Changeling.recv_into(&mut batch).expect("both are filled"), 2);
    assert!(batch.iter().all(|datagram| datagram.is_empty() && datagram.truncated()));
    assert_eq!(batch.iter().count(), 2);
}

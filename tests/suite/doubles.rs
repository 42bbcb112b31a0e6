//! Stand-ins for a socket: two methods are required, and all others work by them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Mutex;

use mmsg::{
    Ancillary, BatchSocket, BatchSocketExt, RecvBatch, RecvFlags, RecvMeta, RecvMsg, SendMsg,
    SendQueue,
};

use crate::common::recv::{data_of, memory, recv_msgs};
use crate::common::sockets::udp4;
use crate::common::{numbered, would_block};

/// A socket in memory: it stores what is sent, and receives what is put in its inbox.
#[derive(Default)]
struct Double {
    inbox: RefCell<VecDeque<Vec<u8>>>,
    sent: RefCell<Vec<Vec<u8>>>,
    /// How many datagrams it takes before it is full.
    capacity: Cell<usize>,
    send_calls: Cell<usize>,
    /// The metadata of every datagram it gives out.
    addr: Option<SocketAddr>,
    meta: RecvMeta,
}

/// A payload that the double rejects.
const BAD: &[u8] = b"bad";

impl Double {
    fn with_capacity(capacity: usize) -> Self {
        Self { capacity: capacity.into(), ..Self::default() }
    }

    fn with_inbox(datagrams: &[Vec<u8>]) -> Self {
        let addr = Some(SocketAddr::from(([192, 0, 2, 7], 7)));
        Self { inbox: RefCell::new(datagrams.to_vec().into()), addr, ..Self::default() }
    }
}

impl BatchSocket for Double {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        let mut inbox = self.inbox.borrow_mut();
        let count = msgs.len().min(inbox.len());
        for (msg, data) in msgs.iter_mut().zip(inbox.drain(..count)) {
            msg.fill(&data, self.addr, self.meta);
        }
        if count == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        self.send_calls.set(self.send_calls.get() + 1);
        for (i, msg) in msgs.iter().enumerate() {
            let data = msg.slices().collect::<Vec<_>>().concat();
            let error = match self.capacity.get() {
                0 => ErrorKind::WouldBlock,
                _ if data == BAD => ErrorKind::InvalidInput,
                capacity => {
                    self.capacity.set(capacity - 1);
                    self.sent.borrow_mut().push(data);
                    continue;
                }
            };
            return if i == 0 { Err(error.into()) } else { Ok(i) };
        }
        Ok(msgs.len())
    }
}

fn messages(data: &[Vec<u8>]) -> Vec<SendMsg<'_>> {
    data.iter().map(|data| SendMsg::new(data)).collect()
}

#[test]
fn a_double_is_received_into_a_batch() {
    let data = numbered(70, 20);
    let double = Double::with_inbox(&data);
    let double: &dyn BatchSocket = &double;
    let mut batch = RecvBatch::new(50, 32);
    let mut got = Vec::new();
    while got.len() < data.len() {
        let count = double.recv_into(&mut batch).expect("more is there");
        assert_eq!((batch.message_count(), batch.iter().count()), (count, count));
        assert!(batch.iter().all(|datagram| datagram.addr().is_some() && !datagram.truncated()));
        got.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
    }
    assert_eq!(got, data);
    assert!(would_block(double.recv_into(&mut batch)));
    assert!(batch.is_empty());
}

#[test]
fn a_batch_goes_from_a_double_to_a_socket_and_back() {
    let socket = udp4();
    let mut batch = RecvBatch::new(4, 8);
    for _ in 0..2 {
        let double =
            Double::with_inbox(&[b"short".to_vec(), b"much too long".to_vec(), Vec::new()]);
        assert_eq!(double.recv_into(&mut batch).expect("three are there"), 3);
        let reported: Vec<_> =
            batch.messages().map(|m| (m.data(), m.truncated(), m.full_len())).collect();
        let expected =
            [(&b"short"[..], false, Some(5)), (b"much too", true, Some(13)), (b"", false, Some(0))];
        assert_eq!(reported, expected);
        assert!(batch.messages().all(|message| message.addr() == double.addr));

        let to = socket.local_addr().expect("it is bound");
        socket.send_to(b"real", to).expect("it is taken");
        assert_eq!(socket.recv_into(&mut batch).expect("it is there"), 1);
        let real = batch.iter().next().expect("one was counted");
        assert_eq!((real.data(), real.addr(), real.truncated()), (&b"real"[..], Some(to), false));
    }
}

#[test]
fn a_double_may_give_coalesced_messages() {
    let mut double = Double::with_inbox(&[b"aabbc".to_vec(), b"dd".to_vec()]);
    double.meta.segment_size = Some(2);
    let mut memory = [vec![0; 3], vec![0; 8]];
    let mut buffers = memory.each_mut().map(|part| IoSliceMut::new(part));
    let mut msgs = [RecvMsg::scatter(&mut buffers)];
    assert_eq!(double.recv_batch(&mut msgs).expect("two are there"), 1);
    let split = msgs[0].datagrams().map(|d| d.slices().collect::<Vec<_>>().concat());
    assert!(split.eq([&b"aa"[..], b"bb", b"c"]));

    double.inbox.borrow_mut().push_front(b"xxyyz".to_vec());
    let mut batch = RecvBatch::new(4, 8);
    assert_eq!(double.recv_into(&mut batch).expect("two are there"), 2);
    assert!(batch.iter().map(|d| d.data()).eq([&b"xx"[..], b"yy", b"z", b"dd"]));
}

#[test]
fn a_double_without_flags_says_so() {
    let double = Double::with_inbox(&[b"data".to_vec()]);
    let mut memory = memory(2, 8);
    let mut msgs = recv_msgs(&mut memory);
    let mut batch = RecvBatch::new(2, 8);
    for flags in [RecvFlags::PEEK, RecvFlags::DONT_WAIT, RecvFlags::FULL_LEN] {
        let error = double.recv_batch_with(&mut msgs, flags).expect_err("it knows none");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let error = double.recv_into_with(&mut batch, flags).expect_err("it knows none");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    assert_eq!(double.recv_batch_with(&mut msgs, RecvFlags::NONE).expect("one is there"), 1);
    assert_eq!(data_of(&msgs[..1]), [b"data"]);
}

#[test]
fn a_double_sends_from_an_iterator() {
    for count in [0, 1, 63, 64, 65, 128, 200] {
        let data = numbered(count, 8);
        let double = Double::with_capacity(1_000);
        let sent = double.send_iter(messages(&data)).expect("there is space");
        assert_eq!((sent, double.sent.take()), (count, data));
    }
    // It accepts 40 of 100, and then none.
    let data = numbered(100, 8);
    let double = Double::with_capacity(40);
    assert_eq!(double.send_iter(messages(&data)).expect("40 are taken"), 40);
    assert!(would_block(double.send_iter(messages(&data[40..]).into_iter())));
    assert_eq!(double.sent.take(), data[..40]);
}

#[test]
fn a_double_is_flushed_in_order_and_keeps_the_rest() {
    let data = numbered(200, 8);
    let mut queue = SendQueue::new(1 << 16);
    for msg in messages(&data) {
        queue.push(&msg).expect("there is space");
    }
    let double = Double::default();
    let mut done = 0;
    for capacity in [1, 31, 32, 33, 3, 100] {
        double.capacity.set(capacity);
        let mut left = capacity;
        while left > 0 {
            let taken = double.flush(&mut queue).expect("it has space");
            assert_eq!(taken, left.min(64), "one call at a time");
            left -= taken;
        }
        done += capacity;
        assert_eq!((queue.len(), double.capacity.get()), (200 - done, 0));
        if done < 200 {
            assert!(would_block(double.flush(&mut queue)));
        }
    }
    assert_eq!(double.sent.take(), data);
    double.send_calls.set(0);
    assert_eq!(double.flush(&mut queue).expect("nothing to do"), 0);
    assert_eq!(double.send_calls.get(), 0, "nothing is no call");
}

#[test]
fn a_double_sends_each_and_reports_failures() {
    let mut data = numbered(100, 8);
    for index in [0, 1, 50, 99] {
        data[index] = BAD.to_vec();
    }
    let double = Double::with_capacity(1_000);
    let mut failed = Vec::new();
    let mut note = |index, error: io::Error| failed.push((index, error.kind()));
    let done = double.send_each(messages(&data), &mut note).expect("there is space");
    assert_eq!(done, 100);
    assert_eq!(failed, [0, 1, 50, 99].map(|index| (index, ErrorKind::InvalidInput)));
    let good: Vec<_> = data.iter().filter(|data| *data != BAD).cloned().collect();
    assert_eq!(double.sent.take(), good);

    // It is full in between: the messages from there on are neither sent nor reported.
    double.capacity.set(10);
    let mut failed = Vec::new();
    let mut note = |index, _| failed.push(index);
    assert_eq!(double.send_each(messages(&data), &mut note).expect("ten are taken"), 12);
    assert_eq!(failed, [0, 1]);
    let nothing = double.send_each(messages(&data[12..]), |_, _| ());
    assert!(would_block(nothing));
}

#[test]
fn a_double_that_sends_nothing_without_an_error_ends_the_call() {
    struct Stubborn;
    impl BatchSocket for Stubborn {
        fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
            Ok(0)
        }
        fn send_batch(&self, _: &[SendMsg<'_>]) -> io::Result<usize> {
            Ok(0)
        }
    }
    let data = numbered(3, 8);
    let mut queue = SendQueue::new(1_000);
    queue.push(&SendMsg::new(b"data")).expect("there is space");
    let none = |_, _| panic!("nothing failed");
    assert_eq!(Stubborn.send_each(messages(&data), none).expect("no error"), 0);
    assert_eq!(Stubborn.send_iter(messages(&data)).expect("no error"), 0);
    assert_eq!(Stubborn.flush(&mut queue).expect("no error"), 0);
    assert_eq!(queue.len(), 1);
    assert_eq!(Stubborn.recv_into(&mut RecvBatch::new(2, 2)).expect("no error"), 0);
}

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
    for says in [31, 32, 63, 64, 65, 1_000, usize::MAX / 2, usize::MAX - 1, usize::MAX] {
        for count in [0, 1, 31, 32, 33, 64, 100] {
            let data = numbered(count, 8);
            let msgs = messages(&data);
            let liar = || Liar { says, calls: Cell::new(0) };
            let sent = liar().send_iter(&msgs).expect("no error");
            // It ends at the first step that is accepted in part.
            let expected = if says < 64 { count.min(says) } else { count };
            assert_eq!(sent, expected, "{count} from an iterator, {says}");

            let mut queue = SendQueue::new(1 << 16);
            msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
            let expected = count.min(says).min(64);
            assert_eq!(liar().flush(&mut queue).expect("no error"), expected);
            assert_eq!(queue.len(), count - expected);

            let none = |_, _| panic!("nothing failed");
            assert_eq!(liar().send_each(&msgs, none).expect("no error"), count);
        }
    }
}

#[test]
fn d16_a_double_that_stops_half_way_without_an_error_ends_every_call() {
    /// Accepts some messages, and from then on none.
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
    let data = numbered(200, 8);
    let msgs = messages(&data);
    for takes in [0, 1, 63, 64, 65, 128, 199] {
        let tired = || Tired(Cell::new(takes));
        assert_eq!(tired().send_iter(&msgs).expect("no error"), takes);
        let none = |_, _| panic!("nothing failed");
        assert_eq!(tired().send_each(&msgs, none).expect("no error"), takes);
        let mut queue = SendQueue::new(1 << 16);
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
        let tired = tired();
        while tired.flush(&mut queue).expect("no error") > 0 {}
        assert_eq!(queue.len(), 200 - takes);
    }
}

#[test]
fn r11_a_double_is_flushed_without_losing_an_error_that_it_has_once() {
    /// Returns an error from its second call, about a datagram that has left.
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
    let (socket, data) = (Once::default(), numbered(100, 8));
    let mut queue = SendQueue::new(1 << 16);
    messages(&data).iter().for_each(|msg| queue.push(msg).expect("there is space"));
    assert_eq!(socket.flush(&mut queue).expect("the first call takes them"), 64);
    let error = socket.flush(&mut queue).expect_err("it is not lost");
    assert_eq!((error.kind(), queue.len()), (ErrorKind::ConnectionRefused, 36));
    assert_eq!(socket.flush(&mut queue).expect("the rest is taken"), 36);
}

#[test]
fn d11_failures_are_not_offered_with_all_that_follow_them() {
    /// Rejects the bad ones, and counts what it is offered.
    struct Counting(Cell<usize>);
    impl BatchSocket for Counting {
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
    // All, none, every other one, every hundredth, and only the first.
    for every in [1, usize::MAX, 2, 100, N] {
        let bad = |i: usize| i % every == 0 && every < usize::MAX;
        let msgs: Vec<_> =
            (0..N).map(|i| SendMsg::new(if bad(i) { BAD } else { b"good" })).collect();
        let (counting, mut failed) = (Counting(Cell::new(0)), Vec::new());
        let done = counting.send_each(&msgs, &mut |i, _| failed.push(i)).expect("no error");
        assert_eq!((done, failed), (N, (0..N).filter(|i| bad(*i)).collect()));
        assert!(counting.0.get() <= 4 * N, "{} offered, every {every}th bad", counting.0.get());
    }
}

#[test]
fn r8_an_empty_message_with_a_segment_size_is_one_datagram() {
    let mut meta = RecvMeta::default();
    meta.segment_size = Some(0);
    let double = Double { meta, ..Double::with_inbox(&[b"one".to_vec()]) };
    let mut batch = RecvBatch::new(2, 8);
    assert_eq!(double.recv_into(&mut batch).expect("it is there"), 1);
    assert_eq!(batch.iter().map(|datagram| datagram.data()).collect::<Vec<_>>(), [b"one"]);
}

/// Receives twice and returns the second datagram, like a stand-in that drops some.
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

/// Receives any messages and returns any count.
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
            assert_eq!((n, batch.message_count()), (slots.min(32), slots.min(32)));
            assert_eq!(batch.messages().count(), n);
            let bytes: usize = batch.iter().map(|datagram| datagram.len()).sum();
            assert_eq!(bytes, 8);
            assert!(batch.messages().next().is_some_and(|message| message.truncated()));
        }
    }
}

/// Receives, and moves the messages that it keeps to the front.
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
fn d16_a_double_may_put_messages_in_another_order() {
    let sent = ["-no", "one", "-never", "two", "three"].map(|data| data.as_bytes().to_vec());
    let double = Double::with_inbox(&sent);
    let mut batch = RecvBatch::new(8, 8);
    assert_eq!(Picky(&double).recv_into(&mut batch).expect("three are kept"), 3);
    assert!(batch.iter().map(|datagram| datagram.data()).eq([&b"one"[..], b"two", b"three"]));
}

/// Puts memory of its own in the place of the memory that it was given.
struct Changeling;

impl BatchSocket for Changeling {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        /// Where the memory is, which is never freed: for a leak checker to find.
        static MEMORY: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        for msg in msgs.iter_mut() {
            let memory = Box::leak(Box::new([0; 16]));
            MEMORY.lock().expect("nobody panics with it").push(memory.as_ptr().addr());
            *msg = RecvMsg::new(memory);
            msg.fill(b"from elsewhere", None, RecvMeta::default());
        }
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

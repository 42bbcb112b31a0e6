//! Stand-ins for a socket: two methods are required, and all others work by them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;

use mmsg::{
    BatchSocket, BatchSocketExt, RecvBatch, RecvFlags, RecvMeta, RecvMsg, SendMsg, SendQueue,
};

use crate::common::recv::{data_of, memory, recv_msgs};
use crate::common::sockets::udp4;
use crate::common::{numbered, would_block};

/// A socket in memory: it stores the messages it sends, and receives those in its inbox.
#[derive(Default)]
pub(super) struct Double {
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
pub(super) const BAD: &[u8] = b"bad";

impl Double {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { capacity: capacity.into(), ..Self::default() }
    }

    pub(super) fn with_inbox(datagrams: &[Vec<u8>]) -> Self {
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

pub(super) fn messages(data: &[Vec<u8>]) -> Vec<SendMsg<'_>> {
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

#[test]
fn r8_an_empty_message_with_a_segment_size_is_one_datagram() {
    let mut meta = RecvMeta::default();
    meta.segment_size = Some(0);
    let double = Double { meta, ..Double::with_inbox(&[b"one".to_vec()]) };
    let mut batch = RecvBatch::new(2, 8);
    assert_eq!(double.recv_into(&mut batch).expect("it is there"), 1);
    assert_eq!(batch.iter().map(|datagram| datagram.data()).collect::<Vec<_>>(), [b"one"]);
}

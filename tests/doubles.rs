//! Test doubles: `recv_batch` and `send_batch` are enough for all other methods to work. Doubles that return wrong
//! counts overflow nothing, and all calls end.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;

use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, RecvMeta, RecvMsg, SendMsg};
use proptest::prelude::*;

use common::sockets::udp4;
use common::{SendsBy, errno, msgs, no_failure, numbered, queue_of, would_block};

/// Doubles use no backend.
const BACKEND: Option<mmsg::Backend> = None;

/// An in-memory socket: stores sent messages, and receives from its inbox.
#[derive(Default)]
struct Double {
    inbox: RefCell<VecDeque<Vec<u8>>>,
    sent: RefCell<Vec<Vec<u8>>>,
    /// How many datagrams it accepts before it is full.
    capacity: Cell<usize>,
    send_calls: Cell<usize>,
    /// Source address of every received datagram.
    addr: Option<SocketAddr>,
    /// Metadata of every received message.
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

/// As an `Offload` does that would copy too much.
#[test]
fn short_counts_do_not_lead_to_short_calls() {
    let (calls, data) = (Cell::new(0), numbered(512, 8));
    let socket = SendsBy(|msgs: &[SendMsg<'_>]| {
        calls.set(calls.get() + 1);
        Ok(msgs.len().min(100))
    });
    assert_eq!(socket.send_each(msgs(&data), no_failure).expect("it takes some"), 512);
    // A chunk of 256 takes three calls.
    assert_eq!(calls.get(), 6);
}

#[test]
fn a_batch_goes_from_a_double_to_a_socket_and_back() {
    let socket = udp4();
    let mut batch = RecvBatch::new(4, 8);
    for _ in 0..2 {
        let mut double =
            Double::with_inbox(&[b"short".to_vec(), b"much too long".to_vec(), Vec::new()]);
        double.meta.tos = Some(3);
        assert_eq!(double.recv_into(&mut batch).expect("three are there"), 3);
        let reported: Vec<_> = batch.messages().map(|m| (m.data(), m.truncated())).collect();
        let expected = [(&b"short"[..], false), (b"much too", true), (b"", false)];
        assert_eq!(reported, expected);
        assert!(batch.messages().all(|message| message.addr() == double.addr));

        let to = socket.local_addr().expect("it is bound");
        socket.send_to(b"real", to).expect("it is taken");
        assert_eq!(socket.recv_into(&mut batch).expect("it is there"), 1);
        let real = batch.iter().next().expect("one was counted");
        assert_eq!((real.data(), real.addr(), real.truncated()), (&b"real"[..], Some(to), false));
        assert_eq!(*real.meta(), RecvMeta::default(), "the double's metadata is gone");
    }
}

/// The socket's answer must not stand after the double's.
#[test]
fn a_batch_is_not_drained_after_a_double_that_fails() {
    let socket = udp4();
    let mut batch = RecvBatch::new(4, 8);
    socket.send_to(b"real", socket.local_addr().expect("it is bound")).expect("it is taken");
    socket.recv_into(&mut batch).expect("it is there");
    assert!(batch.drained() || cfg!(not(target_os = "linux")));
    assert!(would_block(Double::default().recv_more(&mut batch)));
    assert!(!batch.drained());
}

#[test]
fn a_double_may_give_coalesced_messages() {
    let mut double = Double::with_inbox(&[b"aabbc".to_vec(), b"dd".to_vec()]);
    double.meta.segment_size = Some(2);
    let mut memory = [0; 8];
    let mut msgs = [RecvMsg::new(&mut memory)];
    assert_eq!(double.recv_batch(&mut msgs).expect("two are there"), 1);
    assert!(msgs[0].message().datagrams().map(|d| d.data()).eq([&b"aa"[..], b"bb", b"c"]));

    double.inbox.borrow_mut().push_front(b"xxyyz".to_vec());
    let mut batch = RecvBatch::new(4, 8);
    assert_eq!(double.recv_into(&mut batch).expect("two are there"), 2);
    assert!(batch.iter().map(|d| d.data()).eq([&b"xx"[..], b"yy", b"z", b"dd"]));

    // `recv_more` adds to them.
    double.inbox.borrow_mut().push_front(b"ee".to_vec());
    assert_eq!(double.recv_more(&mut batch).expect("one is there"), 1);
    assert_eq!(batch.iter().last().map(|d| d.data()), Some(&b"ee"[..]));
}

#[test]
fn empty_buffers_keep_their_places() {
    let double = Double::with_inbox(&vec![b"x".to_vec(); 4]);
    let mut memory = [0; 4];
    let mut buffers = [&mut [][..], &mut memory, &mut [], &mut []].map(IoSliceMut::new);
    let mut seen = Vec::new();
    let count = double.recv_slices(&mut buffers, &mut |i, message| seen.push((i, message.len())));
    assert_eq!(count.expect("four are there"), 4);
    assert_eq!(seen, [(0, 0), (1, 1), (2, 0), (3, 0)]);
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
    let done = double.send_each(msgs(&data), &mut note).expect("there is space");
    assert_eq!(done, 100);
    assert_eq!(failed, [0, 1, 50, 99].map(|index| (index, ErrorKind::InvalidInput)));
    let good: Vec<_> = data.iter().filter(|data| *data != BAD).cloned().collect();
    assert_eq!(double.sent.take(), good);

    // The double becomes full midway: later messages are neither sent nor reported.
    double.capacity.set(10);
    let mut failed = Vec::new();
    let mut note = |index, _| failed.push(index);
    assert_eq!(double.send_each(msgs(&data), &mut note).expect("ten are taken"), 12);
    assert_eq!(failed, [0, 1]);
    let nothing = double.send_each(msgs(&data[12..]), |_, _| ());
    assert!(would_block(nothing));
}

/// A debug build needs most stack, because it moves values through several frames.
#[test]
fn the_provided_methods_need_little_stack() {
    let data = numbered(300, 20);
    let double = || Double { capacity: 300.into(), ..Double::with_inbox(&data) };
    let receive_into = || {
        let mut batch = RecvBatch::new(32, 64);
        assert_eq!(double().recv_into(&mut batch).expect("more is there"), 16);
    };
    let through_dyn = || {
        let (double, mut queue) = (double(), queue_of(msgs(&data)));
        let socket: &dyn BatchSocket = &double;
        assert_eq!(socket.send_each(msgs(&data), no_failure).expect("there is space"), 300);
        double.capacity.set(300);
        let failed = |_: &SendMsg<'_>, error| panic!("{error}");
        assert_eq!(socket.flush_each(&mut queue, failed).expect("there is space"), 300);
    };
    let methods: [&(dyn Fn() + Sync); 2] = [&receive_into, &through_dyn];
    for method in methods {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            let thread = thread.spawn_scoped(scope, method).expect("a thread");
            thread.join().expect("the stack was large enough");
        });
    }
}

#[test]
fn an_error_behind_the_first_datagrams_ends_a_flush_with_a_count() {
    let (calls, data) = (Cell::new(0), numbered(300, 8));
    let socket = SendsBy(|msgs: &[SendMsg<'_>]| match calls.replace(calls.get() + 1) {
        1 => Err(ErrorKind::ConnectionRefused.into()),
        _ => Ok(msgs.len()),
    });
    let mut queue = queue_of(msgs(&data));
    assert_eq!(socket.flush(&mut queue).expect("the first call takes them"), 256);
    assert_eq!((calls.get(), queue.len()), (2, 44));
    assert_eq!(socket.flush(&mut queue).expect("the rest is taken"), 44);

    calls.set(0);
    let mut failed = Vec::new();
    let done = socket.send_each(msgs(&data), |i, error| failed.push((i, error.kind())));
    assert_eq!(done.expect("the socket takes messages"), 300);
    assert_eq!(failed, [(256, ErrorKind::ConnectionRefused)]);
}

/// The result of one call, decoded from a byte.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// The number of messages offered plus this number.
    Offered(usize),
    Count(usize),
    Error(ErrorKind),
    Errno(i32),
}

impl Answer {
    fn decode(byte: u8) -> Self {
        match byte % 16 {
            0..6 => Self::Offered(0),
            6 => Self::Offered(1),
            7 => Self::Count(usize::MAX),
            8 => Self::Count(usize::MAX - usize::from(byte / 16)),
            9 => Self::Count(0),
            10 | 11 => Self::Count(usize::from(byte / 16)),
            12 => Self::Error(ErrorKind::WouldBlock),
            13 => Self::Error(ErrorKind::Interrupted),
            14 => Self::Error(ErrorKind::Other),
            _ => Self::Errno(errno::ECONNREFUSED),
        }
    }

    fn give(self, offered: usize) -> io::Result<usize> {
        match self {
            Self::Offered(more) => Ok(offered + more),
            Self::Count(count) => Ok(count),
            Self::Error(kind) => Err(kind.into()),
            Self::Errno(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Repeats scripted results; panics when called too often.
struct Liar<'a> {
    answers: &'a [u8],
    asked: Cell<usize>,
    most: usize,
    /// The length of the datagrams that it receives.
    len: usize,
    segment_size: Option<u16>,
}

impl<'a> Liar<'a> {
    fn new(answers: &'a [u8], most: usize) -> Self {
        Self { answers, asked: Cell::new(0), most, len: 5, segment_size: None }
    }

    fn next(&self, offered: usize) -> io::Result<usize> {
        let asked = self.asked.get();
        assert!(asked < self.most, "a call that does not end");
        self.asked.set(asked + 1);
        Answer::decode(self.answers[asked % self.answers.len()]).give(offered)
    }
}

impl BatchSocket for Liar<'_> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        let count = self.next(msgs.len())?;
        let mut meta = RecvMeta::default();
        meta.segment_size = self.segment_size;
        // Sometimes fewer than the count says.
        let filled = msgs.iter_mut().take(count.saturating_sub(count % 2));
        filled.for_each(|msg| msg.fill(&vec![7; self.len], None, meta));
        Ok(count)
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        self.next(msgs.len())
    }
}

/// Whether an error only says that the socket accepts no message now.
fn is_about_no_message(kind: ErrorKind) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&kind)
}

fn answers() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..6)
}

proptest! {
    #[test]
    fn sends_on_a_double_that_lies_end_and_count_right(answers in answers(), n in 0usize..200) {
        let data = vec![[0u8; 4]; n];
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();

        let liar = Liar::new(&answers, n + 1);
        let mut last = None;
        let mut failed = 0;
        let done = liar.send_each(&msgs, |i, error: std::io::Error| {
            assert!(!is_about_no_message(error.kind()));
            assert!(i < n && last.is_none_or(|last| last < i), "{i} after {last:?}");
            last = Some(i);
            failed += 1;
        });
        match done {
            Ok(done) => prop_assert!(failed <= done && done <= n, "{} of {}", done, n),
            Err(error) => prop_assert!(is_about_no_message(error.kind()) && failed == 0),
        }

        let mut queue = queue_of(&msgs);
        for _ in 0..3 {
            let before = queue.len();
            let liar = Liar::new(&answers, before + 1);
            let sent = liar.flush(&mut queue).unwrap_or(0);
            prop_assert_eq!(queue.len() + sent, before);
        }
    }

    #[test]
    fn receives_on_a_double_that_lies_end_and_count_right(
        answers in answers(),
        slots in 1usize..70,
        slot_len in 1usize..9,
        len in 0usize..12,
        segment_size in prop::option::of(0u16..6),
    ) {
        let liar = Liar { len, segment_size, ..Liar::new(&answers, 2 * answers.len()) };
        let mut batch = RecvBatch::new(slots, slot_len);
        for _ in 0..answers.len() {
            let asked = liar.asked.get();
            let result = liar.recv_into(&mut batch);
            prop_assert!(liar.asked.get() <= asked + 1);
            let count = result.unwrap_or(0);
            prop_assert!(count <= slots);
            prop_assert_eq!((batch.message_count(), batch.messages().count()), (count, count));
            for message in batch.messages() {
                prop_assert!(message.data().len() <= slot_len);
                let bytes: usize = message.datagrams().map(|datagram| datagram.len()).sum();
                prop_assert_eq!(bytes, message.data().len());
            }
            let datagrams: usize = batch.messages().map(|msg| msg.datagrams().count()).sum();
            prop_assert_eq!(batch.iter().count(), datagrams);
            let mut memory = vec![[0; 8]; slots];
            let mut buffers: Vec<_> = memory.iter_mut().map(|m| IoSliceMut::new(m)).collect();
            let mut seen = 0;
            let count = liar.recv_slices(&mut buffers, &mut |_, _| seen += 1).unwrap_or(0);
            prop_assert!(count <= slots && count == seen);
        }
    }
}

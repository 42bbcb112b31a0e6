//! The trait's provided methods on a test double with arbitrary results: counts larger than the number offered,
//! endless zeros, random errors. They must neither panic nor overflow, must end, and must return plausible counts.

use std::cell::Cell;
use std::io::{self, ErrorKind};

use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, RecvMeta, RecvMsg, SendMsg, SendQueue};
use proptest::prelude::*;

use crate::common::errno;

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
    #![proptest_config(super::config())]

    #[test]
    fn sends_over_a_stand_in_that_lies_end_and_count_right(answers in answers(), n in 0usize..200) {
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

        let mut queue = SendQueue::new(1 << 20);
        msgs.iter().for_each(|msg| queue.push(msg).expect("it is ample"));
        for _ in 0..3 {
            let before = queue.len();
            let liar = Liar::new(&answers, before / 16 + 3);
            let sent = liar.flush(&mut queue).unwrap_or(0);
            prop_assert_eq!(queue.len() + sent, before);
        }
    }

    #[test]
    fn receives_over_a_stand_in_that_lies_end_and_count_right(
        answers in answers(),
        slots in 1usize..70,
        slot_len in 1usize..9,
        len in 0usize..12,
        segment_size in prop::option::of(0u16..6),
    ) {
        let liar = Liar { len, segment_size, ..Liar::new(&answers, answers.len()) };
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
        }
    }
}

//! The ways to send several messages and to receive them.

use std::io;

use crate::common::{no_failure, repetitions};
use crate::counting::{Counts, counted};
use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, RecvMsg, SendMsg, SendQueue};

/// Number of calls of each kind: on each backend, for each socket, direct and through `dyn`.
pub fn calls() -> usize {
    repetitions(1_000, 300)
}

#[derive(Clone, Copy, Debug)]
pub enum Way {
    Batch,
    Each,
    Flush,
    /// Closures write the payloads into the queue.
    FlushWritten,
}

impl Way {
    const ALL: [Self; 4] = [Self::Batch, Self::Each, Self::Flush, Self::FlushWritten];

    pub fn send<S: BatchSocket + ?Sized>(
        self,
        socket: &S,
        msgs: &[SendMsg<'_>],
        queue: &mut SendQueue,
    ) -> io::Result<usize> {
        match self {
            Self::Batch => socket.send_batch(msgs),
            Self::Each => socket.send_each(msgs, no_failure),
            Self::Flush => {
                for msg in msgs {
                    queue.push(msg)?;
                }
                socket.flush(queue)
            }
            Self::FlushWritten => {
                for msg in msgs {
                    let data = || msg.slices().flatten();
                    queue.push_with(
                        &SendMsg::new(&[]).with_dest(msg.dest().expect("it has one")),
                        2 * msg.len(),
                        |space| {
                            space.iter_mut().zip(data()).for_each(|(to, from)| *to = *from);
                            Some(msg.len())
                        },
                    )?;
                }
                socket.flush(queue)
            }
        }
    }
}

/// Receives with both kinds of calls.
struct Receiver<'a> {
    msgs: Vec<RecvMsg<'a>>,
    batch: RecvBatch,
}

impl Receiver<'_> {
    /// Receives `count` datagrams; with `check`, the calls must not allocate.
    fn take<S: BatchSocket + ?Sized>(&mut self, socket: &S, count: usize, into: bool, check: bool) {
        let mut taken = 0;
        while taken < count {
            let msgs = self.msgs.len().min(count - taken);
            let msgs = &mut self.msgs[..msgs];
            let ((result, datagrams), counts) = counted(|| {
                if into {
                    let result = socket.recv_into(&mut self.batch);
                    // Reading the datagrams must not allocate either.
                    let whole = self.batch.iter().filter(|d| !d.truncated() && d.addr().is_some());
                    return (result, whole.count());
                }
                let result = socket.recv_batch(msgs);
                let new = msgs[..*result.as_ref().unwrap_or(&0)].iter();
                (result, new.map(|msg| msg.message().datagrams().count()).sum())
            });
            assert!(!check || counts == Counts::NONE, "a receive allocates, into: {into}");
            result.expect("it was sent");
            taken += datagrams;
        }
        assert_eq!(taken, count, "more came than were sent");
    }
}

/// Sends these numbers of the messages in every way, after a warm-up with all, and receives them in slots of `len` bytes.
pub fn exchange<S: BatchSocket + ?Sized>(
    near: &S,
    far: &S,
    msgs: &[SendMsg<'_>],
    sizes: &[usize],
    (slots, len): (usize, usize),
) {
    let mut memory = vec![vec![0; len]; slots];
    let mut receiver = Receiver {
        msgs: memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect(),
        batch: RecvBatch::new(slots, len),
    };
    let mut queue = SendQueue::new(1 << 20);
    for way in Way::ALL {
        // Two rounds for each kind of receive, because a queue has two stages that alternate.
        for (i, size) in [msgs.len(); 4].iter().chain(sizes).enumerate() {
            let (sent, counts) = counted(|| way.send(near, &msgs[..*size], &mut queue));
            assert!(i < 4 || counts == Counts::NONE, "{way:?} allocates");
            assert_eq!(sent.expect("loopback takes it"), *size);
            receiver.take(far, *size, i % 2 == 0, i >= 4);
        }
    }
}

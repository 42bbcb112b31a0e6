//! The ways to send several messages.

use std::io;

use mmsg::{BatchSocket, BatchSocketExt, SendMsg, SendQueue};

#[derive(Clone, Copy, Debug)]
pub enum Way {
    Batch,
    Iter,
    Each,
    Flush,
}

impl Way {
    pub const ALL: [Self; 4] = [Self::Batch, Self::Iter, Self::Each, Self::Flush];

    pub fn send<S: BatchSocket + ?Sized>(
        self,
        socket: &S,
        msgs: &[SendMsg<'_>],
        queue: &mut SendQueue,
    ) -> io::Result<usize> {
        match self {
            Self::Batch => socket.send_batch(msgs),
            Self::Iter => socket.send_iter(msgs.iter().copied()),
            Self::Each => socket.send_each(msgs, |index, error| panic!("{index}: {error}")),
            Self::Flush => {
                for msg in msgs {
                    queue.push(msg)?;
                }
                socket.flush(queue)
            }
        }
    }
}

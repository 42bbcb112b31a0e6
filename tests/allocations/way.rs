//! The ways to send several messages.

use std::io;

use crate::common::no_failure;
use mmsg::{BatchSocket, BatchSocketExt, SendMsg, SendQueue};

#[derive(Clone, Copy, Debug)]
pub enum Way {
    Batch,
    Each,
    Flush,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Batch, Self::Each, Self::Flush];

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
        }
    }
}

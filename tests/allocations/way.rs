//! The ways to send several messages.

use std::io;

use crate::common::no_failure;
use mmsg::{BatchSocket, BatchSocketExt, SendMsg, SendQueue};

#[derive(Clone, Copy, Debug)]
pub enum Way {
    Batch,
    Each,
    Flush,
    /// Closures write the payloads into the queue.
    FlushWritten,
}

impl Way {
    pub const ALL: [Self; 4] = [Self::Batch, Self::Each, Self::Flush, Self::FlushWritten];

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

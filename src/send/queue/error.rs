//! Why a push into a queue fails.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a push into a [`SendQueue`](crate::SendQueue) failed.
///
/// ```
/// use mmsg::errors::PushError;
/// use mmsg::{SendMsg, SendQueue};
/// use std::io;
///
/// let mut queue = SendQueue::for_batch(1, 100);
/// queue.push(&SendMsg::new(&[0; 100]))?;
/// // Full: fits once the queue has been flushed.
/// assert_eq!(queue.push(&SendMsg::new(&[0; 100])), Err(PushError::Full));
/// // Too long: never fits this queue.
/// assert_eq!(queue.push(&SendMsg::new(&[0; 1000])), Err(PushError::TooLong));
/// assert_eq!(io::Error::from(PushError::TooLong).kind(), io::ErrorKind::InvalidInput);
/// # Ok::<(), PushError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// The queue is full. Flush, and push again.
    Full,
    /// The datagram, or all datagrams of one [`push_to_all`](crate::SendQueue::push_to_all), would not fit even an
    /// empty queue of this capacity. Or the closure of a [`push_with`](crate::SendQueue::push_with) returned more bytes
    /// than it was given.
    TooLong,
    /// The message has raw control messages.
    HasControl,
    /// The message goes to a [Unix address](crate::SendMsg::to_unix).
    HasUnixDest,
    /// There is no memory for the datagram.
    OutOfMemory,
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the send queue is full: flush it",
            Self::TooLong => "the datagram is longer than the send queue can hold, or than its max_len",
            Self::HasControl => "a send queue does not store raw control messages: send this message without a queue",
            Self::HasUnixDest => "a send queue does not store Unix addresses: send this message without a queue",
            Self::OutOfMemory => "there is no memory for the datagram",
        })
    }
}

impl Error for PushError {}

impl From<PushError> for io::Error {
    /// `Full` becomes `WouldBlock`, and `OutOfMemory` stays `OutOfMemory`; neither allocates. Every other error becomes an
    /// `InvalidInput` that contains it.
    fn from(error: PushError) -> Self {
        match error {
            PushError::Full => io::ErrorKind::WouldBlock.into(),
            PushError::OutOfMemory => io::ErrorKind::OutOfMemory.into(),
            _ => Self::new(io::ErrorKind::InvalidInput, error),
        }
    }
}

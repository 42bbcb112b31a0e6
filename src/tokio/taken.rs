//! Messages from an iterator, stored while their socket is waited for.

use std::array;
use std::io;
use std::ops::Range;

use crate::send::msg::SendMsg;
use crate::socket::{BatchSocket, Offer};

/// A message or a reference to one: the items of iterators that [`AsyncBatchSocket`](crate::AsyncBatchSocket) sends.
///
/// `AsSendMsg` replaces `Borrow<SendMsg<'m>>`, whose lifetime keeps rustc from seeing that the future of a slice is `Send`.
///
/// ```
/// use mmsg::{AsSendMsg, SendMsg};
///
/// /// Bytes in all messages, which may be messages or references.
/// fn bytes<M: AsSendMsg>(msgs: impl IntoIterator<Item = M>) -> usize {
///     msgs.into_iter().map(|msg| msg.as_send_msg().len()).sum()
/// }
/// let msgs = [SendMsg::new(b"one"), SendMsg::new(b"three")];
/// assert_eq!((bytes(&msgs), bytes(msgs)), (8, 8));
/// ```
pub trait AsSendMsg: Send + Sync {
    /// The message.
    fn as_send_msg(&self) -> SendMsg<'_>;
}

impl AsSendMsg for SendMsg<'_> {
    fn as_send_msg(&self) -> SendMsg<'_> {
        *self
    }
}

impl<M: AsSendMsg + ?Sized> AsSendMsg for &M {
    fn as_send_msg(&self) -> SendMsg<'_> {
        (**self).as_send_msg()
    }
}

/// Messages taken from an iterator, stored until they are handled: an iterator yields each of them once.
pub(super) struct Taken<M> {
    msgs: [Option<M>; Offer::MOST],
    pub(super) count: usize,
}

impl<M: AsSendMsg> Taken<M> {
    pub(super) fn take(msgs: &mut impl Iterator<Item = M>) -> Self {
        let msgs = array::from_fn(|_| msgs.next());
        let count = msgs.iter().filter(|msg| msg.is_some()).count();
        Self { msgs, count }
    }

    /// Whether message `i` has a destination of its own.
    pub(super) fn has_dest(&self, i: usize) -> bool {
        self.msgs[i].as_ref().is_some_and(|msg| msg.as_send_msg().dest().is_some())
    }

    pub(super) fn send(&self, socket: &dyn BatchSocket, range: Range<usize>) -> io::Result<usize> {
        let count = range.len();
        let mut msgs = [SendMsg::new(&[]); Offer::MOST];
        for (slot, msg) in msgs.iter_mut().zip(self.msgs[range].iter().flatten()) {
            *slot = msg.as_send_msg();
        }
        socket.send_batch(&msgs[..count])
    }
}

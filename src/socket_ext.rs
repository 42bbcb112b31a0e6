//! The calls of [`BatchSocket`] that take any iterator and any closure.

use std::borrow::Borrow;
use std::io;

use crate::send::msg::SendMsg;
use crate::socket::BatchSocket;

/// Sends from iterators, on every [`BatchSocket`], `dyn BatchSocket` included.
///
/// A trait of its own, since a method with type parameters cannot be called on `dyn BatchSocket`.
/// There is nothing to implement.
///
/// An iterator may give messages or references to them, so slices and arrays will do as well.
pub trait BatchSocketExt: BatchSocket {
    /// Sends what an iterator gives, without collecting it first, and returns how many messages
    /// the kernel has taken.
    ///
    /// Stops at the first message that the kernel does not take, as
    /// [`send_batch`](BatchSocket::send_batch) does; a server, whose messages are of different
    /// peers, goes on by [`send_each`](Self::send_each). The iterator may have been advanced past
    /// that message, by at most 1,024: take what is to be sent again from its source.
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let sent = socket.send_iter(["one", "two"].map(|text| SendMsg::to(to, text.as_bytes())))?;
    /// assert_eq!(sent, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What the system says of the first message; nothing was sent then.
    fn send_iter<'m, M>(&self, msgs: impl IntoIterator<Item = M>) -> io::Result<usize>
    where
        M: Borrow<SendMsg<'m>>,
    {
        self.send_iter_dyn(&mut msgs.into_iter().map(|msg| *msg.borrow()))
    }

    /// Sends every message that can be sent: goes on past one that fails, and calls `on_error` with
    /// its index and its error.
    ///
    /// Returns how many messages were handled, that is sent or reported to `on_error`. That is all
    /// of them, unless a non-blocking socket takes no more for now: sending stops there. If `n`
    /// were handled, the messages from index `n` on were neither sent nor reported. The iterator
    /// may have been advanced past them, by at most 64: take them from its source again, or use a
    /// [`SendQueue`](crate::SendQueue), which keeps what the socket does not take.
    ///
    /// On a connected socket `ConnectionRefused` is about a datagram sent earlier; the message at
    /// the reported index was not sent.
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # client.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// socket.recv_into(&mut batch)?;
    /// // Back to where each came from, out of the memory it was received into.
    /// let replies = batch.iter().filter_map(|d| d.reply(d.data()));
    /// let n = socket.send_each(replies, |index, error| eprintln!("reply {index}: {error}"))?;
    /// # assert_eq!(n, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// From a slice:
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let too_long = vec![0; 70_000];
    /// let msgs = [SendMsg::to(to, b"good"), SendMsg::to(to, &too_long), SendMsg::to(to, b"good")];
    /// let mut failed = Vec::new();
    /// let n = socket.send_each(&msgs, |index, _error| failed.push(index))?;
    /// assert_eq!((n, &failed[..]), (3, &[1][..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket does not take the first message now; nothing was sent or reported
    /// then. Every other error goes to `on_error`.
    fn send_each<'m, M>(
        &self,
        msgs: impl IntoIterator<Item = M>,
        mut on_error: impl FnMut(usize, io::Error),
    ) -> io::Result<usize>
    where
        M: Borrow<SendMsg<'m>>,
    {
        self.send_each_dyn(&mut msgs.into_iter().map(|msg| *msg.borrow()), &mut on_error)
    }
}

impl<T: BatchSocket + ?Sized> BatchSocketExt for T {}

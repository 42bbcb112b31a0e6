//! [`BatchSocketExt`]: the calls that take any iterator and any closure.

use std::borrow::Borrow;
use std::io::{self, IoSliceMut};

use super::{BatchSocket, Offer, provided};
use crate::recv::message::Message;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::sys::RecvFlags;

/// Sends from iterators and past errors, and receives into lent buffers, on every [`BatchSocket`],
/// `dyn BatchSocket` included.
///
/// A separate trait, since a method with type parameters cannot be called on `dyn BatchSocket`. Every
/// `BatchSocket` implements it.
///
/// Iterators may yield messages or references to them, so slices and arrays work as well.
///
/// ```
/// use mmsg::{BatchSocketExt, SendMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// let words = ["one", "two", "three"];
/// assert_eq!(socket.send_iter(words.map(|word| SendMsg::to(to, word.as_bytes())))?, 3);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait BatchSocketExt: BatchSocket {
    /// Receives at least one message, and further waiting ones, each into one of `buffers`, and calls
    /// `each` with the buffer's index and the message. Returns how many.
    ///
    /// For programs that lend buffers for each call, as QUIC stacks do: the buffers are all that they
    /// need, and no [`RecvMsg`](crate::RecvMsg)s are made. Headers, addresses and control data are in the
    /// thread's arena, so that [`Message::addr`], [`meta`](Message::meta) and the rest are to be read while
    /// `each` runs. The payload stays in the buffer. Nothing is allocated. `each` may itself send, for example a
    /// [`reply`](Message::reply).
    ///
    /// Messages come in the order in which they were received, into the first buffers in order. On an
    /// [`Offload`](crate::Offload) a coalesced message fills one buffer:
    /// [`segment_size`](crate::RecvMeta::segment_size) is the length of its datagrams, and
    /// [`Message::datagrams`] yields them.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocketExt};
    /// use std::io::IoSliceMut;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// Ancillary::TOS.require(&socket)?;
    /// let mut memory = [[0; 1500]; 32];
    /// let mut buffers = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
    /// let mut transmits = Vec::with_capacity(32);
    /// socket.recv_slices(&mut buffers, |_index, message| {
    ///     transmits.push((message.addr(), message.len(), message.meta().ecn()));
    /// })?;
    /// for ((addr, len, ecn), buffer) in transmits.iter().zip(&memory) {
    ///     println!("{:?} from {addr:?}, ECN {ecn:?}", &buffer[..*len]);
    /// }
    /// # assert_eq!((transmits[0].1, &memory[0][..5]), (5, &b"hello"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`recv_batch`](BatchSocket::recv_batch); `each` was not called.
    #[doc(alias = "recvmmsg")]
    fn recv_slices(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        mut each: impl FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        self.recv_slices_dyn(buffers, RecvFlags::NONE, &mut each)
    }

    /// Like [`recv_slices`](Self::recv_slices), with flags.
    ///
    /// ```
    /// use mmsg::{BatchSocketExt, RecvFlags};
    /// use std::io::IoSliceMut;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let mut buffer = [0; 1500];
    /// let buffers = &mut [IoSliceMut::new(&mut buffer)];
    /// let nothing = socket.recv_slices_with(buffers, RecvFlags::DONT_WAIT, |_, _| unreachable!());
    /// assert_eq!(nothing.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `recv_slices`; `Unsupported` if the implementation has no flags.
    fn recv_slices_with(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
        mut each: impl FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        self.recv_slices_dyn(buffers, flags, &mut each)
    }

    /// Sends messages from an iterator without collecting them, and returns how many the kernel
    /// accepted.
    ///
    /// Stops at the first message that the kernel does not accept, like
    /// [`send_batch`](BatchSocket::send_batch); a server with several peers uses
    /// [`send_each`](Self::send_each). The iterator may have advanced past that message, by at most
    /// 1,024 messages.
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
    /// A message borrows its options, so those that differ from message to message, a source address for
    /// example, are in a list that outlives the call. ECN bits and segment sizes are in the message itself.
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, SendMeta, SendMsg};
    /// # use std::net::{IpAddr, SocketAddr};
    /// # let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    /// # let to = SocketAddr::from(([127, 0, 0, 1], socket.local_addr()?.port()));
    /// # let answers = [(to, IpAddr::from([127, 0, 0, 1])); 2];
    /// let metas: Vec<_> =
    ///     answers.iter().map(|(_, source)| SendMeta::new().with_source(*source)).collect();
    /// let msgs = answers.iter().zip(&metas);
    /// let sent = socket.send_iter(msgs.map(|((to, _), meta)| SendMsg::to(*to, b"answer").with_meta(meta)))?;
    /// # assert_eq!(sent, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error for the first message; nothing was sent.
    fn send_iter<'m, M>(&self, msgs: impl IntoIterator<Item = M>) -> io::Result<usize>
    where
        M: Borrow<SendMsg<'m>>,
    {
        self.send_iter_dyn(&mut msgs.into_iter().map(|msg| *msg.borrow()))
    }

    /// Sends the messages in order and goes on past each that fails: calls `on_error` with its index and
    /// its error.
    ///
    /// Returns how many messages were *handled*: sent, or reported to `on_error`. The number sent is the number
    /// returned less the number reported. The call stops early only if a non-blocking socket accepts no more now:
    /// the returned number is then the index of the first message that was neither sent nor reported. The
    /// iterator may have advanced past that message, by at most 64 messages. A [`SendQueue`] holds messages until the
    /// socket accepts them.
    ///
    /// A reported message was not sent. On a connected UDP socket `ConnectionRefused` is about a datagram
    /// sent earlier: the message at the reported index was not tried, and is not offered again, so that
    /// a program may send the reported messages again without doubling one. While the peer rejects datagrams, this may
    /// be every second message.
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # client.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// socket.recv_into(&mut batch)?;
    /// // Each payload goes back to its source, from the memory it was received into.
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
    /// let handled = socket.send_each(&msgs, |index, _error| failed.push(index))?;
    /// assert_eq!((handled, &failed[..]), (3, &[1][..]));
    /// let sent = handled - failed.len();
    /// assert_eq!(sent, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket does not accept the first message now; nothing was sent or reported.
    /// Every other error goes to `on_error`.
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

    /// Sends the queue's datagrams in order and goes on past each that fails: calls `on_error` with the
    /// datagram and its error, and drops the datagram.
    ///
    /// Returns how many left the queue: sent, or reported to `on_error`. The number sent is the number
    /// returned less the number reported. The call stops early only if a non-blocking socket accepts no
    /// more now; the other datagrams stay in the queue.
    ///
    /// A reported datagram was not sent, as in [`send_each`](Self::send_each), which says what is special
    /// about `ConnectionRefused`.
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, SendMsg, SendQueue};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let mut queue = SendQueue::new(1 << 20);
    /// queue.push(&SendMsg::to(to, b"good"))?;
    /// queue.push(&SendMsg::to(to, &[0; 70_000]))?;
    /// queue.push(&SendMsg::to(to, b"good"))?;
    /// let mut failed = Vec::new();
    /// let n = socket.flush_each(&mut queue, |msg, _error| failed.push(msg.len()))?;
    /// assert_eq!((n, queue.len(), &failed[..]), (3, 0, &[70_000][..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket does not accept the first datagram now; the queue is unchanged. Every
    /// other error goes to `on_error`.
    fn flush_each(
        &self,
        queue: &mut SendQueue,
        mut on_error: impl FnMut(&SendMsg<'_>, io::Error),
    ) -> io::Result<usize> {
        let mut handled = 0;
        let mut offer = Offer::new();
        while !queue.is_empty() {
            let before = queue.len();
            let (offered, result) = if offer.is_most() {
                (before, self.flush(queue).map(|_| before.saturating_sub(queue.len())))
            } else {
                let offered = before.min(offer.count());
                (offered, provided::send_first(self, queue, offered))
            };
            match result {
                // An implementation that sends nothing and returns no error would be called for ever.
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if handled == 0 { Err(error) } else { Ok(handled) };
                }
                result => {
                    handled += offer.record(offered, result, |error| {
                        if let Some(front) = queue.front() {
                            on_error(&front, error);
                        }
                        queue.discard_front();
                    });
                }
            }
        }
        Ok(handled)
    }
}

impl<T: BatchSocket + ?Sized> BatchSocketExt for T {}

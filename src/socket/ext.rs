//! [`BatchSocketExt`], the calls that go on past errors.

use std::borrow::Borrow;
use std::io;
use std::time::Instant;

use super::BatchSocket;
use crate::recv::batch::RecvBatch;
use crate::send::chunk::{self, CHUNK};
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::sys::{self, AsSocket};

/// Sends from iterators and queues, and goes on past each message that fails.
///
/// Every [`BatchSocket`] implements it. `dyn BatchSocket` has all calls except `recv_more_until`. It is a separate trait
/// because a `dyn BatchSocket` cannot have methods with type parameters.
///
/// Iterators may yield messages or references to messages, so slices and arrays work as well.
///
/// ```
/// use mmsg::{BatchSocketExt, SendMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// let words = ["one", "two", "three"].map(|word| SendMsg::to(to, word.as_bytes()));
/// assert_eq!(socket.send_each(words, |i, error| eprintln!("{i}: {error}"))?, 3);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait BatchSocketExt: BatchSocket {
    /// Sends the messages in order. If one fails, calls `on_error` with its index and error, and goes on.
    ///
    /// Returns how many messages were *handled*: sent, or reported to `on_error`. Subtract the reported ones to get the
    /// number sent. The call stops early only if the socket is full, a signal ends a wait, or there is no memory for headers.
    /// It then returns the index of the first message that was neither sent nor reported. The iterator may have advanced up to
    /// 256 messages past it; use a [`SendQueue`] to keep messages until the socket accepts them.
    ///
    /// A reported message was not sent, so a program may send it again. `ConnectionRefused` on a connected UDP socket is
    /// about a datagram sent earlier: the call reports the next message, and does not try it again. While the peer rejects
    /// datagrams, up to half of the messages may be reported unsent. With `ERRORS` the same can happen on an unconnected
    /// socket, in a [flood of ICMP errors](BatchSocket#errors).
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # client.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// socket.recv_into(&mut batch)?;
    /// // Echoes each payload from the memory it was received into.
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
    /// `WouldBlock` if the socket is full, `Interrupted` if a signal ended a wait, or `OutOfMemory` without memory for
    /// headers, before any message was sent or reported. Every other error goes to `on_error`.
    #[doc(alias("sendmmsg", "send_to"))]
    fn send_each<'m, M>(
        &self,
        msgs: impl IntoIterator<Item = M>,
        mut on_error: impl FnMut(usize, io::Error),
    ) -> io::Result<usize>
    where
        M: Borrow<SendMsg<'m>>,
    {
        let mut msgs = msgs.into_iter().map(|msg| *msg.borrow()).fuse();
        let (mut handled, mut offer) = (0, OfferSize::new());
        let mut chunk = chunk::empty();
        loop {
            let mut left = chunk::fill(&mut chunk, CHUNK, &mut msgs);
            if left.is_empty() {
                return Ok(handled);
            }
            while !left.is_empty() {
                let offered = left.len().min(offer.count);
                let result = self.send_batch(&left[..offered]);
                match offer.record(offered, result, |error| on_error(handled, error)) {
                    Ok(0) => return Ok(handled),
                    Ok(done) => {
                        handled += done;
                        left = &left[done..];
                    }
                    Err(error) if handled == 0 => return Err(error),
                    Err(_) => return Ok(handled),
                }
            }
        }
    }

    /// Sends the queue's datagrams in order. If one fails, calls `on_error` with the datagram and its error, drops it, and
    /// goes on.
    ///
    /// Returns how many left the queue: sent, or reported to `on_error`. Subtract the reported ones to get the number
    /// sent. The call stops early only if the socket is full, a signal ends a wait, or there is no memory for headers; the
    /// other datagrams stay in the queue.
    ///
    /// A reported datagram was not sent. [`send_each`](Self::send_each) says what `ConnectionRefused` means.
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
    /// `WouldBlock` if the socket is full, `Interrupted` if a signal ended a wait, or `OutOfMemory` without memory for
    /// headers, before any datagram left the queue. Every other error goes to `on_error`.
    fn flush_each(
        &self,
        queue: &mut SendQueue,
        mut on_error: impl FnMut(&SendMsg<'_>, io::Error),
    ) -> io::Result<usize> {
        let (mut handled, mut offer) = (0, OfferSize::new());
        while !queue.is_empty() {
            let mut chunk = chunk::empty();
            let chunk = queue.fill(&mut chunk, offer.count);
            let result = self.send_batch(chunk);
            match offer.record(chunk.len(), result, |error| on_error(&chunk[0], error)) {
                Ok(0) => break,
                Ok(done) => {
                    queue.advance(done);
                    handled += done;
                }
                Err(error) if handled == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(handled)
    }

    /// Adds messages to `batch`, after those that it holds, until it is full or `deadline` passes. Returns how many it
    /// added.
    ///
    /// - After the deadline it still takes messages that are there. While more keep coming, only a full batch ends the call.
    /// - It may return a millisecond after the deadline, or later if the system does not run the thread.
    /// - Signals do not end the call.
    /// - While reports wait in the [error queue](crate::error_queue), it sleeps for a millisecond at a time, because `poll`
    ///   reports them for ever: 3 % of a CPU, until somebody drains the queue.
    /// - The socket may be blocking or non-blocking; its timeout has no effect. It must be non-blocking if its type has the
    ///   provided `recv_more`, or on Windows if another thread also receives from it.
    /// - The call needs a descriptor, so it is not on `dyn BatchSocket`.
    ///
    /// With a full batch it returns 0 at once: [`clear`](RecvBatch::clear) the batch first. If it returns `Ok` before the
    /// deadline and the batch is not full, the socket was shut down.
    ///
    /// ```
    /// use mmsg::{RecvBatch, prelude::*};
    /// use std::time::{Duration, Instant};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(1000, 1500);
    /// loop {
    ///     batch.clear();
    ///     let deadline = Instant::now() + Duration::from_millis(50);
    ///     if let Err(error) = socket.recv_more_until(&mut batch, deadline) {
    ///         eprintln!("receive: {error}"); // The batch holds what came before.
    ///     }
    ///     println!("{} datagrams to store together", batch.datagram_count());
    /// #   break;
    /// }
    /// # assert_eq!(batch.message_count(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`recv_batch`](BatchSocket::recv_batch), except `WouldBlock` and `Interrupted`. The batch holds what
    /// came before the error.
    #[doc(alias("recvmmsg", "poll"))]
    fn recv_more_until(&self, batch: &mut RecvBatch, deadline: Instant) -> io::Result<usize>
    where
        Self: AsSocket,
    {
        let before = batch.message_count();
        let (mut shut_down, mut again) = (false, false);
        while batch.message_count() < batch.slots() {
            let held = batch.message_count();
            let left = deadline.saturating_duration_since(Instant::now());
            match self.recv_more(batch) {
                Ok(_) if batch.message_count() <= held => break,
                Ok(_) => again = false,
                Err(error) if is_temporary(&error) => {
                    if left.is_zero() || shut_down {
                        break;
                    }
                    // Messages may have come between the receive and the shutdown.
                    shut_down = !sys::wait_readable(sys::borrow(self), left, again);
                    again = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(batch.message_count().saturating_sub(before))
    }
}

impl<T: BatchSocket + ?Sized> BatchSocketExt for T {}

/// Whether an error is about no message: the socket is not ready, or a signal ended the call.
pub(crate) fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether there was no memory for headers. The system's own error of that kind is about a message.
fn is_out_of_memory(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory && error.raw_os_error().is_none()
}

/// How many messages to offer next: one after an error, since the next message often fails, too, and a single one costs
/// no more than `send_to`. Each success doubles the number. A short count halves it: an `Offload` may have ended a call that
/// would copy too much, or `sendmmsg` hides an error.
pub(crate) struct OfferSize {
    pub(crate) count: usize,
}

impl OfferSize {
    pub(crate) const fn new() -> Self {
        Self { count: CHUNK }
    }

    /// Adapts the count to the result of a send of `offered` messages. Returns how many were sent, or 1 for a message that
    /// `failed`.
    ///
    /// # Errors
    ///
    /// Those that are about no message: `WouldBlock`, `Interrupted`, and `OutOfMemory` of the library itself.
    #[inline]
    pub(crate) fn record(
        &mut self,
        offered: usize,
        result: io::Result<usize>,
        failed: impl FnOnce(io::Error),
    ) -> io::Result<usize> {
        match result {
            Ok(sent) => {
                let (doubled, halved) = ((2 * self.count).min(CHUNK), (offered / 2).max(1));
                self.count = if sent >= offered { doubled } else { halved };
                Ok(sent.min(offered))
            }
            Err(error) if is_temporary(&error) || is_out_of_memory(&error) => Err(error),
            Err(error) => {
                self.count = 1;
                failed(error);
                Ok(1)
            }
        }
    }
}

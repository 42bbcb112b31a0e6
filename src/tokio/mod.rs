//! Batches as futures, on the sockets of tokio.

#[cfg(linux_like)]
mod second;
#[cfg(not(linux_like))]
#[path = "no_second.rs"]
mod second;
#[cfg(all(test, mmsg_calls))]
mod tests;
mod wait;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::tokio::net::UdpSocket;

use crate::offload::Offload;
use crate::recv::batch::RecvBatch;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::socket::{BatchSocket, Offer};
use crate::sys::AsSocket;

/// The calls of [`BatchSocket`] that wait without blocking the thread, on tokio's
/// [`UdpSocket`] and on an [`Offload`] around one. Needs the feature `tokio`.
///
/// ```
/// use mmsg::{Ancillary, AsyncBatchSocket, RecvBatch, SendQueue};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// # let client = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// # client.send_to(b"hello", socket.local_addr()?).await?;
/// Ancillary::DEST.require(&socket)?; // Replies leave from the address that was asked.
/// let (mut batch, mut queue) = (RecvBatch::new(64, 1500), SendQueue::new(1 << 20));
/// loop {
///     if let Err(error) = socket.recv_into_async(&mut batch).await {
///         eprintln!("receive: {error}"); // The batch is empty, the socket as good as before.
///     }
///     let whole = batch.iter().filter(|d| !d.truncated());
///     for reply in whole.filter_map(|d| d.reply(d.data())) {
///         if let Err(error) = queue.push(&reply) {
///             eprintln!("reply: {error}"); // Only if it takes fewer bytes than a batch.
///         }
///     }
///     while let Err(error) = socket.flush_async(&mut queue).await {
///         eprintln!("reply: {error}"); // About the first in the queue: the others follow.
///         queue.discard_front();
///     }
/// #   break;
/// }
/// # assert_eq!(client.recv(&mut [0; 8]).await?, 5);
/// # Ok(())
/// # }
/// ```
///
/// The names end in `_async` since these sockets have [`BatchSocket`], too: both traits can be in
/// scope, and a call says which one is meant. `BatchSocket`'s own calls do not know of tokio; where
/// one is to be made on such a socket and may find nothing, it belongs into the socket's
/// [`try_io`](UdpSocket::try_io), so that tokio hears of it.
///
/// # What the futures come to
///
/// - The futures do what the calls of `BatchSocket` do on a blocking socket: a receive waits for its first
///   message, a send until the socket accepts one. None returns `WouldBlock`.
/// - All but [`send_each_async`](Self::send_each_async) are cancel safe: a dropped receive has received
///   nothing, and a dropped send has reported what it sent, or removed it from the queue. Use
///   [`poll_send_each`](Self::poll_send_each) where a send of a list may be dropped.
/// - An error is returned once. A deferred error (see [`BatchSocket`]) is returned at once, also if the
///   socket is not ready.
/// - An error of the socket wakes a waiting receive as well: it returns "connection refused" when that
///   arrives.
/// - Each system call costs one unit of the task's cooperative budget, so that a flooded socket leaves
///   other tasks their turn. A unit is a whole batch; smaller batches yield earlier.
/// - After the warm-up that `BatchSocket` describes, nothing allocates, but for waits
///   [after an error](#after-an-error).
///
/// # Hand-written futures
///
/// The `poll_` methods register the task to be woken. tokio remembers one task for each direction, the
/// last that polled; the futures remember every task. tokio wakes a task that waits by `poll_recv_` for
/// datagrams only: it meets an error with the next datagram, or the next send returns it.
///
/// # After an error
///
/// There is nothing to do: calls sleep until they can go on, and a task that waits for
/// [`Interest::ERROR`](::tokio::io::Interest::ERROR) is still woken while others receive. What it costs: on
/// Linux, after an ICMP error or a send timestamp, a send that finds the socket full registers it with
/// tokio a second time, and so does a receive that finds it empty while the error queue is not. The second
/// registration lasts as long as the call, allocates, and takes a file descriptor; without one the call
/// fails. It needs the context of a runtime with I/O enabled: outside of any runtime, the call is tried
/// again each time that the other tasks have had their turn.
///
/// The second registration belongs to the task, and so to the runtime, that polled last. Executors that
/// are not tokio's may poll with one waker in the context of several runtimes: there, poll a future in one
/// runtime only.
///
/// # Waiting for the error queue
///
/// [`ready`](UdpSocket::ready) returns at once, again and again, after the first error: tokio forgets
/// readiness only when a call returns `WouldBlock`. Drain the queue within
/// [`async_io`](UdpSocket::async_io), and return `WouldBlock` when it is empty:
///
/// ```
/// use mmsg::Ancillary;
/// use mmsg::error_queue::{Report, drain_errors};
/// use std::io;
/// use tokio::{io::Interest, net::UdpSocket};
///
/// /// Waits for at least one report.
/// async fn next_reports(socket: &UdpSocket, reports: &mut [Report]) -> io::Result<usize> {
///     let drain = || match drain_errors(socket, reports)? {
///         0 => Err(io::ErrorKind::WouldBlock.into()),
///         count => Ok(count),
///     };
///     socket.async_io(Interest::ERROR, drain).await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> io::Result<()> {
/// # let socket = UdpSocket::bind("127.0.0.1:0").await?;
///
/// Ancillary::ERRORS.require(&socket)?;
/// let mut reports = [Report::EMPTY; 16];
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// # let nobody = UdpSocket::bind("127.0.0.1:0").await?.local_addr()?;
/// # socket.send_to(b"lost", nobody).await?;
/// loop {
///     let count = next_reports(&socket, &mut reports).await?;
///     for report in &reports[..count] {
///         println!("{:?}: {:?}", report.dest, report.event);
///     }
/// #   break;
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Implementing it
///
/// A type of your own that is a `BatchSocket` and has a tokio socket within has the rest for
/// naming that one.
pub trait AsyncBatchSocket: BatchSocket + Sync {
    /// The socket that tells when there is something to receive, or room to send.
    fn tokio_socket(&self) -> &UdpSocket;

    /// Waits for at least one message and receives all that are there, as far as there is room in
    /// `msgs`: [`BatchSocket::recv_batch`].
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, RecvMsg};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let mut memory = [[0; 1500]; 8];
    /// let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
    /// let n = socket.recv_batch_async(&mut msgs).await?;
    /// assert_eq!((n, msgs[0].data()), (1, &b"hello"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the system says of the socket. `Ok(0)`, where there is room, means that it was shut
    /// down.
    fn recv_batch_async(
        &self,
        msgs: &mut [RecvMsg<'_>],
    ) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            if msgs.is_empty() {
                return Ok(0);
            }
            let received = wait::receive(self.tokio_socket(), || self.recv_batch(msgs)).await?;
            received.map(|count| count.min(msgs.len()))
        }
    }

    /// Waits for at least one message and receives a batch into memory that is ready for it:
    /// [`BatchSocket::recv_into`].
    ///
    /// After an error, and for as long as it waits, the batch is empty.
    ///
    /// # Errors
    ///
    /// As [`recv_batch_async`](Self::recv_batch_async).
    fn recv_into_async(
        &self,
        batch: &mut RecvBatch,
    ) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            batch.clear();
            let received = wait::receive(self.tokio_socket(), || self.recv_into(batch)).await?;
            received.map(|count| count.min(batch.len()))
        }
    }

    /// Waits until the socket takes at least one message, and sends as many as it takes:
    /// [`BatchSocket::send_batch`]. Returns how many the kernel has taken.
    ///
    /// # Errors
    ///
    /// What the system says of the first message; nothing was sent then.
    fn send_batch_async(
        &self,
        msgs: &[SendMsg<'_>],
    ) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            if msgs.is_empty() {
                return Ok(0);
            }
            let sent = wait::send(self.tokio_socket(), || self.send_batch(msgs)).await?;
            sent.map(|count| count.min(msgs.len()))
        }
    }

    /// Sends all that is in the queue, in order, and waits for room as often as it takes.
    ///
    /// What it has not sent when it is dropped is still in the queue.
    ///
    /// # Errors
    ///
    /// What the system says of the datagram at the [`front`](SendQueue::front), which stays there:
    /// [`discard_front`](SendQueue::discard_front) gives up on it. `WriteZero` if an implementation of your own
    /// sends nothing and tells no error.
    fn flush_async(&self, queue: &mut SendQueue) -> impl Future<Output = io::Result<()>> + Send
    where
        Self: Sized,
    {
        async move {
            while !queue.is_empty() {
                let before = queue.len();
                wait::send(self.tokio_socket(), || self.flush(queue)).await??;
                reject_nothing(before - queue.len().min(before))?;
            }
            Ok(())
        }
    }

    /// Sends every message that can be sent, and waits for room as often as it takes: goes on past
    /// one that fails, and tells its index and its error to `on_error`.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, SendMsg};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let to = socket.local_addr()?;
    /// let too_long = vec![0; 70_000];
    /// let msgs = [SendMsg::to(to, b"good"), SendMsg::to(to, &too_long), SendMsg::to(to, b"good")];
    /// let mut failed = Vec::new();
    /// socket.send_each_async(&msgs, |index, _error| failed.push(index)).await?;
    /// assert_eq!(failed, [1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What tokio says where its runtime shuts down; an error of the second registration
    /// [after an error](AsyncBatchSocket#after-an-error); and `WriteZero` if an implementation of your
    /// own sends nothing and tells no error. Every other error goes to `on_error`.
    fn send_each_async(
        &self,
        msgs: &[SendMsg<'_>],
        mut on_error: impl FnMut(usize, io::Error) + Send,
    ) -> impl Future<Output = io::Result<()>> + Send
    where
        Self: Sized,
    {
        async move {
            let (mut done, mut offer) = (0, Offer::new());
            while done < msgs.len() {
                let offered = offer.of(&msgs[done..]);
                let sent = wait::send(self.tokio_socket(), || self.send_batch(offered)).await?;
                if let Ok(sent) = sent {
                    reject_nothing(sent)?;
                }
                done += offer.answered(offered.len(), sent, |error| on_error(done, error));
            }
            Ok(())
        }
    }

    /// Receives as [`recv_batch_async`](Self::recv_batch_async) does, or has the task woken when
    /// it is worth another try.
    ///
    /// # Errors
    ///
    /// As there.
    fn poll_recv_batch(
        &self,
        cx: &mut Context<'_>,
        msgs: &mut [RecvMsg<'_>],
    ) -> Poll<io::Result<usize>> {
        if msgs.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let received =
            ready!(wait::poll_receive(self.tokio_socket(), cx, || self.recv_batch(msgs)))?;
        Poll::Ready(received.map(|count| count.min(msgs.len())))
    }

    /// Receives as [`recv_into_async`](Self::recv_into_async) does, or has the task woken when it
    /// is worth another try.
    ///
    /// # Errors
    ///
    /// As there.
    fn poll_recv_into(
        &self,
        cx: &mut Context<'_>,
        batch: &mut RecvBatch,
    ) -> Poll<io::Result<usize>> {
        batch.clear();
        let received =
            ready!(wait::poll_receive(self.tokio_socket(), cx, || self.recv_into(batch)))?;
        Poll::Ready(received.map(|count| count.min(batch.len())))
    }

    /// Sends as [`send_batch_async`](Self::send_batch_async) does, or has the task woken when it is
    /// worth another try.
    ///
    /// # Errors
    ///
    /// As there.
    fn poll_send_batch(
        &self,
        cx: &mut Context<'_>,
        msgs: &[SendMsg<'_>],
    ) -> Poll<io::Result<usize>> {
        if msgs.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let sent = ready!(wait::poll_send(self.tokio_socket(), cx, || self.send_batch(msgs)))?;
        Poll::Ready(sent.map(|count| count.min(msgs.len())))
    }

    /// Sends what is in the queue; ready when that is all of it. Has the task woken otherwise.
    ///
    /// # Errors
    ///
    /// As [`flush_async`](Self::flush_async).
    fn poll_flush(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<()>> {
        while !queue.is_empty() {
            let before = queue.len();
            ready!(wait::poll_send(self.tokio_socket(), cx, || self.flush(queue)))??;
            reject_nothing(before - queue.len().min(before))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends every message that can be sent, from number `done` on; ready when that is all of
    /// them. Has the task woken otherwise, and `done` says how many were handled, sent or reported: the
    /// next call continues there.
    ///
    /// # Errors
    ///
    /// As [`send_each_async`](Self::send_each_async).
    fn poll_send_each(
        &self,
        cx: &mut Context<'_>,
        msgs: &[SendMsg<'_>],
        done: &mut usize,
        on_error: &mut dyn FnMut(usize, io::Error),
    ) -> Poll<io::Result<()>> {
        let mut offer = Offer::new();
        while let Some(left) = msgs.get(*done..).filter(|left| !left.is_empty()) {
            let offered = offer.of(left);
            let send = || self.send_batch(offered);
            let sent = ready!(wait::poll_send(self.tokio_socket(), cx, send))?;
            if let Ok(sent) = sent {
                reject_nothing(sent)?;
            }
            *done += offer.answered(offered.len(), sent, |error| on_error(*done, error));
        }
        Poll::Ready(Ok(()))
    }
}

/// An implementation of [`BatchSocket`] that sends nothing and returns no error will not go on:
/// asking it again would have no end.
fn reject_nothing(sent: usize) -> io::Result<()> {
    if sent == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

impl AsyncBatchSocket for UdpSocket {
    fn tokio_socket(&self) -> &UdpSocket {
        self
    }
}

impl AsyncBatchSocket for &UdpSocket {
    fn tokio_socket(&self) -> &UdpSocket {
        self
    }
}

impl AsyncBatchSocket for Arc<UdpSocket> {
    fn tokio_socket(&self) -> &UdpSocket {
        self
    }
}

impl<S: AsyncBatchSocket + AsSocket> AsyncBatchSocket for Offload<S> {
    fn tokio_socket(&self) -> &UdpSocket {
        self.get_ref().tokio_socket()
    }
}

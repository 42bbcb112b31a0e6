//! [`AsyncBatchSocket`], the batch calls as futures.

use std::borrow::Borrow;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ::tokio::task::coop;
use ::tokio::time;

use super::readiness::TokioSocket;
use super::waiter::SendWaiter;
use super::{budget, send, wait};
use crate::error_queue::{self, Report};
use crate::recv::batch::RecvBatch;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::socket::{BatchSocket, is_temporary};

/// The calls of [`BatchSocket`] as futures, for tokio's sockets (feature `tokio`).
///
/// Needs a tokio runtime with I/O and time enabled (`enable_all`): without one, the first call of a thread that waits
/// panics. Poll each future within one runtime.
///
/// Implemented for tokio's `UdpSocket`; on Unix also for its `UnixDatagram`, and for
/// [`AsyncFd<T>`](https://docs.rs/tokio/latest/tokio/io/unix/struct.AsyncFd.html) of another non-blocking datagram
/// socket; for an [`Offload`](crate::Offload) of each; and for `&T`, `Box<T>` and `Arc<T>` of these. An `AsyncFd` of
/// anything but a socket compiles, but its calls fail with `ENOTSOCK`.
///
/// ```
/// use mmsg::{RecvBatch, prelude::*};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// # let client = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// # client.send_to(b"hello", socket.local_addr()?).await?;
/// let mut batch = RecvBatch::new(64, 1500);
/// socket.recv_into(&mut batch).await?;
/// let replies = batch.iter().filter_map(|datagram| datagram.reply(datagram.data()));
/// socket.send_each(replies, |_, error| eprintln!("reply: {error}")).await?;
/// # assert_eq!(client.recv(&mut [0; 8]).await?, 5);
/// # Ok(())
/// # }
/// ```
///
/// The example `server_tokio` is a server that goes on after an error.
///
/// # What the futures do
///
/// - A receive waits for its first message, a send until the socket accepts one. No future returns `WouldBlock`.
/// - An error of the socket, such as `ConnectionRefused`, wakes a waiting receive, which returns the error. While the
///   [error queue](crate::error_queue) is not empty, a waiting receive polls the socket every 4 ms.
/// - After an ICMP error tokio no longer reports when a full socket has space: a send then sleeps for 4 ms and tries
///   again. See [the guide](crate::guide::tokio#errors-and-reports).
/// - No event reports space in the queue of a Unix address: a send to it sleeps for 4 ms and tries again.
/// - Each datagram costs one unit of the task's cooperative budget, as with tokio's own calls. A call takes its whole
///   batch even if the budget is short, and the next one yields.
///   [The guide](crate::guide::tokio#a-batch-is-one-turn) says what a batch is in milliseconds.
/// - A future allocates only if its call is the largest of its thread so far. That of [`send_each`](Self::send_each) also
///   allocates for the messages that a full socket does not take.
///
/// # Cancel safety
///
/// A dropped future loses nothing, except that of [`send_each`](Self::send_each): it may have sent some messages and taken
/// up to 256 more from its iterator. Use a [`SendQueue`] for sends that may be dropped.
///
/// # Tasks
///
/// Every future is `Send`. In a function that is generic over its socket, rustc does not always see this
/// for [`send_each`](Self::send_each) ("lifetime bound not satisfied" or "implementation is not general enough",
/// rust-lang/rust#100013): name the socket's type, or use [`send_batch`](Self::send_batch) or a [`SendQueue`].
///
/// [`guide::tokio`](crate::guide::tokio) shows calls that do not wait, many sockets with few datagrams each, and
/// implementations of your own.
#[doc(alias("recvmmsg", "sendmmsg"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `AsyncBatchSocket`",
    label = "not one of tokio's datagram sockets",
    note = "it is implemented for tokio's `UdpSocket` and `UnixDatagram`, for `AsyncFd` of another datagram socket, and for `Offload` of these",
    note = "sockets of std, socket2 and mio have the blocking calls of `BatchSocket`"
)]
pub trait AsyncBatchSocket: Sync + Sized {
    /// tokio's type of the socket.
    type Socket: TokioSocket;

    /// tokio's socket, to wait on.
    fn tokio_socket(&self) -> &Self::Socket;

    /// Makes a call that does not wait, and returns its result.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, BatchSocket, SendMsg};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let to = socket.local_addr()?;
    /// let sent = socket.batch_call(&mut |socket| socket.send_batch(&[SendMsg::to(to, b"hello")]))?;
    /// assert_eq!((sent, socket.tokio_socket().local_addr()?), (1, to));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `call`.
    fn batch_call(
        &self,
        call: &mut dyn FnMut(&dyn BatchSocket) -> io::Result<usize>,
    ) -> io::Result<usize>;

    /// Whether [`batch_call`](Self::batch_call) calls tokio's socket and nothing else, so that what the kernel says of that
    /// socket holds. An implementation of your own may hold messages back, for one.
    #[doc(hidden)]
    fn is_kernels(&self) -> bool {
        false
    }

    /// Waits for a message, and receives into `msgs` those that are there, like [`BatchSocket::recv_batch`]. Returns how many
    /// came.
    ///
    /// Cancel safe: a dropped future has received nothing.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, RecvMsg};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let mut memory = [[0; 1500]; 8];
    /// let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
    /// let n = socket.recv_batch(&mut msgs).await?;
    /// assert_eq!((n, msgs[0].data()), (1, &b"hello"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error. `Ok(0)` means that the socket was shut down, or that `msgs` is empty.
    #[doc(alias("recvmmsg", "recvmsg", "ReadBatch"))]
    fn recv_batch(
        &self,
        msgs: &mut [RecvMsg<'_>],
    ) -> impl Future<Output = io::Result<usize>> + Send {
        async move {
            let max = msgs.len();
            let call = || {
                self.batch_call(&mut |socket| socket.recv_batch(msgs)).map(|count| (count, false))
            };
            let count = wait::receive(self.tokio_socket(), max, call).await?;
            budget::charge(msgs[..count].iter().map(|msg| budget::received(&msg.message())).sum());
            Ok(count)
        }
    }

    /// Waits for a message, and receives into the slots of `batch`, like [`BatchSocket::recv_into`]. Returns the number of
    /// messages.
    ///
    /// Cancel safe: a dropped future has received nothing. The first poll empties the batch, and an error leaves it empty.
    /// `select!` may drop a future that was never polled, and the batch then still holds the messages of the last receive:
    /// use a batch only in the branch of its receive.
    ///
    /// # Errors
    ///
    /// The errors of [`recv_batch`](Self::recv_batch).
    #[doc(alias("recvmmsg", "recv_from", "ReadBatch"))]
    fn recv_into(&self, batch: &mut RecvBatch) -> impl Future<Output = io::Result<usize>> + Send {
        async move {
            batch.clear();
            let max = batch.slots();
            let call = || {
                let count = self.batch_call(&mut |socket| socket.recv_into(batch))?;
                Ok((count, self.is_kernels() && batch.drained()))
            };
            wait::receive(self.tokio_socket(), max, call).await?;
            budget::charge(batch.datagram_count());
            Ok(batch.message_count())
        }
    }

    /// Adds messages to `batch`, after those that it holds, until it is full or `deadline` passes, like
    /// [`BatchSocketExt::recv_more_until`](crate::BatchSocketExt::recv_more_until). Returns how many it added. tokio's timer
    /// counts whole milliseconds.
    ///
    /// Cancel safe: the batch of a dropped future holds what came, and the next call adds to it.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, RecvBatch};
    /// use std::time::{Duration, Instant};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let mut batch = RecvBatch::new(1000, 1500);
    /// let deadline = Instant::now() + Duration::from_millis(50);
    /// if let Err(error) = socket.recv_more_until(&mut batch, deadline).await {
    ///     eprintln!("receive: {error}"); // The batch holds what came before.
    /// }
    /// println!("{} datagrams to store together", batch.datagram_count());
    /// # assert_eq!(batch.message_count(), 1);
    /// batch.clear();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`recv_batch`](Self::recv_batch). The batch holds what came before the error.
    fn recv_more_until(
        &self,
        batch: &mut RecvBatch,
        deadline: Instant,
    ) -> impl Future<Output = io::Result<usize>> + Send {
        async move {
            // tokio's timer panics on the last instants there are, and takes this long for "never" itself.
            const NEVER: Duration = Duration::from_secs(86_400 * 365 * 30);
            let deadline = deadline.min(Instant::now() + NEVER);
            let before = batch.message_count();
            while batch.message_count() < batch.slots() {
                let held = batch.message_count();
                let free = batch.slots() - held;
                let mut call = || self.batch_call(&mut |socket| socket.recv_more(batch));
                let with_more = || call().map(|count| (count, false));
                let received = wait::receive(self.tokio_socket(), free, with_more);
                match time::timeout_at(deadline.into(), received).await {
                    Ok(received) => _ = received?,
                    // tokio may not yet know of messages that have just come.
                    Err(_) => match call() {
                        Err(error) if is_temporary(&error) => break,
                        received => _ = received?,
                    },
                }
                let added = (held..batch.message_count()).filter_map(|i| batch.message(i));
                budget::charge(added.map(|message| budget::received(&message)).sum());
                if batch.message_count() <= held {
                    break;
                }
            }
            Ok(batch.message_count().saturating_sub(before))
        }
    }

    /// Waits for a message, and receives those that are there, one into each of the first `buffers`, like
    /// [`BatchSocket::recv_slices`]: calls `each` with the buffer's index and the message. Returns how many came.
    ///
    /// Cancel safe: a dropped future has received nothing.
    ///
    /// ```
    /// use mmsg::AsyncBatchSocket;
    /// use std::io::IoSliceMut;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let mut memory = [[0; 1500]; 8];
    /// let mut buffers = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
    /// let mut received = Vec::with_capacity(8);
    /// socket.recv_slices(&mut buffers, |_, message| received.push((message.addr(), message.len()))).await?;
    /// # assert_eq!((received[0].1, &memory[0][..5]), (5, &b"hello"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`recv_batch`](Self::recv_batch). `each` is not called then.
    fn recv_slices(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        mut each: impl FnMut(usize, Message<'_>) + Send,
    ) -> impl Future<Output = io::Result<usize>> + Send {
        async move {
            let (max, mut datagrams) = (buffers.len(), 0);
            let mut each = |index, message: Message<'_>| {
                datagrams += budget::received(&message);
                each(index, message);
            };
            let mut call = || self.batch_call(&mut |socket| socket.recv_slices(buffers, &mut each));
            let with_more = || call().map(|count| (count, false));
            let count = wait::receive(self.tokio_socket(), max, with_more).await?;
            budget::charge(datagrams);
            Ok(count)
        }
    }

    /// Receives into the slots of `batch`, like [`recv_into`](Self::recv_into), for a `poll_` function of your own.
    ///
    /// Uses tokio's one place for a task that polls, as tokio's `poll_recv_from` does: only the task of the last call is
    /// woken. An error of the socket wakes no task. The call after the next datagram returns it.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, RecvBatch};
    /// use std::future::poll_fn;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// let count = poll_fn(|cx| socket.poll_recv_into(cx, &mut batch)).await?;
    /// # assert_eq!((count, batch.message_count()), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`recv_batch`](Self::recv_batch). The batch is then empty, as while the call is pending.
    #[doc(alias("recvmmsg", "poll_recv_from"))]
    fn poll_recv_into(
        &self,
        cx: &mut Context<'_>,
        batch: &mut RecvBatch,
    ) -> Poll<io::Result<usize>> {
        batch.clear();
        let max = batch.slots();
        let call = || {
            let count = self.batch_call(&mut |socket| socket.recv_into(batch))?;
            Ok((count, self.is_kernels() && batch.drained()))
        };
        ready!(wait::poll_receive(self.tokio_socket(), cx, max, call))?;
        budget::charge(batch.datagram_count());
        Poll::Ready(Ok(batch.message_count()))
    }

    /// Receives into `buffers`, like [`recv_slices`](Self::recv_slices), for a `poll_` function of your own. Waits like
    /// [`poll_recv_into`](Self::poll_recv_into).
    ///
    /// ```
    /// use mmsg::AsyncBatchSocket;
    /// use std::{future::poll_fn, io::IoSliceMut};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let mut buffer = [0; 1500];
    /// let mut len = 0;
    /// let count = poll_fn(|cx| {
    ///     let buffers = &mut [IoSliceMut::new(&mut buffer)];
    ///     socket.poll_recv_slices(cx, buffers, |_, message| len = message.len())
    /// })
    /// .await?;
    /// assert_eq!((count, len), (1, 5));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`recv_batch`](Self::recv_batch). `each` is not called then, nor while the call is pending.
    #[doc(alias("recvmmsg", "poll_recv"))]
    fn poll_recv_slices(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        mut each: impl FnMut(usize, Message<'_>),
    ) -> Poll<io::Result<usize>> {
        let (max, mut datagrams) = (buffers.len(), 0);
        let mut each = |index, message: Message<'_>| {
            datagrams += budget::received(&message);
            each(index, message);
        };
        let mut call = || self.batch_call(&mut |socket| socket.recv_slices(buffers, &mut each));
        let with_more = || call().map(|count| (count, false));
        let count = ready!(wait::poll_receive(self.tokio_socket(), cx, max, with_more))?;
        budget::charge(datagrams);
        Poll::Ready(Ok(count))
    }

    /// Waits until the socket accepts a message, and sends as many as it accepts then, like [`BatchSocket::send_batch`].
    /// Returns how many the kernel accepted.
    ///
    /// Cancel safe: a dropped future has sent nothing.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, SendMsg};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let to = socket.local_addr()?;
    /// let msgs = [SendMsg::to(to, b"one"), SendMsg::to(to, b"two")];
    /// assert_eq!(socket.send_batch(&msgs).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error for the first message. Nothing was sent.
    #[doc(alias("sendmmsg", "sendmsg", "send_to", "WriteBatch"))]
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> impl Future<Output = io::Result<usize>> + Send {
        async move {
            let call = || self.batch_call(&mut |socket| socket.send_batch(msgs));
            let by_timer = wait::needs_timer(msgs.first());
            let sent = wait::send(self.tokio_socket(), msgs.len(), by_timer, call).await??;
            budget::charge(budget::sent(&msgs[..sent]));
            Ok(sent)
        }
    }

    /// Sends messages, like [`send_batch`](Self::send_batch), for a `poll_` function of your own.
    ///
    /// Each sender has its own [`SendWaiter`], so that any number of them may wait. While the socket is full the waiter
    /// keeps a clone of `self`: call this on an `Arc` of the socket. Without messages the call only waits until the
    /// socket is writable: for traits that ask for that first.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, SendMsg, SendWaiter};
    /// use std::{future::poll_fn, sync::Arc};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = Arc::new(tokio::net::UdpSocket::bind("127.0.0.1:0").await?);
    /// # let to = socket.local_addr()?;
    /// let mut waiter = SendWaiter::new();
    /// let msgs = [SendMsg::to(to, b"one"), SendMsg::to(to, b"two")];
    /// let sent = poll_fn(|cx| socket.poll_send_batch(cx, &mut waiter, &msgs)).await?;
    /// assert_eq!(sent, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error for the first message. Nothing was sent.
    #[doc(alias("sendmmsg", "poll_send_to"))]
    fn poll_send_batch(
        &self,
        cx: &mut Context<'_>,
        waiter: &mut SendWaiter,
        msgs: &[SendMsg<'_>],
    ) -> Poll<io::Result<usize>>
    where
        Self: Clone + Send + 'static,
    {
        let by_timer = wait::needs_timer(msgs.first());
        loop {
            ready!(waiter.poll(cx))?;
            ready!(coop::poll_proceed(cx)).made_progress();
            let send = || match msgs {
                [] if !wait::has_space(self.tokio_socket()) => wait::would_block(),
                [] => Ok(0),
                _ => self.batch_call(&mut |socket| socket.send_batch(msgs)),
            };
            match wait::try_send(self.tokio_socket(), by_timer, send) {
                Err(error) if wait::is_would_block(&error) => {
                    let socket = self.clone();
                    waiter.begin(async move { wait::space(socket.tokio_socket(), by_timer).await });
                }
                result => {
                    let sent = result?.min(msgs.len());
                    budget::charge(budget::sent(&msgs[..sent]));
                    return Poll::Ready(Ok(sent));
                }
            }
        }
    }

    /// Sends all messages in order, and waits whenever the socket is full. If one fails, calls `on_error` with its index and
    /// error, and goes on. Returns the number of messages; subtract the reported ones to get the number sent.
    ///
    /// Like [`BatchSocketExt::send_each`](crate::BatchSocketExt::send_each) on a blocking socket: iterators may yield
    /// messages or references to messages. Not cancel safe.
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
    /// let handled = socket.send_each(&msgs, |index, _error| failed.push(index)).await?;
    /// assert_eq!((handled, handled - failed.len()), (3, 2)); // Two were sent.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `WriteZero` if an implementation of your own sends nothing and returns no error, and the error of a runtime that shuts
    /// down. `OutOfMemory` if there is no memory before any message was sent or reported; later, the future ends with a
    /// count. Every other error goes to `on_error`.
    #[doc(alias("sendmmsg", "send_to"))]
    fn send_each<'m, M>(
        &self,
        msgs: impl IntoIterator<Item = M, IntoIter: Send>,
        on_error: impl FnMut(usize, io::Error) + Send,
    ) -> impl Future<Output = io::Result<usize>> + Send
    where
        M: Borrow<SendMsg<'m>>,
    {
        let msgs = msgs.into_iter().map(|msg| *msg.borrow());
        send::send_each(self.tokio_socket(), |call| self.batch_call(call), msgs, on_error)
    }

    /// Sends the whole queue in order, and waits whenever the socket is full. Returns how many datagrams the kernel
    /// accepted.
    ///
    /// Cancel safe: the queue keeps the datagrams that a dropped future has not sent.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, SendMsg, SendQueue};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let to = socket.local_addr()?;
    /// let mut queue = SendQueue::new(1 << 20);
    /// queue.push(&SendMsg::to(to, b"one"))?;
    /// queue.push(&SendMsg::to(to, b"two"))?;
    /// assert_eq!((socket.flush(&mut queue).await?, queue.len()), (2, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error for the datagram at the [`front`](SendQueue::front). It stays in the queue:
    /// [`discard_front`](SendQueue::discard_front) drops it. Datagrams before it may have been sent. `WriteZero` if an
    /// implementation of your own sends nothing and returns no error.
    fn flush(&self, queue: &mut SendQueue) -> impl Future<Output = io::Result<usize>> + Send {
        send::flush(self.tokio_socket(), |call| self.batch_call(call), queue)
    }

    /// Sends the whole queue in order, and waits whenever the socket is full. If a datagram fails, calls `on_error` with it
    /// and its error, drops it, and goes on. Returns how many left the queue; subtract the reported ones to get the number
    /// sent.
    ///
    /// Like [`BatchSocketExt::flush_each`](crate::BatchSocketExt::flush_each) on a blocking socket. Cancel safe: the queue
    /// keeps the datagrams that a dropped future has neither sent nor reported.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, SendMsg, SendQueue};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let to = socket.local_addr()?;
    /// let mut queue = SendQueue::new(1 << 20);
    /// queue.push(&SendMsg::to("127.0.0.1:0".parse()?, b"to nobody"))?;
    /// queue.push(&SendMsg::to(to, b"good"))?;
    /// let mut failed = 0;
    /// assert_eq!(socket.flush_each(&mut queue, |_msg, _error| failed += 1).await?, 2);
    /// # assert_eq!(failed, i32::from(cfg!(target_os = "linux")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of [`send_each`](Self::send_each). Every other error goes to `on_error`.
    fn flush_each(
        &self,
        queue: &mut SendQueue,
        on_error: impl FnMut(&SendMsg<'_>, io::Error) + Send,
    ) -> impl Future<Output = io::Result<usize>> + Send {
        send::flush_each(self.tokio_socket(), |call| self.batch_call(call), queue, on_error)
    }

    /// Waits for a report in the error queue, and reads up to `reports.len()` of them, like
    /// [`drain_errors`](crate::error_queue::drain_errors()). Returns how many: 0 only if `reports` is empty.
    ///
    /// Cancel safe: a dropped future has taken no report. If several tasks wait, any of them may get a report.
    ///
    /// ```
    /// use mmsg::error_queue::Report;
    /// use mmsg::{Ancillary, AsyncBatchSocket};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    ///
    /// Ancillary::ERRORS.require(&socket)?;
    /// let mut reports = [Report::EMPTY; 16];
    /// # if !cfg!(target_os = "linux") { return Ok(()); }
    /// # let nobody = tokio::net::UdpSocket::bind("127.0.0.1:0").await?.local_addr()?;
    /// # socket.send_to(b"lost", nobody).await?;
    /// loop {
    ///     let count = socket.recv_errors(&mut reports).await?;
    ///     for report in &reports[..count] {
    ///         println!("{:?}: {:?}", report.dest, report.event);
    ///     }
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`drain_errors`](crate::error_queue::drain_errors()): `Unsupported`, at once, if the socket has no error
    /// queue.
    fn recv_errors(
        &self,
        reports: &mut [Report],
    ) -> impl Future<Output = io::Result<usize>> + Send {
        async move {
            let socket = self.tokio_socket();
            // Fails for a socket without an error queue, which would wait for ever.
            error_queue::drain_errors(socket, &mut [])?;
            if reports.is_empty() {
                return Ok(0);
            }
            wait::errors(socket, || error_queue::drain_errors(socket, reports)).await
        }
    }
}

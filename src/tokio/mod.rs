//! Batches as futures, on the sockets of tokio.

mod readiness;
#[cfg(linux_like)]
mod second;
#[cfg(not(linux_like))]
#[path = "no_second.rs"]
mod second;
mod sockets;
mod step;
#[cfg(all(test, mmsg_calls))]
mod tests;
mod wait;

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::task::{Context, Poll, ready};

use crate::error_queue::{self, Report};
use crate::recv::batch::RecvBatch;
use crate::recv::datagram::Message;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::socket::{BatchSocket, Offer};
use crate::socket_ext::BatchSocketExt;
use crate::sys::RecvFlags;
use readiness::Readiness;
pub use step::AsSendMsg;
use step::Step;

/// A socket of tokio: `UdpSocket`, and on Unix `UnixDatagram` and
/// [`AsyncFd`](https://docs.rs/tokio/latest/tokio/io/unix/struct.AsyncFd.html) around any other non-blocking
/// datagram socket, socket2's for example.
///
/// Their calls are in [`AsyncBatchSocket`]. No other type can implement this trait.
///
/// ```
/// use mmsg::{AsyncBatchSocket, RecvBatch, TokioSocket};
///
/// /// Takes any of them.
/// async fn receive<S: TokioSocket + AsyncBatchSocket>(socket: &S, batch: &mut RecvBatch) -> std::io::Result<usize> {
///     socket.recv_into(batch).await
/// }
/// # let _ = receive::<tokio::net::UdpSocket>;
/// ```
pub trait TokioSocket: Readiness {}

impl<S: Readiness> TokioSocket for S {}

/// The calls of [`BatchSocket`] as futures, on tokio's sockets. Needs the feature `tokio`.
///
/// Implemented for tokio's `UdpSocket`, and on Unix for its `UnixDatagram` and for
/// [`AsyncFd<T>`](https://docs.rs/tokio/latest/tokio/io/unix/struct.AsyncFd.html) of other non-blocking datagram
/// sockets; for an [`Offload`](crate::Offload) of each; and for `&T`, `Box<T>` and `Arc<T>` of these.
///
/// ```
/// use mmsg::{Ancillary, RecvBatch, prelude::*};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// # let client = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// # client.send_to(b"hello", socket.local_addr()?).await?;
/// Ancillary::DEST.require(&socket)?; // Replies leave from the address that was asked.
/// let mut batch = RecvBatch::new(64, 1500);
/// loop {
///     if let Err(error) = socket.recv_into(&mut batch).await {
///         eprintln!("receive: {error}"); // The batch is empty, the socket as good as before.
///     }
///     let whole = batch.iter().filter(|d| !d.truncated());
///     let replies = whole.filter_map(|d| d.reply(d.data()));
///     socket.send_each(replies, |_, error| eprintln!("reply: {error}")).await?;
/// #   break;
/// }
/// # assert_eq!(client.recv(&mut [0; 8]).await?, 5);
/// # Ok(())
/// # }
/// ```
///
/// # What the futures come to
///
/// - The futures do what the calls of `BatchSocket` do on a blocking socket: a receive waits for its first
///   message, a send until the socket accepts one. None returns `WouldBlock`.
/// - An error is returned once. A deferred error (see [`BatchSocket`]) is returned at once, also if the
///   socket is not ready.
/// - An error of the socket wakes a waiting receive as well: it returns "connection refused" when that
///   arrives.
/// - Each system call costs one unit of the task's cooperative budget, so that a flooded socket leaves
///   other tasks their turn. A unit is a whole batch; smaller batches yield earlier.
/// - After the warm-up that `BatchSocket` describes, nothing allocates, but for waits
///   [after an error](#after-an-error).
///
/// # Cancel safety
///
/// | a future that is dropped | |
/// |---|---|
/// | [`recv_batch`](Self::recv_batch), [`recv_into`](Self::recv_into), [`recv_slices`](Self::recv_slices) | has received nothing |
/// | [`send_batch`](Self::send_batch) | has sent nothing |
/// | [`flush`](Self::flush), [`flush_each`](Self::flush_each) | has removed from the queue what it sent or reported |
/// | [`drain_errors`](Self::drain_errors) | has taken no report |
/// | [`send_iter`](Self::send_iter), [`send_each`](Self::send_each) | may have sent some messages, and taken up to 64 more from the iterator: **not cancel safe** |
///
/// Where a send of several messages may be dropped, use [`poll_send_each`](Self::poll_send_each) or a [`SendQueue`].
///
/// # Tasks
///
/// Every future is `Send`. In a function that is generic over its socket, rustc cannot see that for
/// [`send_each`](Self::send_each) and [`send_iter`](Self::send_iter) over an iterator with closures
/// ("implementation of `FnOnce` is not general enough", rust-lang/rust#110338): name the type of the socket, pass
/// a slice or an array, or use a [`SendQueue`].
///
/// # A call without waiting
///
/// tokio's sockets do not implement [`BatchSocket`]: tokio must hear of a `WouldBlock`, or it takes the
/// socket for ready for ever. Call through the descriptor, within `try_io`:
///
/// ```
/// # #[cfg(unix)] {
/// use mmsg::{BatchSocket, RecvBatch};
/// use std::os::fd::AsFd;
/// use tokio::io::Interest;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// # let mut batch = RecvBatch::new(64, 1500);
///
/// match socket.try_io(Interest::READABLE, || socket.as_fd().recv_into(&mut batch)) {
///     Ok(count) => println!("{count} messages"),
///     Err(error) => println!("{error}"), // `WouldBlock`: nothing is there.
/// }
/// # Ok(())
/// # }
/// # main().unwrap();
/// # }
/// ```
///
/// On an [`Offload`](crate::Offload), call [`lend`](crate::Offload::lend) in place of `as_fd`.
///
/// # Hand-written futures
///
/// The `poll_` methods register the task to be woken. tokio remembers one task for each direction, the
/// last that polled; the futures remember every task. tokio wakes a task that waits by `poll_recv_` for
/// datagrams only: it meets an error with the next datagram, or the next send returns it. tokio has no such
/// function for errors, so there is none for [`drain_errors`](Self::drain_errors).
///
/// # After an error
///
/// There is nothing to do: calls sleep until they can go on, and a task that waits for
/// [`drain_errors`](Self::drain_errors) or [`Interest::ERROR`](::tokio::io::Interest::ERROR) is still woken while
/// others receive. What it costs: on
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
/// # Unix sockets
///
/// A send on a connected Unix socket waits while the peer's queue is full. On an unconnected one it may wait
/// too long: if the queue is full of other senders' messages, the kernel has no event for the moment when it is
/// not, so neither this trait nor tokio's own `send_to` is woken. Connect such a socket, or limit the wait
/// by a timeout and send again.
///
/// # Implementing it
///
/// For a type of your own that has a tokio socket, name that socket and what makes the calls: the rest is
/// provided, and not to be overridden. A stand-in for tests makes the calls on a [`BatchSocket`] of its own,
/// while the socket beside it says when it is ready.
///
/// ```
/// use mmsg::{AsyncBatchSocket, BatchSocket, Offload};
/// use std::io;
/// use tokio::net::UdpSocket;
///
/// /// A socket, and whose it is.
/// struct Named {
///     name: String,
///     socket: Offload<UdpSocket>,
/// }
///
/// impl AsyncBatchSocket for Named {
///     type Socket = UdpSocket;
///
///     fn tokio_socket(&self) -> &UdpSocket {
///         self.socket.tokio_socket()
///     }
///
///     fn batch_call(
///         &self,
///         call: &mut dyn FnMut(&dyn BatchSocket) -> io::Result<usize>,
///     ) -> io::Result<usize> {
///         self.socket.batch_call(call).inspect_err(|error| println!("{}: {error}", self.name))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `AsyncBatchSocket`",
    label = "not one of tokio's datagram sockets",
    note = "it is implemented for tokio's `UdpSocket` and `UnixDatagram`, for `AsyncFd` of another datagram socket, and for `Offload` of these",
    note = "sockets of std, socket2 and mio have the blocking calls of `BatchSocket`"
)]
pub trait AsyncBatchSocket: Sync {
    /// The type of the socket that is registered with tokio.
    type Socket: TokioSocket;

    /// The socket that is registered with tokio, to wait for.
    fn tokio_socket(&self) -> &Self::Socket;

    /// Makes a call that does not wait, and returns what the call returns.
    ///
    /// # Errors
    ///
    /// Those of `call`.
    fn batch_call(
        &self,
        call: &mut dyn FnMut(&dyn BatchSocket) -> io::Result<usize>,
    ) -> io::Result<usize>;

    /// Waits for at least one message, and receives further waiting ones up to the length of `msgs`, like
    /// [`BatchSocket::recv_batch`]. Returns how many.
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
    /// The system's error. `Ok(0)` for one or more messages means that the socket was shut down.
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            if msgs.is_empty() {
                return Ok(0);
            }
            let call = || self.batch_call(&mut |socket| socket.recv_batch(msgs));
            let received = wait::receive(self.tokio_socket(), call).await?;
            received.map(|count| count.min(msgs.len()))
        }
    }

    /// Waits for at least one message and receives a batch, like [`BatchSocket::recv_into`]. Returns the
    /// number of messages.
    ///
    /// Cancel safe: a dropped future has received nothing. The batch is empty after an error, and for as long
    /// as the future waits. A future that was never polled, as `select!` may leave one, has not emptied it: work on
    /// each batch in the branch of its own receive.
    ///
    /// # Errors
    ///
    /// Those of [`recv_batch`](Self::recv_batch).
    fn recv_into(&self, batch: &mut RecvBatch) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            batch.clear();
            let call = || self.batch_call(&mut |socket| socket.recv_into(batch));
            let received = wait::receive(self.tokio_socket(), call).await?;
            received.map(|count| count.min(batch.message_count()))
        }
    }

    /// Waits for at least one message, and receives further waiting ones, each into one of `buffers`, like
    /// [`recv_slices`](BatchSocketExt::recv_slices): calls `each` with the buffer's index and the message.
    /// Returns how many.
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
    /// Those of [`recv_batch`](Self::recv_batch); `each` was not called.
    fn recv_slices(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        mut each: impl FnMut(usize, Message<'_>) + Send,
    ) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            if buffers.is_empty() {
                return Ok(0);
            }
            let call = || self.batch_call(&mut |socket| socket.recv_slices(buffers, &mut each));
            let received = wait::receive(self.tokio_socket(), call).await?;
            received.map(|count| count.min(buffers.len()))
        }
    }

    /// Waits until the socket accepts at least one message, and sends as many as it accepts now, like
    /// [`BatchSocket::send_batch`]. Returns how many the kernel accepted.
    ///
    /// Cancel safe: a dropped future has sent nothing.
    ///
    /// # Errors
    ///
    /// The system's error for the first message; nothing was sent.
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            if msgs.is_empty() {
                return Ok(0);
            }
            let call = || self.batch_call(&mut |socket| socket.send_batch(msgs));
            let sent = wait::send(self.tokio_socket(), call).await?;
            sent.map(|count| count.min(msgs.len()))
        }
    }

    /// Sends messages from an iterator, and waits for buffer space as often as it takes, like
    /// [`send_iter`](crate::BatchSocketExt::send_iter) on a blocking socket. Returns how many the kernel
    /// accepted.
    ///
    /// Stops at the first message that fails. Not cancel safe.
    ///
    /// ```
    /// use mmsg::{AsyncBatchSocket, SendMsg};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// # let to = socket.local_addr()?;
    /// let texts = ["one", "two"];
    /// let sent = socket.send_iter(texts.map(|text| SendMsg::to(to, text.as_bytes()))).await?;
    /// assert_eq!(sent, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error for the first message; nothing was sent. `WriteZero` if an implementation of your
    /// own sends nothing and returns no error.
    fn send_iter<I>(&self, msgs: I) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
        I: IntoIterator<Item: AsSendMsg, IntoIter: Send>,
    {
        let mut msgs = msgs.into_iter().fuse();
        async move {
            let mut total = 0;
            loop {
                let step = Step::take(&mut msgs);
                if step.count == 0 {
                    return Ok(total);
                }
                let mut done = 0;
                while done < step.count {
                    let call =
                        || self.batch_call(&mut |socket| step.send(socket, done..step.count));
                    match wait::send(self.tokio_socket(), call).await? {
                        Ok(sent) => {
                            reject_nothing(sent)?;
                            done += sent.min(step.count - done);
                        }
                        Err(error) if total + done == 0 => return Err(error),
                        Err(error) => {
                            let has_dest = step.has_dest(done);
                            wait::defer_if_reported_once(self.tokio_socket(), has_dest, &error);
                            return Ok(total + done);
                        }
                    }
                }
                total += done;
            }
        }
    }

    /// Sends the messages in order, waits for buffer space as often as it takes, and goes on past each
    /// message that fails: calls `on_error` with its index and its error. Returns how many messages were
    /// handled, which is all of them.
    ///
    /// Like [`send_each`](crate::BatchSocketExt::send_each) on a blocking socket: iterators may yield messages or
    /// references to them, so slices and arrays work as well. Not cancel safe.
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
    /// let n = socket.send_each(&msgs, |index, _error| failed.push(index)).await?;
    /// assert_eq!((n, &failed[..]), (3, &[1][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// tokio's error if its runtime shuts down; an error of the second registration
    /// [after an error](AsyncBatchSocket#after-an-error); and `WriteZero` if an implementation of your
    /// own sends nothing and returns no error. Every other error goes to `on_error`.
    fn send_each<I>(
        &self,
        msgs: I,
        mut on_error: impl FnMut(usize, io::Error) + Send,
    ) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
        I: IntoIterator<Item: AsSendMsg, IntoIter: Send>,
    {
        let mut msgs = msgs.into_iter().fuse();
        async move {
            let (mut total, mut offer) = (0, Offer::new());
            loop {
                let step = Step::take(&mut msgs);
                if step.count == 0 {
                    return Ok(total);
                }
                let mut done = 0;
                while done < step.count {
                    let offered = offer.count().min(step.count - done);
                    let range = done..done + offered;
                    let call = || self.batch_call(&mut |socket| step.send(socket, range.clone()));
                    let sent = wait::send(self.tokio_socket(), call).await?;
                    if let Ok(sent) = sent {
                        reject_nothing(sent)?;
                    }
                    done += offer.answered(offered, sent, |error| on_error(total + done, error));
                }
                total += done;
            }
        }
    }

    /// Sends all that is in the queue, in order, and waits for buffer space as often as it takes. Returns how
    /// many datagrams the kernel accepted.
    ///
    /// Cancel safe: what a dropped future has not sent is still in the queue.
    ///
    /// # Errors
    ///
    /// The system's error for the datagram at the [`front`](SendQueue::front), which stays there:
    /// [`discard_front`](SendQueue::discard_front) drops it. Datagrams before it may have been sent. `WriteZero` if an
    /// implementation of your own sends nothing and returns no error.
    fn flush(&self, queue: &mut SendQueue) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            let all = queue.len();
            while !queue.is_empty() {
                let before = queue.len();
                let call = || self.batch_call(&mut |socket| socket.flush(queue));
                wait::send(self.tokio_socket(), call).await??;
                reject_nothing(before - queue.len().min(before))?;
            }
            Ok(all)
        }
    }

    /// Sends all that is in the queue, in order, waits for buffer space as often as it takes, and goes on past
    /// each datagram that fails: calls `on_error` with it and its error, and drops it. Returns how many left the
    /// queue, which is all of them.
    ///
    /// Like [`flush_each`](BatchSocketExt::flush_each) on a blocking socket. Cancel safe: what a dropped
    /// future has not sent or reported is still in the queue.
    ///
    /// # Errors
    ///
    /// Those of [`send_each`](Self::send_each). Every other error goes to `on_error`.
    fn flush_each(
        &self,
        queue: &mut SendQueue,
        mut on_error: impl FnMut(&SendMsg<'_>, io::Error) + Send,
    ) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            let all = queue.len();
            while !queue.is_empty() {
                let before = queue.len();
                let call =
                    || self.batch_call(&mut |socket| socket.flush_each(queue, &mut on_error));
                wait::send(self.tokio_socket(), call).await??;
                reject_nothing(before - queue.len().min(before))?;
            }
            Ok(all)
        }
    }

    /// Waits for at least one report in the error queue, and reads up to `reports.len()` of them, like
    /// [`drain_errors`](crate::error_queue::drain_errors()). Returns how many; 0 only if `reports` is empty.
    ///
    /// Cancel safe: a dropped future has taken no report. If several tasks wait, any of them gets a report.
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
    ///     let count = socket.drain_errors(&mut reports).await?;
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
    /// Those of [`drain_errors`](crate::error_queue::drain_errors()): `Unsupported`, without waiting, if the socket has no
    /// error queue.
    fn drain_errors(&self, reports: &mut [Report]) -> impl Future<Output = io::Result<usize>> + Send
    where
        Self: Sized,
    {
        async move {
            let socket = self.tokio_socket();
            // Without an error queue there is nothing to wait for.
            error_queue::drain_errors(socket, &mut [])?;
            if reports.is_empty() {
                return Ok(0);
            }
            wait::errors(socket, || error_queue::drain_errors(socket, reports)).await?
        }
    }

    /// Receives like [`recv_batch`](Self::recv_batch), or has the task woken when it is worth another try.
    ///
    /// # Errors
    ///
    /// Those of [`recv_batch`](Self::recv_batch).
    fn poll_recv_batch(
        &self,
        cx: &mut Context<'_>,
        msgs: &mut [RecvMsg<'_>],
    ) -> Poll<io::Result<usize>> {
        if msgs.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let call = || self.batch_call(&mut |socket| socket.recv_batch(msgs));
        let received = ready!(wait::poll_receive(self.tokio_socket(), cx, call))?;
        Poll::Ready(received.map(|count| count.min(msgs.len())))
    }

    /// Receives like [`recv_into`](Self::recv_into), or has the task woken when it is worth another try.
    ///
    /// # Errors
    ///
    /// Those of [`recv_batch`](Self::recv_batch).
    fn poll_recv_into(
        &self,
        cx: &mut Context<'_>,
        batch: &mut RecvBatch,
    ) -> Poll<io::Result<usize>> {
        batch.clear();
        let call = || self.batch_call(&mut |socket| socket.recv_into(batch));
        let received = ready!(wait::poll_receive(self.tokio_socket(), cx, call))?;
        Poll::Ready(received.map(|count| count.min(batch.message_count())))
    }

    /// Receives like [`recv_slices`](Self::recv_slices), or has the task woken when it is worth another try.
    ///
    /// # Errors
    ///
    /// Those of [`recv_batch`](Self::recv_batch); `each` was not called.
    fn poll_recv_slices(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> Poll<io::Result<usize>> {
        if buffers.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let call = || {
            self.batch_call(&mut |socket| socket.recv_slices_dyn(buffers, RecvFlags::NONE, each))
        };
        let received = ready!(wait::poll_receive(self.tokio_socket(), cx, call))?;
        Poll::Ready(received.map(|count| count.min(buffers.len())))
    }

    /// Sends like [`send_batch`](Self::send_batch), or has the task woken when it is worth another try.
    ///
    /// # Errors
    ///
    /// Those of [`send_batch`](Self::send_batch).
    fn poll_send_batch(
        &self,
        cx: &mut Context<'_>,
        msgs: &[SendMsg<'_>],
    ) -> Poll<io::Result<usize>> {
        if msgs.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let call = || self.batch_call(&mut |socket| socket.send_batch(msgs));
        let sent = ready!(wait::poll_send(self.tokio_socket(), cx, call))?;
        Poll::Ready(sent.map(|count| count.min(msgs.len())))
    }

    /// Sends what is in the queue; ready when that is all of it. Has the task woken otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`flush`](Self::flush).
    fn poll_flush(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<()>> {
        while !queue.is_empty() {
            let before = queue.len();
            let call = || self.batch_call(&mut |socket| socket.flush(queue));
            ready!(wait::poll_send(self.tokio_socket(), cx, call))??;
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
    /// Those of [`send_each`](Self::send_each).
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
            let call = || self.batch_call(&mut |socket| socket.send_batch(offered));
            let sent = ready!(wait::poll_send(self.tokio_socket(), cx, call))?;
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

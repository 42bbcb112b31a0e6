//! [`BatchSocket`], the trait with the batch calls.

mod ext;
mod implementations;

use std::array;
use std::io::{self, IoSliceMut};

use crate::recv::batch::RecvBatch;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::send::chunk::{self, CHUNK};
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
pub use ext::BatchSocketExt;
#[cfg(feature = "tokio")]
pub(crate) use ext::{OfferSize, is_temporary};
pub use implementations::DatagramSocketWithItsFeatureOn;
pub(crate) use implementations::forward;

/// A datagram socket that moves messages in batches.
///
/// [`BatchSocketExt`] adds the calls that go on past errors. The [`prelude`](crate::prelude) imports both traits.
///
/// ```
/// use mmsg::{BatchSocket, SendMsg};
///
/// /// Takes any socket, or a stand-in for tests.
/// fn greet(socket: &dyn BatchSocket, to: std::net::SocketAddr) -> std::io::Result<usize> {
///     socket.send_batch(&[SendMsg::to(to, b"hello"), SendMsg::to(to, b"again")])
/// }
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// assert_eq!(greet(&socket, socket.local_addr()?)?, 2);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Implementations
///
/// | type | from |
/// |---|---|
/// | `UdpSocket`; on Unix `UnixDatagram` | std; mio, with the feature `mio` |
/// | `BorrowedFd`, `OwnedFd`; on Windows `BorrowedSocket`, `OwnedSocket` | std |
/// | [`Offload`](crate::Offload), [`OffloadState::on`](crate::offload::OffloadState::on) a socket | this crate |
/// | `&T`, `&mut T`, `Box<T>`, `Rc<T>`, `Arc<T>` | of each `T: BatchSocket`, also `dyn BatchSocket` |
///
/// Use any other UDP or Unix datagram socket, such as socket2's, by its descriptor: `socket.as_fd().recv_into(&mut batch)`,
/// on Windows `socket.as_socket()`; or make it a `UdpSocket` by `from`. Other families are untested, and packet sockets fail (`EINVAL`). tokio's sockets implement
/// `AsyncBatchSocket` instead (feature `tokio`). To replace a socket in tests, implement the two required methods.
/// A type that wraps a socket should forward the provided ones, too: they receive at most 16 messages per call.
///
/// Stream sockets do not implement the trait: a send may count half a message as sent, and a receive finds no
/// boundaries. Pass descriptors of datagram sockets only.
///
/// ```compile_fail,E0277
/// fn echo(socket: impl mmsg::BatchSocket) {}
/// # fn test(stream: std::net::TcpStream) {
/// echo(stream); // a `TcpStream`
/// # }
/// ```
///
/// # One call, one system call
///
/// - A call makes one `recvmmsg` or `sendmmsg` of at most 1,024 messages, or with [`Backend::Msg`](crate::Backend::Msg) one
///   for each message. [`Offload`](crate::Offload) makes more after a short send or a rejected GSO batch.
/// - A receive waits for its first message only. A send waits for each message: a write timeout bounds each wait.
/// - `Ok(n)`: the first `n` messages were received or sent, the others were not. Call again with the rest.
/// - If you offered at least one message, `Ok(0)` means that the socket was shut down. (A Unix socket then returns empty
///   messages.)
/// - A call that succeeds allocates only if it is the largest of its thread so far, or nested three deep in closures of
///   [`recv_slices`](Self::recv_slices). A call that fails allocates only for the text of an error about its arguments.
///
/// # Errors
///
/// - `Err`: nothing was received or sent, and the error is the system's for the first message. A message that fails later
///   ends the call with a count, and fails again when you offer it again.
/// - An asynchronous error is about an earlier datagram: `ConnectionRefused` on a connected socket, by ICMP. It fails one
///   call, or none if it arrives within a batch. [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) puts each into the
///   [error queue](crate::error_queue) while that has room.
/// - With `ERRORS` on, Linux fails calls on an unconnected socket for datagrams to any destination. Such a call is repeated
///   up to 16 times, with a timeout on the socket as long as it need not wait, and then returns the error: in a flood of ICMP
///   errors it may be about another datagram. A send is not repeated if the kernel says that the message itself has no route.
/// - `OutOfMemory`: there is no memory for the headers.
/// - A call that a signal interrupts is repeated. On a socket with a timeout the call returns
///   [`Interrupted`](io::ErrorKind::Interrupted) instead, because the kernel would restart the timeout.
/// - [`WouldBlock`](io::ErrorKind::WouldBlock): a non-blocking socket is not ready, or a timeout is over (then `TimedOut` on
///   Windows).
///
/// [`guide::errors`](crate::guide::errors) explains each error.
///
/// # Platforms
///
/// Linux, Android and OpenBSD move many messages in a system call; macOS, iOS, NetBSD and Windows one. FreeBSD's C library
/// loops over single calls, as does musl's `sendmmsg`. On Windows a receive takes one message. Elsewhere than on Linux and
/// Android, a send to an IPv4 address first asks for the socket's family.
#[doc(alias("recvmmsg", "sendmmsg", "recvmsg", "sendmsg", "WSARecvMsg", "WSASendMsg"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `BatchSocket`",
    label = "this type has no batch calls",
    note = "tokio's sockets: `cargo add mmsg --features tokio`, `use mmsg::prelude::*;` and `.await` each call",
    note = "mio's sockets: `cargo add mmsg --features mio`",
    note = "socket2's and other datagram sockets, but no streams: call through the descriptor, `socket.as_fd().recv_into(&mut batch)`, on Windows `socket.as_socket()`"
)]
pub trait BatchSocket {
    /// Receives messages into `msgs`, in order: waits for the first, and takes the others that are there. Returns how
    /// many came; the rest of `msgs` is unchanged. An empty `msgs` makes no system call.
    ///
    /// An edge-triggered loop receives until `WouldBlock`. On Linux and Android it can stop earlier, after a count below
    /// `msgs.len()` and below 1,024: no message is left, or the socket becomes ready again. Elsewhere the count does not
    /// tell.
    ///
    /// A peer of a Unix socket can pass descriptors (`SCM_RIGHTS`) with any message. The call closes them before it
    /// returns; until then they count towards the process's limit.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let (mut a, mut b) = ([0; 1500], [0; 1500]);
    /// let mut msgs = [RecvMsg::new(&mut a), RecvMsg::new(&mut b)];
    /// let n = socket.recv_batch(&mut msgs)?;
    /// assert_eq!((n, msgs[0].data()), (1, &b"hello"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [above](Self#errors).
    #[doc(alias("recvmmsg", "recvmsg", "ReadBatch"))]
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize>;

    /// Sends messages in order. Returns how many the kernel accepted. An empty `msgs` makes no system call.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let n = socket.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
    /// assert_eq!(n, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [above](Self#errors).
    #[doc(alias("sendmmsg", "sendmsg", "send_to", "WriteBatch"))]
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize>;

    /// Receives into the slots of `batch`. Returns the number of messages. After an error the batch is empty.
    ///
    /// The provided implementation calls [`recv_batch`](Self::recv_batch) and fills at most 16 slots.
    ///
    /// # Errors
    ///
    /// The errors of `recv_batch`.
    #[doc(alias("recvmmsg", "recv_from", "ReadBatch"))]
    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.clear();
        batch.recv_by(|msgs| self.recv_batch(msgs))
    }

    /// Adds the messages that are there to `batch`, after those that it holds, without waiting for more. Returns how many it
    /// added: 0 if the batch is full, or if an Internet socket was shut down (on Linux this is `WouldBlock`).
    ///
    /// [`recv_more_until`](BatchSocketExt::recv_more_until) waits for more until a deadline.
    ///
    /// The provided implementation calls [`recv_batch`](Self::recv_batch), so it may wait, and adds at most 16 messages.
    /// On Windows the call may wait if the socket is blocking and another thread also receives from it.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch};
    /// # let (one, other) = (std::net::UdpSocket::bind("127.0.0.1:0")?, std::net::UdpSocket::bind("127.0.0.1:0")?);
    /// # for socket in [&one, &other] {
    /// #     socket.send_to(b"hello", socket.local_addr()?)?;
    /// # }
    /// let mut batch = RecvBatch::new(64, 1500);
    /// one.recv_into(&mut batch)?;
    /// if let Err(error) = other.recv_more(&mut batch) {
    ///     println!("{error}"); // `WouldBlock`: no message is there.
    /// }
    /// assert_eq!(batch.message_count(), 2); // One from each socket.
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`recv_batch`](Self::recv_batch), and [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no message.
    /// The batch is then unchanged.
    #[doc(alias("recvmmsg", "MSG_DONTWAIT"))]
    fn recv_more(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.recv_by(|msgs| self.recv_batch(msgs))
    }

    /// Receives a message into each of the first `buffers`, in order, and calls `each` with the buffer's index and the
    /// message. Waits for the first message only. Returns how many came.
    ///
    /// For programs that lend buffers for each call, as QUIC stacks do. The payload stays in its buffer; address and
    /// metadata are in the thread's arena, so read [`Message::addr`] and [`meta`](Message::meta) in `each`. `each` may also
    /// send, for example a [`reply`](Message::reply). Let buffers begin a page:
    /// those that begin 1 or 16 bytes later are [slow](crate::guide::choosing#where-a-buffer-begins). For an edge-triggered
    /// loop, the count tells what that of [`recv_batch`](Self::recv_batch) does.
    ///
    /// On an [`Offload`](crate::Offload) a coalesced message fills one buffer. [`Message::datagrams`] splits it into
    /// datagrams of [`segment_size`](crate::RecvMeta::segment_size) bytes; the last may be shorter. The provided
    /// implementation receives at most 16 messages.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket};
    /// use std::io::IoSliceMut;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// Ancillary::TOS.require(&socket)?;
    /// let mut memory = [[0; 1500]; 32];
    /// let mut buffers = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
    /// let mut transmits = Vec::with_capacity(32);
    /// socket.recv_slices(&mut buffers, &mut |_index, message| {
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
    /// The errors of [`recv_batch`](Self::recv_batch). `each` is not called then.
    #[doc(alias = "recvmmsg")]
    fn recv_slices(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        // An implementation of your own may return any count; this clamps it.
        const MAX: usize = 16;
        let max = buffers.len().min(MAX);
        let mut left = buffers.iter_mut();
        let mut msgs: [RecvMsg<'_>; MAX] =
            array::from_fn(|_| RecvMsg::new(left.next().map_or(&mut [], |buffer| buffer)));
        let count = self.recv_batch(&mut msgs[..max])?.min(max);
        msgs[..count].iter().enumerate().for_each(|(i, msg)| each(i, msg.message()));
        Ok(count)
    }

    /// Sends the queue's datagrams in order, by repeated calls of [`send_batch`](Self::send_batch), until the queue is empty
    /// or a call fails. Returns how many the kernel accepted; the others stay in the queue.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMsg, SendQueue};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let mut queue = SendQueue::new(1 << 20);
    /// queue.push(&SendMsg::to(to, b"one"))?;
    /// queue.push(&SendMsg::to(to, b"two"))?;
    /// assert_eq!((socket.flush(&mut queue)?, queue.len()), (2, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of `send_batch`, for the datagram at the [`front`](SendQueue::front). It stays in the queue:
    /// [`discard_front`](SendQueue::discard_front) drops it. `ConnectionRefused` on a connected UDP socket is about a
    /// datagram sent earlier: flush again, and drop the front only if the same error comes twice in a row.
    ///
    /// After the first datagram, an error or a full socket ends the call with a count, so call until the queue is empty or the
    /// result is `WouldBlock`. [`flush_each`](crate::BatchSocketExt::flush_each) does this and reports each error.
    fn flush(&self, queue: &mut SendQueue) -> io::Result<usize> {
        let mut sent = 0;
        while !queue.is_empty() {
            let mut chunk = chunk::empty();
            let chunk = queue.fill(&mut chunk, CHUNK);
            let offered = chunk.len();
            match self.send_batch(chunk) {
                Ok(0) => break,
                Ok(count) => {
                    queue.advance(count.min(offered));
                    sent += count.min(offered);
                }
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    }
}

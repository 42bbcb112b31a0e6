//! [`BatchSocket`], the trait with the batch calls.

mod ext;
mod forward;
mod kernel;
mod offer;
mod provided;

use std::io::{self, IoSliceMut};

use crate::recv::batch::RecvBatch;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::sys::{RecvFlags, SendFlags};
pub use ext::BatchSocketExt;
pub(crate) use forward::forward;
pub(crate) use offer::Offer;

/// A datagram socket that moves messages in batches.
///
/// The calls that take any iterator and any closure, [`send_iter`](crate::BatchSocketExt::send_iter) and
/// [`send_each`](crate::BatchSocketExt::send_each), are in [`BatchSocketExt`], which every `BatchSocket`
/// has: import both.
///
/// Implemented for these types, and for `&T`, `Box<T>`, `Rc<T>` and `Arc<T>` of each `T: BatchSocket`,
/// `dyn BatchSocket` included:
///
/// | type | from |
/// |---|---|
/// | `UdpSocket`; on Unix `UnixDatagram` | std; mio, with the feature `mio` |
/// | `Socket` | socket2 |
/// | `BorrowedFd`, `OwnedFd`; on Windows `BorrowedSocket`, `OwnedSocket` | std |
/// | [`Offload`](crate::Offload), [`OffloadRef`](crate::offload::OffloadRef) | this crate |
///
/// Any other datagram socket works through its descriptor: `socket.as_fd().recv_into(&mut batch)`, on Windows
/// `socket.as_socket()`. tokio's sockets implement `AsyncBatchSocket` instead, with the feature `tokio`: tokio must
/// learn of each call that finds nothing, or it takes the socket for ready for ever.
///
/// Other types do not compile: they would lose data (see [below](#stream-sockets)):
///
/// ```compile_fail,E0277
/// fn echo(socket: impl mmsg::BatchSocket) {}
/// # fn test(stream: std::net::TcpStream) {
/// echo(stream); // a `TcpStream`
/// # }
/// ```
/// ```compile_fail,E0599
/// use mmsg::BatchSocket;
/// let file = std::fs::File::open("/dev/null").unwrap();
/// let _ = file.recv_into(&mut mmsg::RecvBatch::new(64, 1500));
/// ```
///
/// Implement the two required methods for a type of your own to replace a socket in tests.
///
/// A call does not allocate if the thread has made one of the same size before. `&dyn BatchSocket`
/// works as well as the type itself.
///
/// # Results
///
/// - A receive takes at least one message. On a blocking socket it waits for the first (at most
///   for the socket's read timeout) and never for a whole batch; on a non-blocking one it says
///   [`WouldBlock`](io::ErrorKind::WouldBlock).
/// - `Ok(n)` of a send: the kernel has the first `n` messages and none of the others. Call again with
///   the rest; an error that ended the batch is then about the first of them.
/// - An error is about the first message of the call, and nothing was transferred. If an error follows
///   a partial transfer, the call returns the count and the next call returns the error. An error that
///   the system reports only once is deferred: the crate stores it for up to a minute, for any
///   descriptor of the socket.
/// - One error is about no message of the call: `ConnectionRefused` on a connected UDP socket is an ICMP
///   error about an earlier datagram. The first message was not tried: offer it again. On a Unix socket
///   the error is the message's own. With [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) on a connected
///   socket, other errors that the network reports come in the same way, and cannot be distinguished from the
///   message's own.
/// - A call for no messages returns `Ok(0)` without a system call. `Ok(0)` for one or more messages
///   means that an Internet socket was shut down. A Unix socket that was shut down returns empty
///   messages.
/// - An interrupted system call is repeated within the socket's timeout. Batches of more than 1,024
///   messages take several system calls.
///
/// # Errors that Linux drops
///
/// On a connected socket, an ICMP error about an earlier datagram ("connection refused") fails one
/// later call. If it arrives during a `sendmmsg`, that call ends early and the kernel drops the error.
/// The crate sends the rest of the batch; the next ICMP error fails a later call. To get every error,
/// turn on [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) and call
/// [`drain_errors`](crate::error_queue::drain_errors), or use [`Backend::Msg`](crate::Backend::Msg), which makes a
/// system call for each message.
///
/// # Unix sockets
///
/// A peer of a Unix socket can pass descriptors (`SCM_RIGHTS`) with any message. The receive closes
/// them, unless [`RecvMsg::with_fds`] or [`RecvBatch::accept_fds`] asks for them. While a receive lasts,
/// those of all its messages are open at once, so a peer can bring the process to its limit of
/// descriptors for a moment. [`Datagram::unix_addr`](crate::Datagram::unix_addr) is a sender's address,
/// [`Datagram::reply`](crate::Datagram::reply) answers it, and [`SendMsg::to_unix`] sends to any.
///
/// # Stream sockets
///
/// This trait is for datagram sockets. On a stream socket a send may take a part of a message and count
/// it as sent, and a receive finds no boundaries. So pass descriptors of datagram sockets only.
///
/// # Platforms
///
/// Linux, Android, NetBSD and OpenBSD move many messages in a system call, and so do macOS and iOS with a feature
/// (see the [crate's page](crate#macos-and-ios)); other Unix systems and Windows one in each. FreeBSD has the calls as
/// functions of its C library, which loop over the others; so has musl on Linux for sends.
///
/// ```
/// use mmsg::{BatchSocket, SendMsg};
///
/// /// Any socket, or a double in a test.
/// fn greet(socket: &dyn BatchSocket, to: std::net::SocketAddr) -> std::io::Result<usize> {
///     socket.send_batch(&[SendMsg::to(to, b"hello"), SendMsg::to(to, b"again")])
/// }
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// assert_eq!(greet(&socket, socket.local_addr()?)?, 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("recvmmsg", "sendmmsg", "recvmsg", "sendmsg", "WSARecvMsg", "WSASendMsg"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `BatchSocket`",
    label = "not one of the datagram sockets with batch calls",
    note = "tokio's sockets have them as futures: use `AsyncBatchSocket`, feature `tokio`",
    note = "mio's sockets have them with the feature `mio`",
    note = "any other datagram socket has them through its descriptor: `socket.as_fd()`, on Windows `socket.as_socket()`"
)]
pub trait BatchSocket {
    /// Receives at least one message, and further waiting ones up to the length of `msgs`. Returns how
    /// many; the other messages are unchanged.
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
    /// `WouldBlock` if nothing is waiting, on a non-blocking socket or after the read timeout;
    /// `OutOfMemory` if there is no memory for the headers; else the system's error.
    #[doc(alias("recvmmsg", "recvmsg"))]
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize>;

    /// Sends messages in order and returns how many the kernel accepted.
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
    /// The system's error for the first message; nothing was sent. An error of a later message ends
    /// the batch before it, and the call returns the count.
    #[doc(alias("sendmmsg", "sendmsg"))]
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize>;

    /// Like [`send_batch`](Self::send_batch), with flags.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendFlags, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let n = socket.send_batch_with(&[SendMsg::to(to, b"one")], SendFlags::DONT_ROUTE)?;
    /// assert_eq!(n, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `send_batch`; `Unsupported` if the implementation has no flags.
    fn send_batch_with(&self, msgs: &[SendMsg<'_>], flags: SendFlags) -> io::Result<usize> {
        if flags.is_empty() {
            self.send_batch(msgs)
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Like [`recv_batch`](Self::recv_batch), with flags.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvFlags, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let mut buffer = [0; 1500];
    /// let nothing = socket.recv_batch_with(&mut [RecvMsg::new(&mut buffer)], RecvFlags::DONT_WAIT);
    /// assert_eq!(nothing.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `recv_batch`; `Unsupported` if the implementation has no flags.
    fn recv_batch_with(&self, msgs: &mut [RecvMsg<'_>], flags: RecvFlags) -> io::Result<usize> {
        if flags.is_empty() {
            self.recv_batch(msgs)
        } else {
            let reason = format!("this socket receives without flags, not with {flags:?}");
            Err(io::Error::new(io::ErrorKind::Unsupported, reason))
        }
    }

    /// Receives into `batch` and returns the number of messages.
    ///
    /// It takes what waits, up to the number of slots; from a blocking socket it may leave messages to the next call
    /// (see [`RecvBatch`]).
    ///
    /// After an error the batch is empty. The provided implementation fills at most 32 slots a call.
    ///
    /// # Errors
    ///
    /// Those of [`recv_batch`](Self::recv_batch).
    #[doc(alias = "recvmmsg")]
    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.recv_by(|msgs| self.recv_batch(msgs))
    }

    /// Like [`recv_into`](Self::recv_into), with flags.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch, RecvFlags};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// assert_eq!(socket.recv_into_with(&mut batch, RecvFlags::PEEK)?, 1);
    /// assert_eq!(socket.recv_into(&mut batch)?, 1); // The peek left it there.
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `recv_into`; `Unsupported` if the implementation has no flags.
    fn recv_into_with(&self, batch: &mut RecvBatch, flags: RecvFlags) -> io::Result<usize> {
        batch.recv_by(|msgs| self.recv_batch_with(msgs, flags))
    }

    /// [`BatchSocketExt::recv_slices`] for a `dyn` closure, with flags.
    ///
    /// The provided implementation receives at most 32 messages a call.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvFlags};
    /// use std::io::IoSliceMut;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let socket: &dyn BatchSocket = &socket;
    /// let (mut buffer, mut len) = ([0; 1500], 0);
    /// let mut each = |_index, message: mmsg::Message<'_>| len = message.len();
    /// socket.recv_slices_dyn(&mut [IoSliceMut::new(&mut buffer)], RecvFlags::NONE, &mut each)?;
    /// assert_eq!(&buffer[..len], b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`recv_batch_with`](Self::recv_batch_with).
    fn recv_slices_dyn(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        provided::recv_slices(self, buffers, flags, each)
    }

    /// [`BatchSocketExt::send_iter`] for a `dyn` iterator.
    ///
    /// The provided implementation calls [`send_batch`](Self::send_batch) for 64 messages at a time. If a later one
    /// of these calls fails, it returns the count and drops the error. So a type whose errors are reported only once, such as
    /// "connection refused", forwards this method to its socket. [`send_each_dyn`](Self::send_each_dyn) reports
    /// every error.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let mut msgs = ["one", "two"].map(|text| SendMsg::to(to, text.as_bytes())).into_iter();
    /// assert_eq!(socket.send_iter_dyn(&mut msgs)?, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`send_batch`](Self::send_batch).
    fn send_iter_dyn<'m>(&self, msgs: &mut dyn Iterator<Item = SendMsg<'m>>) -> io::Result<usize> {
        provided::send_iter(self, msgs)
    }

    /// Sends the queue's datagrams in order and returns how many the kernel accepted. The others stay
    /// in the queue. The provided implementation sends at most 64 datagrams a call: it could not report
    /// an error of a second system call.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket accepts none now; else the system's error for the datagram at the
    /// [`front`](SendQueue::front), which stays there: [`discard_front`](SendQueue::discard_front) drops it.
    /// `ConnectionRefused` on a connected UDP socket is about a datagram sent earlier: the one at the front
    /// was not tried. Flush again, and drop the front only if the same error comes twice in a row.
    ///
    /// An error behind the first datagram ends the call with a count. So call until the queue is empty
    /// or the result is `WouldBlock`. [`flush_each`](crate::BatchSocketExt::flush_each) does so, and reports
    /// each error.
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
    fn flush(&self, queue: &mut SendQueue) -> io::Result<usize> {
        provided::send_first(self, queue, Offer::MOST)
    }

    /// [`BatchSocketExt::send_each`] for a `dyn` iterator and a `dyn` closure.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let mut msgs = ["one", "two"].map(|text| SendMsg::to(to, text.as_bytes())).into_iter();
    /// let handled = socket.send_each_dyn(&mut msgs, &mut |index, error| eprintln!("{index}: {error}"))?;
    /// assert_eq!(handled, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket does not accept the first message now. Every other error goes to
    /// `on_error`.
    fn send_each_dyn<'m>(
        &self,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
        on_error: &mut dyn FnMut(usize, io::Error),
    ) -> io::Result<usize> {
        provided::send_each(self, msgs, on_error)
    }
}

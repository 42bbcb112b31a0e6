//! [`BatchSocket`], the trait with the batch calls.

mod ext;
mod implementations;
mod provided;

use std::io::{self, IoSliceMut};

use crate::recv::batch::RecvBatch;
use crate::recv::datagram::Message;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::send::row::{self, ROW};
pub use ext::BatchSocketExt;
#[cfg(feature = "tokio")]
pub(crate) use ext::OfferSize;
pub(crate) use implementations::forward;

/// A datagram socket that moves messages in batches.
///
/// [`BatchSocketExt`], which every `BatchSocket` has, adds the calls that go on past errors: import both by the
/// [`prelude`](crate::prelude).
///
/// Implemented for these types, and for `&T`, `Box<T>`, `Rc<T>` and `Arc<T>` of each `T: BatchSocket`,
/// `dyn BatchSocket` included:
///
/// | type | from |
/// |---|---|
/// | `UdpSocket`; on Unix `UnixDatagram` | std; mio, with the feature `mio` |
/// | `Socket` | socket2 |
/// | `BorrowedFd`, `OwnedFd`; on Windows `BorrowedSocket`, `OwnedSocket` | std |
/// | [`Offload`](crate::Offload), and [`OffloadState::on`](crate::offload::OffloadState::on) a socket | this crate |
///
/// Any other socket for datagrams of UDP or the Unix family works through its descriptor:
/// `socket.as_fd().recv_into(&mut batch)`, on Windows `socket.as_socket()`. tokio's sockets implement `AsyncBatchSocket`
/// instead, with the feature `tokio`: tokio must learn of each call that finds nothing, or the task spins.
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
/// # One call, one system call
///
/// - A call makes one `recvmmsg` or one `sendmmsg` of up to 1,024 messages. With [`Backend::Msg`](crate::Backend::Msg) it
///   makes a system call for each message, with the same results. [`Offload`](crate::Offload) makes further ones to learn
///   why a send was short, and to send what the kernel rejected as a GSO batch.
/// - A receive waits for its first message only, as long as the socket does, and takes what else is waiting.
/// - A send waits for each message as long as the socket does: a write timeout bounds each wait, not the batch.
/// - `Ok(n)` means that the first `n` messages have moved and the others have not. The count may be less than was offered for
///   any reason: call again with the rest.
/// - A call for no messages returns `Ok(0)` without a system call. `Ok(0)` for one or more messages means that an
///   Internet socket was shut down. A Unix socket that was shut down returns empty messages.
/// - A call does not allocate if the thread has made one of the same size before.
///
/// # Errors
///
/// - `Err` means that nothing has moved; it is the system's error for the first message. After a partial transfer a call
///   returns the count, and stores nothing: a message's own error comes again when the message is offered again.
/// - An asynchronous error is about an earlier datagram: `ConnectionRefused` on a connected socket, by ICMP. It fails one
///   call, or none if it meets the kernel in the middle of a batch. To get each of them, turn on
///   [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) and drain the [queue](crate::error_queue).
/// - With `ERRORS` on, Linux fails calls on an unconnected socket for datagrams to any destination. Such a call is made
///   again, or ends with a count if a part has moved.
/// - A call that a signal interrupts is made again, unless the socket has a timeout: then it returns
///   [`Interrupted`](io::ErrorKind::Interrupted), since the kernel would start the timeout anew.
/// - On a non-blocking socket, or after a timeout, a call returns [`WouldBlock`](io::ErrorKind::WouldBlock) (Windows after
///   a timeout: `TimedOut`).
///
/// [`guide::errors`](crate::guide::errors) says what each error means, and what to do.
///
/// # Unix sockets
///
/// A peer of a Unix socket can pass descriptors (`SCM_RIGHTS`) with any message. The receive closes them. Until it returns,
/// those of all its messages are open, so a peer can bring the process to its limit of descriptors for a moment.
/// [`Datagram::unix_addr`](crate::Datagram::unix_addr) is a sender's address,
/// [`Datagram::reply`](crate::Datagram::reply) answers it, and [`SendMsg::to_unix`] sends to any.
///
/// # Stream sockets
///
/// This trait is for datagram sockets. On a stream socket a send may take a part of a message and count
/// it as sent, and a receive finds no boundaries. So pass descriptors of datagram sockets only.
///
/// # Platforms
///
/// Linux, Android, NetBSD and OpenBSD move many messages in a system call, macOS, iOS and Windows one. FreeBSD's C library
/// has the calls as loops over the others, as has musl on Linux for sends. On Windows a receive takes one message.
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
    /// See [above](Self#errors); `OutOfMemory` if there is no memory for the headers.
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
    /// See [above](Self#errors).
    #[doc(alias("sendmmsg", "sendmsg"))]
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize>;

    /// Receives into `batch`, up to the number of its slots, and returns the number of messages. After an error the
    /// batch is empty.
    ///
    /// The provided implementation fills at most 16 slots a call, by [`recv_batch`](Self::recv_batch).
    ///
    /// # Errors
    ///
    /// Those of `recv_batch`.
    #[doc(alias = "recvmmsg")]
    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.recv_by(|buffers, each| self.recv_slices(buffers, each))
    }

    /// Receives at least one message, and further waiting ones, each into one of `buffers`, and calls
    /// `each` with the buffer's index and the message. Returns how many. `each` may itself send, for example a
    /// [`reply`](Message::reply).
    ///
    /// For programs that lend buffers for each call, as QUIC stacks do. Headers, addresses and control data are in the
    /// thread's arena: read [`Message::addr`], [`meta`](Message::meta) and the rest while `each` runs. The payload stays
    /// in the buffer. Buffers that begin a page are fast, and those that begin 1 or 16 bytes behind one
    /// [slow](crate::guide::memory#where-a-buffer-begins).
    ///
    /// Messages come in the order in which they were received, into the first buffers in order. On an
    /// [`Offload`](crate::Offload) a coalesced message fills one buffer:
    /// [`segment_size`](crate::RecvMeta::segment_size) is the length of its datagrams, and
    /// [`Message::datagrams`] yields them. The provided implementation receives at most 16 messages a call.
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
    /// Those of [`recv_batch`](Self::recv_batch); `each` was not called.
    #[doc(alias = "recvmmsg")]
    fn recv_slices(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        provided::recv_slices(self, buffers, each)
    }

    /// Sends the queue's datagrams in order, by as many calls of [`send_batch`](Self::send_batch) as it takes, until the
    /// socket takes no more or one fails. Returns how many the kernel accepted; the others stay in the queue.
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
    /// Those of `send_batch`, about the datagram at the [`front`](SendQueue::front), which stays there:
    /// [`discard_front`](SendQueue::discard_front) drops it. `ConnectionRefused` on a connected UDP socket is about a
    /// datagram sent earlier: flush again, and drop the front only if the same error comes twice in a row.
    ///
    /// An error behind the first datagram ends the call with a count. So call until the queue is empty
    /// or the result is `WouldBlock`. [`flush_each`](crate::BatchSocketExt::flush_each) does so, and reports
    /// each error.
    fn flush(&self, queue: &mut SendQueue) -> io::Result<usize> {
        let mut sent = 0;
        while !queue.is_empty() {
            let mut row = row::row();
            let row = queue.fill(&mut row, ROW);
            let offered = row.len();
            match self.send_batch(row) {
                Ok(count) => {
                    queue.advance(count.min(offered));
                    sent += count.min(offered);
                    if count < offered {
                        break;
                    }
                }
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    }
}

//! [`UdpSocket`] and its calls.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::BufMut;
use mmsg::offload::OffloadState;
use mmsg::{AsyncBatchSocket, Message, RecvMeta, RecvMsg, SendMsg};
use tokio::io::{Interest, ReadBuf, Ready};
use tokio::net::{self, ToSocketAddrs};

use crate::shared::{Call, Shared};

/// A UDP socket with the calls of tokio's [`UdpSocket`](net::UdpSocket), and batches underneath.
///
/// The calls have tokio's names, arguments and results. [The crate's page](crate) says what differs.
///
/// ```
/// use mmsg_tokio::UdpSocket;
/// use std::future::poll_fn;
/// use tokio::io::{Interest, ReadBuf};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let socket = UdpSocket::from_std({
///     let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
///     socket.set_nonblocking(true)?;
///     socket
/// })?;
/// let client = UdpSocket::bind("127.0.0.1:0").await?;
/// client.connect(socket.local_addr()?).await?;
/// assert_eq!(client.peer_addr()?, socket.local_addr()?);
///
/// // Sends: those that wait, those that do not, and those for a `poll_` function.
/// let (data, to) = (b"hello", socket.local_addr()?);
/// client.send(data).await?;
/// client.send_to(data, to).await?;
/// client.writable().await?;
/// client.try_send(data)?;
/// client.try_send_to(data, to)?;
/// poll_fn(|cx| client.poll_send_ready(cx)).await?;
/// poll_fn(|cx| client.poll_send(cx, data)).await?;
/// poll_fn(|cx| client.poll_send_to(cx, data, to)).await?;
/// # client.send(data).await?;
/// # client.send(data).await?;
/// # client.send(data).await?;
/// # client.send(data).await?;
///
/// // Receives.
/// let (mut buf, mut vec) = ([0; 1500], Vec::with_capacity(1500));
/// assert_eq!(socket.recv(&mut buf).await?, 5);
/// let (len, from) = socket.recv_from(&mut buf).await?;
/// socket.recv_buf(&mut vec).await?;
/// socket.recv_buf_from(&mut vec).await?;
/// socket.readable().await?;
/// socket.try_recv(&mut buf)?;
/// socket.try_recv_from(&mut buf)?;
/// socket.try_recv_buf(&mut vec)?;
/// socket.try_recv_buf_from(&mut vec)?;
/// # client.send(data).await?;
/// # client.send(data).await?;
/// poll_fn(|cx| socket.poll_recv_ready(cx)).await?;
/// poll_fn(|cx| socket.poll_recv(cx, &mut ReadBuf::new(&mut buf))).await?;
///
/// // Peeks leave the datagram.
/// assert!(socket.ready(Interest::READABLE).await?.is_readable());
/// socket.peek(&mut buf).await?;
/// socket.peek_from(&mut buf).await?;
/// socket.peek_sender().await?;
/// socket.try_peek(&mut buf)?;
/// socket.try_peek_from(&mut buf)?;
/// socket.try_peek_sender()?;
/// poll_fn(|cx| socket.poll_peek(cx, &mut ReadBuf::new(&mut buf))).await?;
/// poll_fn(|cx| socket.poll_peek_from(cx, &mut ReadBuf::new(&mut buf))).await?;
/// poll_fn(|cx| socket.poll_peek_sender(cx)).await?;
/// poll_fn(|cx| socket.poll_recv_from(cx, &mut ReadBuf::new(&mut buf))).await?;
/// # assert_eq!((len, from), (5, client.local_addr()?));
///
/// // What is queued, and what failed.
/// socket.flush().await?;
/// println!("{} failed, the last with {:?}", socket.failed(), socket.take_error()?);
/// println!("{:?}", socket.offload().map(|offload| offload.counters()));
/// # Ok(())
/// # }
/// ```
///
/// Options, and a socket that stays tokio's own:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let socket = mmsg_tokio::UdpSocket::bind("0.0.0.0:0").await?;
/// socket.set_queue_bytes(1 << 16);
/// socket.set_broadcast(!socket.broadcast()?)?;
/// socket.set_ttl(socket.ttl()? + 1)?;
/// socket.set_multicast_loop_v4(!socket.multicast_loop_v4()?)?;
/// socket.set_multicast_ttl_v4(socket.multicast_ttl_v4()? + 1)?;
/// let (group, any) = ([239, 255, 77, 79].into(), [0, 0, 0, 0].into());
/// if socket.join_multicast_v4(group, any).is_ok() {
///     socket.leave_multicast_v4(group, any)?;
/// }
/// # #[cfg(target_os = "linux")] {
/// socket.set_tos_v4(socket.tos_v4()? | 8)?;
/// socket.bind_device(socket.device()?.as_deref())?;
/// if let Ok(socket) = mmsg_tokio::UdpSocket::bind("[::1]:0").await {
///     socket.set_tclass_v6(socket.tclass_v6()? | 8)?;
///     socket.set_multicast_loop_v6(!socket.multicast_loop_v6()?)?;
///     let (group, lo) = ("ff02::4d".parse().unwrap(), 1);
///     if socket.join_multicast_v6(&group, lo).is_ok() {
///         socket.leave_multicast_v6(&group, lo)?;
///     }
/// }
/// # }
/// assert!(socket.stay_quiet());
/// let socket: std::net::UdpSocket = socket.into_std()?;
/// # Ok(())
/// # }
/// ```
///
/// Answers from the address that was asked:
///
/// ```
/// use mmsg::{Ancillary, SendMsg};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let socket = mmsg_tokio::UdpSocket::bind("0.0.0.0:0").await?;
/// Ancillary::DEST.require(&socket)?;
/// # let client = mmsg_tokio::UdpSocket::bind("127.0.0.1:0").await?;
/// # client.send_to(b"ask", (std::net::Ipv4Addr::LOCALHOST, socket.local_addr()?.port())).await?;
/// let mut buf = [0; 1500];
/// let (_, from, meta) = socket.recv_meta(&mut buf).await?;
/// socket.send_msg(&SendMsg::to(from, b"answer").with_meta(&meta.reply_meta())).await?;
/// # assert_eq!(client.recv(&mut buf).await?, 6);
/// # Ok(())
/// # }
/// ```
pub struct UdpSocket {
    shared: Arc<Shared>,
}

/// Making a socket, and its addresses.
impl UdpSocket {
    /// Binds a socket, as tokio's [`bind`](net::UdpSocket::bind).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        net::UdpSocket::bind(addr).await.map(Self::from)
    }

    /// Makes a socket of std's, which must be non-blocking, as tokio's [`from_std`](net::UdpSocket::from_std).
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[track_caller]
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        net::UdpSocket::from_std(socket).map(Self::from)
    }

    /// Makes a socket of std's. Sends what is queued first.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while datagrams are left, after a burst also in the kernel, which may have coalesced them, or while it takes
    /// no more of the queue. The socket is then closed. Else the system's error.
    pub fn into_std(self) -> io::Result<std::net::UdpSocket> {
        let shared = Arc::clone(&self.shared);
        if shared.flush_last().is_pending() || shared.has_more() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        shared.end(2);
        drop(self);
        Arc::into_inner(shared).ok_or(io::ErrorKind::WouldBlock)?.socket.into_std()
    }

    /// As tokio's [`local_addr`](net::UdpSocket::local_addr).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.plain().local_addr()
    }

    /// As tokio's [`peer_addr`](net::UdpSocket::peer_addr).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.plain().peer_addr()
    }

    /// Connects the socket, as tokio's [`connect`](net::UdpSocket::connect), once what is queued has been sent.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        let nowhere = "could not resolve to any address";
        let mut result = Err(io::Error::new(io::ErrorKind::InvalidInput, nowhere));
        for addr in net::lookup_host(addr).await? {
            self.flush().await?;
            result = self.plain().connect(addr).await;
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// tokio's socket, for calls that neither receive nor send.
    pub(crate) fn plain(&self) -> &net::UdpSocket {
        &self.shared.socket
    }

    /// tokio's socket, after what was queued.
    pub(crate) fn flushed(&self) -> &net::UdpSocket {
        let _ = self.shared.flush_last();
        self.plain()
    }
}

/// Readiness: readable while datagrams of a batch are left, writable while the queue or the socket has space.
impl UdpSocket {
    /// As tokio's [`ready`](net::UdpSocket::ready).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.plain().ready(interest).await
    }

    /// As tokio's [`readable`](net::UdpSocket::readable).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn readable(&self) -> io::Result<()> {
        self.plain().readable().await
    }

    /// As tokio's [`writable`](net::UdpSocket::writable).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn writable(&self) -> io::Result<()> {
        self.plain().writable().await
    }

    /// As tokio's [`poll_recv_ready`](net::UdpSocket::poll_recv_ready): the task of the last call is woken.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.plain().poll_recv_ready(cx)
    }

    /// As tokio's [`poll_send_ready`](net::UdpSocket::poll_send_ready): the task of the last call is woken.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.plain().poll_send_ready(cx)
    }
}

/// The calls that wait, and those that do not.
macro_rules! receives {
    ($($name:ident, $try_name:ident $(<$generic:ident>)? ($buf:ty) -> $result:ty, $take:ident, $peeks:literal;)*) => {
        impl UdpSocket {$(
            #[doc = concat!("As tokio's [`", stringify!($name), "`](net::UdpSocket::", stringify!($name), ").")]
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn $name $(<$generic: BufMut>)? (&self, mut buf: $buf) -> io::Result<$result> {
                self.shared.receive(&mut buf, &Call { plain: |socket, buf| socket.$try_name(buf), take: $take, peeks: $peeks }).await
            }

            #[doc = concat!("As tokio's [`", stringify!($try_name), "`](net::UdpSocket::", stringify!($try_name), ").")]
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is no datagram; else the system's error.
            pub fn $try_name $(<$generic: BufMut>)? (&self, mut buf: $buf) -> io::Result<$result> {
                self.shared.try_receive(&mut buf, &Call { plain: |socket, buf| socket.$try_name(buf), take: $take, peeks: $peeks })
            }
        )*}
    };
}

receives! {
    recv, try_recv(&mut [u8]) -> usize, take, false;
    recv_from, try_recv_from(&mut [u8]) -> (usize, SocketAddr), take_from, false;
    recv_buf, try_recv_buf<B>(&mut B) -> usize, take, false;
    recv_buf_from, try_recv_buf_from<B>(&mut B) -> (usize, SocketAddr), take_from, false;
    peek, try_peek(&mut [u8]) -> usize, take, true;
    peek_from, try_peek_from(&mut [u8]) -> (usize, SocketAddr), take_from, true;
}

/// The calls that a task polls.
macro_rules! poll_receives {
    ($($name:ident -> $result:ty, $plain:expr, $take:expr, $peeks:literal;)*) => {
        impl UdpSocket {$(
            #[doc = concat!("As tokio's [`", stringify!($name), "`](net::UdpSocket::", stringify!($name), "): the task of the last call is woken.")]
            ///
            /// # Errors
            ///
            /// The system's error.
            pub fn $name(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<$result>> {
                self.shared.poll_receive(cx, buf, &Call { plain: $plain, take: $take, peeks: $peeks })
            }
        )*}
    };
}

poll_receives! {
    poll_recv -> (), |socket, buf| socket.try_recv_buf(buf).map(drop),
        |buf, data, message| take(buf, data, message).map(drop), false;
    poll_recv_from -> SocketAddr, |socket, buf| Ok(socket.try_recv_buf_from(buf)?.1),
        |buf, data, message| Ok(take_from(buf, data, message)?.1), false;
    poll_peek -> (), |socket, buf| peek(buf, |buf| socket.try_peek_from(buf)).map(drop),
        |buf, data, message| take(buf, data, message).map(drop), true;
    poll_peek_from -> SocketAddr, |socket, buf| peek(buf, |buf| socket.try_peek_from(buf)),
        |buf, data, message| Ok(take_from(buf, data, message)?.1), true;
}

fn peek(
    buf: &mut ReadBuf<'_>,
    call: impl FnOnce(&mut [u8]) -> io::Result<(usize, SocketAddr)>,
) -> io::Result<SocketAddr> {
    let (len, from) = call(buf.initialize_unfilled())?;
    buf.advance(len);
    Ok(from)
}

const PEEK_SENDER: Call<(), SocketAddr> =
    Call { plain: |socket, ()| socket.try_peek_sender(), take: source, peeks: true };

impl UdpSocket {
    /// As tokio's [`peek_sender`](net::UdpSocket::peek_sender).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.shared.receive(&mut (), &PEEK_SENDER).await
    }

    /// As tokio's [`try_peek_sender`](net::UdpSocket::try_peek_sender).
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no datagram; else the system's error.
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.shared.try_receive(&mut (), &PEEK_SENDER)
    }

    /// As tokio's [`poll_peek_sender`](net::UdpSocket::poll_peek_sender): the task of the last call is woken.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.shared.poll_receive(cx, &mut (), &PEEK_SENDER)
    }

    /// Receives a datagram with the metadata that the program has turned on
    /// ([`Ancillary::require`](mmsg::Ancillary)). Otherwise like [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn recv_meta(&self, mut buf: &mut [u8]) -> io::Result<(usize, SocketAddr, RecvMeta)> {
        let call = Call { plain: plain_meta, take: take_meta, peeks: false };
        self.shared.receive(&mut buf, &call).await
    }

    /// As tokio's [`send`](net::UdpSocket::send), or queues the datagram.
    ///
    /// # Errors
    ///
    /// The system's error, also about an earlier datagram of `send` that was queued.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        match self.shared.queue_later(&SendMsg::new(buf)).await {
            Some(result) => result,
            None => self.plain().send(buf).await,
        }
    }

    /// As tokio's [`send_to`](net::UdpSocket::send_to), or queues the datagram.
    ///
    /// # Errors
    ///
    /// The system's error, also about an earlier datagram to this destination that was queued.
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        if self.offload().is_none() {
            return self.plain().send_to(buf, addr).await;
        }
        let Some(target) = net::lookup_host(addr).await?.next() else {
            let reason = "no addresses to send data to";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        match self.shared.queue_later(&SendMsg::to(target, buf)).await {
            Some(result) => result,
            None => self.plain().send_to(buf, target).await,
        }
    }

    /// Sends a message with settings of its own, such as the source address of an answer
    /// ([`RecvMeta::reply_meta`](mmsg::RecvMeta)), or queues it. Returns its length.
    ///
    /// # Errors
    ///
    /// The errors of [`send_to`](Self::send_to).
    pub async fn send_msg(&self, msg: &SendMsg<'_>) -> io::Result<usize> {
        match self.shared.queue_later(msg).await {
            Some(result) => result,
            None => self.plain().send_batch(&[*msg]).await.map(|_| msg.len()),
        }
    }

    /// As tokio's [`try_send`](net::UdpSocket::try_send), or queues the datagram.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket, or the queue and the socket, are full; else the errors of [`send`](Self::send).
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.shared.queue(&SendMsg::new(buf)).unwrap_or_else(|| self.plain().try_send(buf))
    }

    /// As tokio's [`try_send_to`](net::UdpSocket::try_send_to), or queues the datagram.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket, or the queue and the socket, are full; else the errors of
    /// [`send_to`](Self::send_to).
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        let queued = self.shared.queue(&SendMsg::to(target, buf));
        queued.unwrap_or_else(|| self.plain().try_send_to(buf, target))
    }

    /// As tokio's [`poll_send`](net::UdpSocket::poll_send), or queues the datagram. The task of the last call is woken.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.shared.queue(&SendMsg::new(buf)) {
            Some(queued) => self.shared.poll_queued(cx, queued),
            None => self.plain().poll_send(cx, buf),
        }
    }

    /// As tokio's [`poll_send_to`](net::UdpSocket::poll_send_to), or queues the datagram. The task of the last call is
    /// woken.
    ///
    /// # Errors
    ///
    /// The errors of [`send_to`](Self::send_to).
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        match self.shared.queue(&SendMsg::to(target, buf)) {
            Some(queued) => self.shared.poll_queued(cx, queued),
            None => self.plain().poll_send_to(cx, buf, target),
        }
    }
}

/// Takes what fits, without growing the buffer: like a receive, it drops the rest.
fn take(buf: &mut impl BufMut, data: &[u8], _: &Message<'_>) -> io::Result<usize> {
    let len = data.len().min(buf.chunk_mut().len());
    buf.put_slice(&data[..len]);
    Ok(len)
}

fn take_from<B: BufMut>(
    buf: &mut B,
    data: &[u8],
    message: &Message<'_>,
) -> io::Result<(usize, SocketAddr)> {
    Ok((take(buf, data, message)?, source(&mut (), data, message)?))
}

fn take_meta<B: BufMut>(
    buf: &mut B,
    data: &[u8],
    message: &Message<'_>,
) -> io::Result<(usize, SocketAddr, RecvMeta)> {
    let mut meta = *message.meta();
    meta.segment_size = None; // A datagram of a coalesced message has no segments.
    Ok((take(buf, data, message)?, source(&mut (), data, message)?, meta))
}

/// The kernel reports the source of each datagram.
fn source(_: &mut (), _: &[u8], message: &Message<'_>) -> io::Result<SocketAddr> {
    message.addr().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn plain_meta(
    socket: &net::UdpSocket,
    buf: &mut &mut [u8],
) -> io::Result<(usize, SocketAddr, RecvMeta)> {
    let mut msgs = [RecvMsg::new(buf)];
    let mut call = || socket.batch_call(&mut |socket| socket.recv_batch(&mut msgs));
    socket.try_io(Interest::READABLE, &mut call)?;
    let (message, len) = (msgs[0].message(), msgs[0].message().data().len());
    Ok((len, source(&mut (), &[], &message)?, *message.meta()))
}

/// What tokio's socket does not have.
impl UdpSocket {
    /// Waits until everything that was queued has been sent, or has failed.
    ///
    /// Call it before the program exits, and before a `block_on` ends that other calls of it will not follow soon: nothing runs
    /// between two.
    ///
    /// # Errors
    ///
    /// The error of a runtime that shuts down. [`take_error`](Self::take_error) has those of datagrams.
    pub async fn flush(&self) -> io::Result<()> {
        while self.shared.flush_now().is_pending() {
            self.shared.space().await?;
        }
        Ok(())
    }

    /// The socket's error, as tokio's [`take_error`](net::UdpSocket::take_error), or that of a datagram that was queued.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let error = self.plain().take_error()?;
        Ok(error.or_else(|| self.shared.busy()?.sends.take_error(|_| true)))
    }

    /// The number of queued datagrams that the system did not accept.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.shared.busy().map_or(0, |busy| busy.sends.failed())
    }

    /// Sets the bound of the queue in bytes, as [`SendQueue`](mmsg::SendQueue) counts them, and of the datagrams that are on
    /// their way from it. The default is 1 MiB. With 0 nothing is queued: each send has its own result.
    pub fn set_queue_bytes(&self, bytes: usize) {
        self.shared.bound.store(bytes, Ordering::Relaxed);
    }

    /// Keeps the socket tokio's own, call for call, whatever it receives. Returns false if it has met a burst already.
    pub fn stay_quiet(&self) -> bool {
        self.shared.stay_quiet()
    }

    /// The state of GSO and GRO with its counters; `None` until the socket has met a burst.
    #[must_use]
    pub fn offload(&self) -> Option<&OffloadState> {
        self.shared.busy().map(|busy| &busy.offload)
    }
}

impl From<net::UdpSocket> for UdpSocket {
    fn from(socket: net::UdpSocket) -> Self {
        static IS_OFF: OnceLock<bool> = OnceLock::new();
        let is_off =
            IS_OFF.get_or_init(|| std::env::var_os("MMSG_OFFLOAD").is_some_and(|v| v == "0"));
        let socket = Self { shared: Arc::new(Shared::new(socket)) };
        if *is_off {
            socket.stay_quiet();
        }
        socket
    }
}

impl TryFrom<std::net::UdpSocket> for UdpSocket {
    type Error = io::Error;

    fn try_from(socket: std::net::UdpSocket) -> io::Result<Self> {
        Self::from_std(socket)
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain().fmt(f)
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.shared.end(1);
    }
}

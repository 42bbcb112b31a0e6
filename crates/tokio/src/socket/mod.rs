//! [`UdpSocket`]: making one, and what tokio's socket does not have.

mod calls;

use std::sync::Arc;
use std::{io, process, thread};

use mmsg::offload::OffloadState;
use socket2::SockRef;
use tokio::net::{self, ToSocketAddrs};
use tokio::task;

use crate::sends::{is_would_block, lock};
use crate::shared::Shared;

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
/// socket.set_tos(socket.tos()? | 8)?;
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
#[derive(Debug)]
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
        let socket: std::net::UdpSocket = self.sock_ref().try_clone()?.into();
        let is_empty = self.shared.flush().is_ready() && !self.shared.has_left();
        let was_quiet = self.offload().is_none();
        drop(self); // Turns GRO off.
        // The first may fail by an error of the socket.
        let is_drained = || (0..2).any(|_| socket.peek(&mut []).is_err_and(|e| is_would_block(&e)));
        let is_whole = is_empty && (was_quiet || is_drained());
        is_whole.then_some(socket).ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Connects the socket, as tokio's [`connect`](net::UdpSocket::connect), once what is queued has been sent.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        let addrs: Vec<_> = net::lookup_host(addr).await?.collect();
        let last = self.peer_addr().ok();
        self.flush().await?;
        let result = self.plain().connect(&addrs[..]).await;
        let mut sends = lock(&self.shared.sends);
        if let Some(error) = sends.errors.remove(&None) {
            sends.errors.insert(last, error); // About the last peer.
        }
        result
    }

    /// tokio's socket.
    pub(crate) fn plain(&self) -> &net::UdpSocket {
        &self.shared.socket
    }

    /// tokio's socket, after what was queued.
    pub(crate) fn flushed(&self) -> &net::UdpSocket {
        let _ = self.shared.flush();
        self.plain()
    }

    /// The same, for options that tokio 1.47 lacks.
    pub(crate) fn sock_ref(&self) -> SockRef<'_> {
        self.flushed().into()
    }
}

/// What tokio's socket does not have.
impl UdpSocket {
    /// Waits until everything that was queued has been sent, or has failed.
    ///
    /// Call it before the program exits, and before a `block_on` ends if its runtime runs nothing after it.
    ///
    /// # Errors
    ///
    /// The error of a runtime that shuts down. [`take_error`](Self::take_error) has those of datagrams.
    pub async fn flush(&self) -> io::Result<()> {
        self.shared.flush_all().await?;
        // Queueing costs no unit of the budget: a task that sends and flushes would never yield.
        task::consume_budget().await;
        Ok(())
    }

    /// The socket's error, as tokio's [`take_error`](net::UdpSocket::take_error), or that of a datagram that was queued.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let error = self.plain().take_error()?;
        Ok(error.or_else(|| Some(lock(&self.shared.sends).errors.pop_first()?.1)))
    }

    /// The number of queued datagrams that the system did not accept. ICMP errors are not among them.
    #[must_use]
    pub fn failed(&self) -> u64 {
        lock(&self.shared.sends).failed
    }

    /// Sets the bound of the queue in bytes, as [`SendQueue`](mmsg::SendQueue) counts them, and of the datagrams that are on
    /// their way from it. The default is 256 KiB. With 0 nothing is queued: each send has its own result.
    pub fn set_queue_bytes(&self, bytes: usize) {
        lock(&self.shared.sends).bound = bytes;
    }

    /// Keeps the socket tokio's own, call for call, whatever it receives. Returns false if it has met a burst already.
    pub fn stay_quiet(&self) -> bool {
        lock(&self.shared.received).stays_quiet = true;
        self.offload().is_none()
    }

    /// The state of GSO and GRO; `None` until the socket has met a burst. Its counters count batches alone, not what a quiet
    /// socket receives, nor what is sent at once. Its switches are the program's to use.
    #[must_use]
    pub fn offload(&self) -> Option<&OffloadState> {
        self.shared.offload()
    }
}

impl From<net::UdpSocket> for UdpSocket {
    fn from(socket: net::UdpSocket) -> Self {
        Self { shared: Shared::new(socket) }
    }
}

impl TryFrom<std::net::UdpSocket> for UdpSocket {
    type Error = io::Error;

    fn try_from(socket: std::net::UdpSocket) -> io::Result<Self> {
        Self::from_std(socket)
    }
}

/// Sends what the kernel takes of the queue without waiting. A duplicate of the descriptor gets single datagrams again.
impl Drop for UdpSocket {
    fn drop(&mut self) {
        let Some(burst) = self.shared.burst.get().filter(|burst| burst.process == process::id())
        else {
            return; // It has met no burst, or is a child's, by a fork.
        };
        let _ = self.shared.flush();
        let _ = burst.offload.disable_gro(self.plain());
        // The flusher may be sending on another thread, which does not wait. Then the descriptor is this handle's alone.
        while Arc::strong_count(&self.shared) > 1 {
            thread::yield_now();
        }
    }
}

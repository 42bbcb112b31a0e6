//! Segmentation offload: many datagrams in one pass through the kernel's network stack.

mod builder;
mod counters;
mod environment;
mod gso;
mod health;
mod partial;
mod release;
mod routes;
#[cfg(feature = "mio")]
mod source;
pub(crate) mod state;

use std::io;

pub use builder::OffloadBuilder;
pub use counters::Counters;
pub use health::GsoStatus;
pub use state::{OffloadRef, OffloadState};

use crate::socket::{BatchSocket, forward};
use crate::sys::{self, AsSocket};

/// A socket that sends with GSO and receives with GRO.
///
/// Sends: consecutive messages with one destination, the same options and one length form a GSO batch
/// (the last one may be shorter), which the kernel or the network device segments (`UDP_SEGMENT`,
/// Linux 4.18). Messages may have one buffer or several, anywhere in memory. One call may mix
/// destinations and single datagrams.
///
/// Receives: the kernel may coalesce datagrams of one source into one message (GRO, `UDP_GRO`,
/// Linux 5.0). [`RecvBatch`](crate::RecvBatch)'s iterator and [`RecvMsg::datagrams`](crate::RecvMsg::datagrams) yield
/// its segments.
///
/// The outcome equals that of sending each message by itself: counts are of messages, the order stays,
/// and if the kernel rejects a GSO batch, its datagrams are sent one by one within the call, each with
/// its own result. Without offload an `Offload` works like the plain socket.
///
/// ```
/// use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg};
/// # let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = receiver.local_addr()?;
/// let sender = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
/// let receiver = Offload::new(receiver)?;
///
/// let sent = sender.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
/// let mut batch = RecvBatch::for_gro(16);
/// receiver.recv_into(&mut batch)?;
/// let datagrams: Vec<_> = batch.iter().map(|d| d.data()).collect();
/// assert_eq!((sent, &datagrams[..]), (2, &[&b"one"[..], b"two"][..]));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Messages with a segment size
///
/// A message with its own [segment size](crate::SendMeta::segment_size) goes to the kernel as it is. If
/// the kernel rejects it or GSO is off, it is segmented in user space and still counts as one message:
/// it has been sent when its last datagram has. If one of its datagrams fails, the message has failed
/// with that error, though the datagrams before have left; offered again, it is sent from its beginning.
/// If the socket accepts no more now (`WouldBlock`, also after a blocking socket's write timeout), or
/// the call ends with a count, the message is still to be sent: offer it again, from any call, thread or
/// future, and it continues where it stopped. It is recognized by its contents, options and destination:
/// an equal message sent in its place completes it. The last 4,096 such messages are remembered, in
/// 96 KiB that are allocated with the first (`OutOfMemory` before anything leaves, where there is none).
/// Each of its datagrams may wait as long as a blocking socket's write timeout allows.
///
/// # The don't-fragment bit
///
/// By Linux's default (`IP_MTU_DISCOVER` is `IP_PMTUDISC_WANT`) a single IPv4 datagram leaves with the
/// bit set, but those of a GSO batch longer than the route's MTU without it, so that routers fragment
/// them and no path MTU is learned. With [`Fragmentation::Probe`](crate::options::Fragmentation::Probe) or
/// [`Never`](crate::options::Fragmentation::Never) all leave with the bit, with
/// [`Allow`](crate::options::Fragmentation::Allow) none does. QUIC sets `Probe`. IPv6 has no such bit.
///
/// # When GSO is off
///
/// [`gso_status`](Self::gso_status) gives the reason, [`counters`](Self::counters) how often.
///
/// - The program turns GSO off and on with [`OffloadBuilder::gso`] and [`set_gso`](Self::set_gso).
/// - The environment variable `MMSG_GSO=0` turns GSO off for the whole process, whatever the program says. With
///   `MMSG_GSO=1` the release of the kernel does not matter. `MMSG_GRO=0` turns GRO off. Other values have no
///   effect. Both variables are read once, when the first socket is wrapped.
/// - GSO is off on Linux 7.0.0 to 7.1.4, which damage GSO batches on many devices:
///   [`OffloadBuilder::force_gso`] turns it on there. A virtual machine does not see which kernel its
///   host runs: if throughput collapses there, try `MMSG_GSO=0`.
/// - A destination whose path rejects a GSO batch (`EIO`, `EOPNOTSUPP`) gets single datagrams for a minute;
///   other destinations still get GSO batches. Some 500 such addresses are remembered, in 48 KiB that are
///   allocated with the first. GSO is off for the whole socket for a minute if four destinations reject, and no
///   batch was accepted in between, or if the socket is connected.
///
/// # Options that change what GSO sends
///
/// - While [`SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on, each datagram is sent by itself, since
///   the kernel reports one time and one number for a whole GSO batch. If the option was set by other
///   means than this crate, call [`set_gso`](Self::set_gso) afterwards, which checks again.
/// - A socket with `UDP_SEGMENT` or `UDP_CORK` set cannot be wrapped, and neither may be set later:
///   datagrams would be split or joined otherwise than by the plain socket.
///
/// # Memory
///
/// With GRO on, every message offered to a receive needs a buffer of 65,527 bytes, the longest UDP
/// payload, as [`RecvBatch::for_gro`](crate::RecvBatch::for_gro) has. With a smaller buffer the receive fails with `InvalidInput`
/// before anything is received, unless it is a [`PEEK`](crate::RecvFlags::PEEK). The buffers are address
/// space; pages that no datagram has reached take no memory. To save address space, use fewer slots (a
/// coalesced message fills only one) or turn GRO off.
///
/// # Platforms
///
/// Linux and Android. Windows 10 2004 and later, with up to 512 segments a batch (`UDP_SEND_MSG_SIZE`), and with GRO
/// (`UDP_RECV_MAX_COALESCED_SIZE`) only if it is [asked for](OffloadBuilder::gro). Elsewhere an `Offload` works like the
/// plain socket, and counts.
#[doc(alias("GSO", "GRO", "UDP_SEGMENT", "UDP_GRO"))]
#[doc(alias("USO", "URO", "UDP_SEND_MSG_SIZE", "UDP_RECV_MAX_COALESCED_SIZE"))]
#[derive(Debug)]
pub struct Offload<S> {
    socket: S,
    state: OffloadState,
}

impl<S: AsSocket> Offload<S> {
    /// Turns on GSO and, except on Windows, GRO, as far as the kernel has them for this socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else the system's error. A
    /// missing offload is no error: see [`gso`](Self::gso) and [`gro`](Self::gro).
    pub fn new(socket: S) -> io::Result<Self> {
        Offload::<()>::builder().build(socket)
    }

    /// Turns GSO on or off, at any time, and returns whether it is on: [`gso_status`](Self::gso_status)
    /// says why not. Forgets which destinations rejected GSO batches.
    ///
    /// ```
    /// use mmsg::{Offload, offload::GsoStatus};
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// assert!(!socket.set_gso(false) && !socket.gso());
    /// assert_eq!((socket.gso_status(), socket.max_segments()), (GsoStatus::OffByChoice, 1));
    /// if socket.set_gso(true) {
    ///     println!("up to {} datagrams in a GSO batch", socket.max_segments());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_gso(&self, on: bool) -> bool {
        self.lend().set_gso(on)
    }

    /// Turns GRO on or off, at any time, and returns whether it is on. GRO stays off if the environment
    /// variable `MMSG_GRO` is 0. The kernel does not coalesce datagrams that are queued already.
    ///
    /// GRO stays on, and the result is `Ok(true)`, while the socket holds anything: without GRO the kernel
    /// no longer reports where the datagrams of a queued coalesced message end. Receive until nothing is
    /// left, reports in the error queue included, and call `set_gro(false)` again.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, RecvBatch};
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// # client.send_to(b"hello", socket.get_ref().local_addr()?)?;
    /// let slot_len = if socket.set_gro(false)? { 65_535 } else { 1500 };
    /// socket.recv_into(&mut RecvBatch::new(64, slot_len))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_gro(&self, on: bool) -> io::Result<bool> {
        self.lend().set_gro(on)
    }

    /// The socket and its state, borrowed: a [`BatchSocket`] for any `S`.
    ///
    /// For a call that does not wait, on an `Offload` of tokio's sockets, within their `try_io`.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, SendMsg};
    /// /// Does not wait, if the socket is non-blocking.
    /// fn try_send(socket: &Offload<impl mmsg::AsSocket>, msg: SendMsg<'_>) -> std::io::Result<usize> {
    ///     socket.lend().send_batch(&[msg])
    /// }
    /// # let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// # assert_eq!(try_send(&socket, SendMsg::to(socket.get_ref().local_addr()?, b"hello"))?, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn lend(&self) -> OffloadRef<'_> {
        self.state.on_own(sys::borrow(&self.socket))
    }
}

impl<S> Offload<S> {
    /// Whether sends are segmented by the kernel: [`gso_status`](Self::gso_status) says why not.
    ///
    /// ```
    /// let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// println!("GSO {}, GRO {}", socket.gso(), socket.gro());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gso(&self) -> bool {
        self.state.gso()
    }

    /// Whether sends are segmented by the kernel, or why not.
    ///
    /// ```
    /// use mmsg::{Offload, offload::GsoStatus};
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// if socket.gso_status() != GsoStatus::On {
    ///     eprintln!("slower than it could be: {:?}", socket.gso_status());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gso_status(&self) -> GsoStatus {
        self.state.gso_status()
    }

    /// Whether coalesced messages may be received.
    ///
    /// ```
    /// use mmsg::{Offload, RecvBatch};
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let batch = if socket.gro() { RecvBatch::for_gro(64) } else { RecvBatch::new(64, 1500) };
    /// # let _ = batch;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gro(&self) -> bool {
        self.state.gro()
    }

    /// The most datagrams that a GSO batch can have now: 64 (Windows: 512) or what
    /// [`OffloadBuilder::max_segments`] says, and 1 while GSO is off.
    ///
    /// QUIC stacks ask for this number (`max_transmit_segments` in quinn).
    ///
    /// ```
    /// let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let bytes = socket.max_segments() * 1200; // as much as is worth having ready
    /// # assert!(bytes >= 1200);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn max_segments(&self) -> usize {
        self.state.max_segments()
    }

    /// What has been sent and received so far.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let socket = Offload::new(socket)?;
    /// socket.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
    /// assert_eq!(socket.counters().sent, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.state.counters()
    }

    /// The socket, for its options or to wait for readiness. It cannot be replaced by another socket, which the
    /// state would not fit:
    ///
    /// ```compile_fail,E0594
    /// use std::net::UdpSocket;
    /// let offload = mmsg::Offload::new(UdpSocket::bind("127.0.0.1:0")?)?;
    /// *offload.get_ref() = UdpSocket::bind("127.0.0.1:0")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.socket
    }

    /// Returns the socket. GRO stays as it is: call `set_gro(false)` first if its receives are to use
    /// short buffers.
    ///
    /// ```
    /// let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let _is_on = socket.set_gro(false)?;
    /// let plain: std::net::UdpSocket = socket.into_inner();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_inner(self) -> S {
        self.socket
    }
}

impl OffloadState {
    /// Turns on GSO and GRO, as far as the kernel has them for this socket. [`Offload::builder`] and
    /// [`build_state`](OffloadBuilder::build_state) choose among them.
    ///
    /// # Errors
    ///
    /// Those of [`Offload::new`].
    pub fn new(socket: &(impl AsSocket + ?Sized)) -> io::Result<Self> {
        Offload::<()>::builder().build_state(socket)
    }
}

impl Offload<()> {
    /// Chooses what to turn on.
    ///
    /// ```
    /// use mmsg::Offload;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::builder().gro(false).build(socket)?;
    /// assert!(!socket.gro());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub const fn builder() -> OffloadBuilder {
        OffloadBuilder::new()
    }
}

sys::lend_socket!([S: AsSocket] Offload<S>, |offload| sys::borrow(&offload.socket));
forward!([S: AsSocket + BatchSocket] Offload<S>, |offload| offload.lend());

//! Segmentation offload: many datagrams in one pass through the kernel's network stack.

mod builder;
mod counters;
mod gso;
mod state;
mod status;

use std::io;

#[cfg(feature = "mio")]
use mio::{Interest, Registry, Token, event::Source};

pub use builder::OffloadBuilder;
pub use counters::Counters;
pub use state::OffloadState;
pub use status::GsoStatus;

use crate::socket::{BatchSocket, forward};
use crate::sys::{self, AsSocket};

/// A socket that sends with GSO and receives with GRO.
///
/// Sends: consecutive messages with one destination, the same settings and one length form a GSO batch
/// (the last one may be shorter), which the kernel or the network device segments (`UDP_SEGMENT`,
/// Linux 4.18). Messages may have one buffer or several, anywhere in memory. One call may mix
/// destinations and single datagrams.
///
/// Receives: the kernel may coalesce datagrams of one source into one message (GRO, `UDP_GRO`, Linux 5.0).
/// [`RecvBatch::iter`](crate::RecvBatch::iter) and [`Message::datagrams`](crate::Message::datagrams) yield its
/// segments; a `RecvMsg` has them as `msg.message().datagrams()`.
///
/// Counts are in messages; order is preserved. If the kernel rejects a GSO batch, the call sends its datagrams one by
/// one, each with its own result, and goes on with GSO batches. Without offload an `Offload` works like the plain socket.
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
/// # What it changes
///
/// - The network stack treats a GSO batch as one packet: a full queue drops all of it, and one ICMP error stands for all of
///   it.
/// - `send_batch` may make more system calls: two for each rejected GSO batch, to learn the error and to go on. After a
///   rejection, longer segments to the same destination go singly for the rest of the call. After eight destinations with
///   rejections, segments of the smallest rejected size or longer go singly to all others, and after 16 rejections
///   everything.
/// - `send_batch` ends with a count after 65 to 128 KiB of payload that it had to copy to form GSO batches. Payloads that
///   follow each other in memory are not copied.
/// - With GRO on, receives need buffers for coalesced messages ([below](#memory)).
///
/// # Messages with a segment size
///
/// A message with its own [segment size](crate::SendMsg::with_segment_size) goes to the kernel as it is. If the kernel
/// rejects it, or while GSO is off, it is segmented in user space, unless no kernel would carry it: over 65,507 bytes (IPv6:
/// 65,527) the error is `EMSGSIZE`, over 128 segments (Windows: 512) `EINVAL`. It counts as sent once the kernel has taken one of its
/// datagrams. If the kernel then stops (a full socket, a timeout, an error), the rest is dropped, as in a device's queue,
/// and counted ([`Counters::unsent`]). An error means that the kernel took none. With a write timeout, each system call for
/// its datagrams waits that long at most, so the message may wait more than once.
///
/// # The don't-fragment bit
///
/// By Linux's default (`IP_MTU_DISCOVER` is `IP_PMTUDISC_WANT`), a single IPv4 datagram leaves with the bit set. The
/// datagrams of a GSO batch longer than the route's MTU leave without it: routers fragment them, and no path MTU is
/// learned. With [`Fragmentation::Probe`](crate::options::Fragmentation::Probe) or
/// [`Never`](crate::options::Fragmentation::Never) all leave with the bit, with
/// [`Allow`](crate::options::Fragmentation::Allow) none do. QUIC sets `Probe`. IPv6 has no such bit.
///
/// # When GSO is off
///
/// [`gso_status`](OffloadState::gso_status) of [`state`](Self::state) gives the reason,
/// [`counters`](OffloadState::counters) how often.
///
/// - The program turns GSO off and on with [`OffloadBuilder::gso`] and [`set_gso`](OffloadState::set_gso).
/// - The environment variable `MMSG_OFFLOAD=0` turns GSO and GRO off for the whole process, whatever the program says.
///   `MMSG_OFFLOAD=1` ignores the kernel's release. Other values have no effect. The variable is read once, when the
///   first socket is wrapped.
/// - GSO is off on Linux 7.0.0 to 7.1.4, which damage GSO batches on many devices. Distributions add the fix to older
///   releases: `MMSG_OFFLOAD=1` turns GSO on there. A virtual machine does not see which kernel its host runs: if
///   throughput collapses there, try `MMSG_OFFLOAD=0`.
/// - If a path rejects a GSO batch (`EIO`, `EOPNOTSUPP`) but takes its datagrams, GSO is off for the socket for a
///   minute.
/// - GSO is off if [`SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on, since the kernel reports one time and
///   one number for a whole GSO batch. Turn it on before the socket is wrapped, or turn GSO off yourself.
///
/// A socket with `UDP_SEGMENT` or `UDP_CORK` set cannot be wrapped. Do not set them later either: the kernel would
/// split or join datagrams in other places than with the plain socket.
///
/// # Memory
///
/// With GRO on, every message offered to a receive needs a buffer of 65,527 bytes, the longest UDP payload, as
/// [`RecvBatch::for_gro`](crate::RecvBatch::for_gro) has. With a smaller buffer the receive fails with `InvalidInput`
/// before anything is received; one of tokio's futures waits for a datagram first, and then fails. The buffers reserve
/// address space; pages that no datagram has reached use no memory. To save address space, use fewer slots (a coalesced
/// message fills only one) or [turn GRO off](OffloadBuilder::gro).
///
/// A socket filter (`SO_ATTACH_FILTER`, `SO_ATTACH_BPF`) would see coalesced messages in place of datagrams, so GRO stays off
/// on a socket that has one. Attach it before the socket is wrapped, or turn GRO off.
///
/// # Platforms
///
/// Linux and Android; GSO also on Windows 10 2004 and later, with up to 512 segments a batch (`UDP_SEND_MSG_SIZE`).
/// Elsewhere an `Offload` works like the plain socket, with counters.
#[doc(alias("GSO", "GRO", "UDP_SEGMENT", "UDP_GRO", "USO", "UDP_SEND_MSG_SIZE"))]
#[derive(Debug)]
pub struct Offload<S> {
    socket: S,
    state: OffloadState,
}

impl<S: AsSocket> Offload<S> {
    /// Turns on GSO and GRO where the kernel supports them for this socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else the system's error. A stream compiles,
    /// and no error says so, but what it sends may be torn: see [`BatchSocket`]. A
    /// missing offload is no error: see [`gso`](OffloadState::gso) and [`gro`](OffloadState::gro).
    pub fn new(socket: S) -> io::Result<Self> {
        Offload::<()>::builder().build(socket)
    }
}

impl<S> Offload<S> {
    /// The offloads' state: what is on, what was counted, and the calls that turn GSO and GRO off.
    ///
    /// It works [`on`](OffloadState::on) every descriptor of this socket.
    ///
    /// ```
    /// let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let state = socket.state();
    /// println!("GSO: {} ({}), GRO: {}", state.gso(), state.gso_status(), state.gro());
    /// println!("{} segments per batch, {} datagrams sent", state.max_segments(), state.counters().sent);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn state(&self) -> &OffloadState {
        &self.state
    }

    /// The socket, for its options or to wait for readiness. It cannot be replaced by another socket, since the state
    /// belongs to this one:
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

    /// Returns the socket. GRO stays as it is: to receive into short buffers, call
    /// [`disable_gro`](OffloadState::disable_gro) first.
    ///
    /// ```
    /// let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// socket.state().disable_gro(socket.get_ref())?;
    /// let plain: std::net::UdpSocket = socket.into_inner();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_inner(self) -> S {
        self.socket
    }
}

impl OffloadBuilder {
    /// Wraps the socket and turns the offloads on where the kernel supports them. `UDP_SEGMENT` is never
    /// set on the socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else the system's error.
    pub fn build<S: AsSocket>(self, socket: S) -> io::Result<Offload<S>> {
        let state = self.build_state(&socket)?;
        Ok(Offload { socket, state })
    }
}

impl Offload<()> {
    /// Chooses which offloads to turn on.
    ///
    /// ```
    /// use mmsg::Offload;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::builder().gro(false).build(socket)?;
    /// assert!(!socket.state().gro());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub const fn builder() -> OffloadBuilder {
        OffloadBuilder::new()
    }
}

sys::impl_as_socket!([S: AsSocket] Offload<S>, |offload| sys::borrow(&offload.socket));
forward!([S: AsSocket + BatchSocket] Offload<S>, |offload| offload.state.on(&offload.socket));

/// mio watches the socket inside. Needs the feature `mio`.
///
/// ```
/// use mio::{Interest, Poll, Token, net::UdpSocket};
/// use mmsg::Offload;
///
/// let poll = Poll::new()?;
/// let mut socket = Offload::new(UdpSocket::bind("127.0.0.1:0".parse().unwrap())?)?;
/// poll.registry().register(&mut socket, Token(0), Interest::READABLE)?;
/// // While a `SendQueue` holds datagrams that the socket did not accept:
/// poll.registry().reregister(&mut socket, Token(0), Interest::READABLE | Interest::WRITABLE)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(feature = "mio")]
impl<S: Source> Source for Offload<S> {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        self.socket.register(registry, token, interests)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        self.socket.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }
}

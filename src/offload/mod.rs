//! Segmentation offload: many datagrams in one pass through the kernel's network stack.

pub(crate) mod coalesce;
mod counters;
mod gso;
mod partial;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub use counters::Counters;

use crate::ancillary::{self, Ancillary};
use crate::engine::pool;
use crate::events;
use crate::recv::batch::RecvBatch;
use crate::recv::datagram::Received;
use crate::recv::flags::RecvFlags;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::socket::BatchSocket;
use crate::sys::{self, AsSocket, numbers};
use counters::{ReceivedTotals, Running};
use partial::PartialSends;

/// The longest UDP payload (RFC 768), and so the longest coalesced message.
const MAX_PAYLOAD: usize = 65_535 - 8;

/// A socket that sends with GSO and receives with GRO.
///
/// Sends: consecutive messages with one destination, the same options and one length form a GSO batch
/// (the last one may be shorter), which the kernel or the network device segments (`UDP_SEGMENT`,
/// Linux 4.18). Messages may have one buffer or several, anywhere in memory. One call may mix
/// destinations and single datagrams.
///
/// Receives: the kernel may coalesce datagrams of one source into one message (GRO, `UDP_GRO`,
/// Linux 5.0). [`RecvBatch`]'s iterator and [`RecvMsg::datagrams`](crate::RecvMsg::datagrams) yield
/// its segments.
///
/// The outcome equals that of sending each message by itself: counts are of messages, the order stays,
/// and if the kernel rejects a GSO batch, its datagrams are sent one by one within the call, each with
/// its own result. Without offload it works like the plain socket.
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
/// them and no path MTU is learned. Set the socket option `IP_MTU_DISCOVER` to `IP_PMTUDISC_PROBE` or
/// `IP_PMTUDISC_DO`, and all leave with the bit; to `IP_PMTUDISC_DONT`, and none does. QUIC sets
/// `IP_PMTUDISC_PROBE`. IPv6 has no such bit.
///
/// # Options that change what GSO sends
///
/// - While [`SEND_TIMESTAMP`](Ancillary::SEND_TIMESTAMP) is on, each datagram is sent by itself, since
///   the kernel reports one time and one number for a whole GSO batch. If the option was set by other
///   means than this crate, call [`set_gso`](Self::set_gso) afterwards, which checks again.
/// - A socket with `UDP_SEGMENT` or `UDP_CORK` set cannot be wrapped, and neither may be set later:
///   datagrams would be split or joined otherwise than by the plain socket.
///
/// # Memory
///
/// With GRO on, every message offered to a receive needs a buffer of 65,527 bytes, the longest UDP
/// payload, as [`RecvBatch::for_gro`] has. With a smaller buffer the receive fails with `InvalidInput`
/// before anything is received, unless it is a [`PEEK`](RecvFlags::PEEK). The buffers are address
/// space; pages that no datagram has reached take no memory. To save address space, use fewer slots (a
/// coalesced message fills only one) or turn GRO off.
///
/// # Platforms
///
/// Linux and Android. Elsewhere it works like the plain socket, and counts.
#[derive(Debug)]
pub struct Offload<S> {
    socket: S,
    gso: AtomicBool,
    gro: AtomicBool,
    counters: Running,
    partial: PartialSends,
}

impl<S: AsSocket> Offload<S> {
    /// Turns on GSO and GRO, as far as the kernel has them for this socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else the system's error. A
    /// missing offload is no error: see [`gso`](Self::gso) and [`gro`](Self::gro).
    pub fn new(socket: S) -> io::Result<Self> {
        Offload::<()>::builder().build(socket)
    }

    /// Whether sends are segmented by the kernel.
    #[must_use]
    pub fn gso(&self) -> bool {
        self.gso.load(Ordering::Relaxed)
    }

    /// Whether coalesced messages may be received.
    #[must_use]
    pub fn gro(&self) -> bool {
        self.gro.load(Ordering::Relaxed)
    }

    /// Turns GSO on or off, at any time, and returns whether it is on. It turns on only if the kernel
    /// has it and neither `UDP_SEGMENT` nor `UDP_CORK` is set on the socket.
    ///
    /// GSO turns itself off when the kernel reports that the route to a destination cannot do it,
    /// because the device has no checksum offload, for example.
    pub fn set_gso(&self, on: bool) -> bool {
        let socket = sys::borrow(&self.socket);
        ancillary::look_for_send_times(socket);
        let asked = on;
        let on = asked && sys::has_segmentation(socket);
        if asked && !on {
            events::gso_unavailable();
        }
        self.gso.store(on, Ordering::Relaxed);
        on
    }

    /// Turns GRO on or off, at any time, and returns whether it is on. Datagrams that were queued before
    /// it was turned on stay as they are.
    ///
    /// It stays on, and the result is `Ok(true)`, while the socket holds anything: without it the kernel
    /// no longer reports where the datagrams of a queued coalesced message end. Receive until nothing is
    /// left, reports in the error queue included, and call it again.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_gro(&self, on: bool) -> io::Result<bool> {
        let on = if on { self.enable_gro()? } else { self.disable_gro()? };
        self.gro.store(on, Ordering::Relaxed);
        Ok(on)
    }

    fn enable_gro(&self) -> io::Result<bool> {
        Ok(Ancillary::GRO.enable(&self.socket)?.contains(Ancillary::GRO))
    }

    /// Turns GRO off, if that joins nothing. Gives whether it is on.
    fn disable_gro(&self) -> io::Result<bool> {
        let socket = sys::borrow(&self.socket);
        let was_on = self.socket_has_gro();
        if was_on && sys::has_arrivals(socket) {
            return Ok(true);
        }
        Ancillary::GRO.disable(&self.socket)?;
        // A coalesced message may have come in between.
        if was_on && sys::has_arrivals(socket) { self.enable_gro() } else { Ok(false) }
    }

    /// Whether GRO is on, whoever turned it on. Before Linux 5.12 the socket does not say.
    fn socket_has_gro(&self) -> bool {
        match sys::option(sys::borrow(&self.socket), numbers::RECV_GRO) {
            Ok(value) => value != 0,
            Err(_) => self.gro(),
        }
    }
}

impl<S> Offload<S> {
    /// What has been sent and received so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.snapshot()
    }

    /// The socket, for its options or to wait for readiness. It cannot be exchanged for another one,
    /// which would not fit what is known of this one:
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
    #[must_use]
    pub fn into_inner(self) -> S {
        self.socket
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
        OffloadBuilder { gso: true, gro: true }
    }
}

/// What an [`Offload`] turns on: GSO and GRO by default.
#[derive(Clone, Copy, Debug)]
#[must_use = "`build` makes an Offload of a socket"]
pub struct OffloadBuilder {
    gso: bool,
    gro: bool,
}

impl OffloadBuilder {
    /// Sets whether the kernel segments sends.
    pub const fn gso(mut self, on: bool) -> Self {
        self.gso = on;
        self
    }

    /// Sets whether the kernel coalesces received datagrams. A socket that has GRO on and holds anything
    /// keeps it: see [`set_gro`](Offload::set_gro).
    pub const fn gro(mut self, on: bool) -> Self {
        self.gro = on;
        self
    }

    /// Wraps the socket and turns the offloads on, as far as the kernel has them. `UDP_SEGMENT` is never
    /// set on the socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else the system's error.
    pub fn build<S: AsSocket>(self, socket: S) -> io::Result<Offload<S>> {
        if let Some(option) = sys::conflicting_option(sys::borrow(&socket)) {
            let message = format!("{option} is set on the socket, which Offload cannot respect");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let offload = Offload {
            socket,
            gso: AtomicBool::new(false),
            gro: AtomicBool::new(false),
            counters: Running::default(),
            partial: PartialSends::default(),
        };
        offload.set_gso(self.gso);
        offload.set_gro(self.gro)?;
        Ok(offload)
    }
}

impl<S: AsSocket> BatchSocket for Offload<S> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        self.recv_batch_with(msgs, RecvFlags::NONE)
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        pool::with(|arena| self.send_slice(arena, msgs))
    }

    fn recv_batch_with(&self, msgs: &mut [RecvMsg<'_>], flags: RecvFlags) -> io::Result<usize> {
        self.check_capacity(flags, || msgs.iter().map(RecvMsg::capacity).min())?;
        let socket = sys::borrow(&self.socket);
        let (result, calls) = pool::with(|arena| {
            let result = arena.recv_on(socket, msgs, flags);
            (result, arena.calls())
        });
        let count = result.as_ref().map_or(0, |count| *count);
        let received = msgs[..count].iter().map(|msg| (msg.received(), msg.len()));
        self.count_received(flags, received, calls);
        result
    }

    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.recv_into_with(batch, RecvFlags::NONE)
    }

    fn recv_into_with(&self, batch: &mut RecvBatch, flags: RecvFlags) -> io::Result<usize> {
        batch.clear();
        self.check_capacity(flags, || Some(batch.slot_len()))?;
        let result = batch.recv_on(sys::borrow(&self.socket), flags);
        self.count_received(flags, batch.received(), batch.calls());
        result
    }

    fn send_iter_dyn<'m>(&self, msgs: &mut dyn Iterator<Item = SendMsg<'m>>) -> io::Result<usize> {
        pool::with(|arena| self.send_from(arena, msgs))
    }

    fn flush(&self, queue: &mut SendQueue) -> io::Result<usize> {
        pool::with(|arena| self.send_queue(arena, queue))
    }
}

impl<S: AsSocket> Offload<S> {
    /// Rejects a receive whose smallest buffer could truncate a coalesced message. A peek loses nothing
    /// and is allowed.
    fn check_capacity(
        &self,
        flags: RecvFlags,
        smallest: impl FnOnce() -> Option<usize>,
    ) -> io::Result<()> {
        if flags.contains(RecvFlags::PEEK) {
            return Ok(());
        }
        match smallest() {
            // Another descriptor of the socket may have turned it on: only the socket knows.
            Some(capacity) if capacity < MAX_PAYLOAD && self.socket_has_gro() => {
                let reason = format!(
                    "GRO is on: every message needs a buffer of {MAX_PAYLOAD} bytes, this one has {capacity}"
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
            }
            _ => Ok(()),
        }
    }
}

impl<S> Offload<S> {
    fn count_received(
        &self,
        flags: RecvFlags,
        received: impl Iterator<Item = (Received, usize)>,
        calls: usize,
    ) {
        let mut totals = ReceivedTotals::default();
        // A later receive counts what a peek shows.
        let most = if flags.contains(RecvFlags::PEEK) { 0 } else { usize::MAX };
        for (received, len) in received.take(most) {
            totals.moved.bytes += len;
            totals.truncated += usize::from(received.truncated());
            totals.moved.datagrams += match received.segment_size {
                None => 1,
                Some(size) => {
                    let segments = len.div_ceil(size.into()).max(1);
                    totals.moved.batches += 1;
                    totals.moved.segments += segments;
                    segments
                }
            };
        }
        self.counters.received(totals, calls);
    }
}

//! Segmentation offload found by itself: many datagrams in one pass through the network stack.

mod counters;
mod gso;
mod partial;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub use counters::Counters;

use crate::message::Received;
use crate::sys::{self, AsSocket, numbers};
use crate::{
    Ancillary, BatchSocket, RecvBatch, RecvFlags, RecvMsg, SendMsg, SendQueue, ancillary, pool,
};
use counters::{ReceivedTotals, Running};
use partial::PartialSends;

/// The longest UDP payload: what the length field of UDP leaves (RFC 768). GRO makes no longer messages.
const MAX_PAYLOAD: usize = 65_535 - 8;

/// A socket that sends with GSO and receives with GRO.
///
/// Sends: consecutive messages to one destination with the same options, each as long as the
/// first but the last, which may be shorter, go to the kernel as one GSO batch, and it (or the
/// network device) segments it: generic segmentation offload (`UDP_SEGMENT`, Linux 4.18). The
/// buffers are the caller's own, one or several for each message, side by side in memory or not.
/// Different destinations and single datagrams mix in one call.
///
/// Receives: the kernel may coalesce what came from one source into one message (GRO, `UDP_GRO`,
/// Linux 5.0). [`RecvBatch`]'s iterator and [`RecvMsg::datagrams`](crate::RecvMsg::datagrams) give
/// its datagrams one by one.
///
/// The outcome is that of sending one by one. Counts are of the messages that were handed over,
/// order is kept, and if the kernel rejects a GSO batch, whatever the reason, its datagrams go one by
/// one within the call, each with its own result. Where there is no offload it is a socket as any
/// other.
///
/// ```
/// use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg};
/// # let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = receiver.local_addr()?;
/// let sender = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
/// let receiver = Offload::new(receiver)?;
///
/// let sent = sender.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
/// let mut batch = RecvBatch::for_trains(16);
/// receiver.recv_into(&mut batch)?;
/// let datagrams: Vec<_> = batch.iter().map(|d| d.data()).collect();
/// assert_eq!((sent, &datagrams[..]), (2, &[&b"one"[..], b"two"][..]));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Messages with a segment size
///
/// A message with a [segment size](crate::SendMeta::segment_size) of its own passes through. It is
/// segmented in user space if the kernel rejects it or GSO is off, and stays one message: it has been
/// sent when its last datagram has. If one of its datagrams fails, the message has failed with that
/// error, though the datagrams before it have left; offered again, it is sent from its beginning. If the
/// socket takes no more for now (`WouldBlock`, a blocking socket's write timeout included), or the call
/// ends with a count, the message is still to be sent: offer it again, and it goes on from where it was,
/// by another call, thread or future, until 4,096 more messages have been left half-sent. It is found by
/// what it says and where it goes, the connected peer included: an equal message sent in its place
/// completes it. Each of its datagrams may wait as long as a blocking socket's write timeout allows.
/// Nothing blocks that would not without this. Messages that are segmented in user space take 96 KiB for
/// each `Offload`, allocated with the first; without that memory nothing of it leaves (`OutOfMemory`).
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
/// - While [`SEND_TIMESTAMP`](Ancillary::SEND_TIMESTAMP) is on, each message goes by itself, since the
///   kernel gives one time and one number to a whole GSO batch; so do the datagrams of one with a segment
///   size. If the option was set past this crate, call [`set_gso`](Self::set_gso) afterwards, which
///   looks again.
/// - A socket with `UDP_SEGMENT` or `UDP_CORK` set cannot be wrapped, as what it sends depends on how
///   it is handed over. Neither may be set later: datagrams would be split or joined otherwise than
///   by the plain socket.
///
/// # Memory
///
/// With GRO on, every message that is offered to a receive needs room for 65,527 bytes, the longest
/// UDP payload: [`RecvBatch::for_trains`] has it. With less the receive fails with `InvalidInput` before
/// anything is received, unless it is a [`PEEK`](RecvFlags::PEEK). That is address space; pages that no
/// datagram reached take no memory. To have less, use fewer slots (a coalesced message fills only one),
/// or turn GRO off.
///
/// # Platforms
///
/// Linux and Android. Elsewhere it sends and receives as the socket does, and counts.
#[derive(Debug)]
pub struct Offload<S> {
    socket: S,
    gso: AtomicBool,
    gro: AtomicBool,
    counters: Running,
    partial: PartialSends,
}

impl<S: AsSocket> Offload<S> {
    /// Turns on what the kernel has for this socket, both ways.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else what the system says of
    /// it. That it has no offload is no error: [`gso`](Self::gso) and [`gro`](Self::gro) tell.
    pub fn new(socket: S) -> io::Result<Self> {
        Offload::<()>::builder().build(socket)
    }

    /// Whether sends are segmented by the kernel.
    #[must_use]
    pub fn gso(&self) -> bool {
        self.gso.load(Ordering::Relaxed)
    }

    /// Whether trains may be received.
    #[must_use]
    pub fn gro(&self) -> bool {
        self.gro.load(Ordering::Relaxed)
    }

    /// Turns segmentation of sends on or off, at any time, and returns whether it is on: it goes
    /// on only if the kernel has it, and neither `UDP_SEGMENT` nor `UDP_CORK` is set on the socket.
    ///
    /// It turns itself off when the kernel says that the way to a destination cannot do it: the
    /// device has no checksum offload, for one.
    pub fn set_gso(&self, on: bool) -> bool {
        let socket = sys::borrow(&self.socket);
        ancillary::look_for_send_times(socket);
        let on = on && sys::has_segmentation(socket);
        self.gso.store(on, Ordering::Relaxed);
        on
    }

    /// Turns GRO on or off, at any time, and returns whether it is on. Datagrams that were queued before
    /// it was turned on come as they are.
    ///
    /// It stays on, and the result is `Ok(true)`, while the socket holds anything: without it the kernel
    /// no longer says where the datagrams of a queued coalesced message end. Receive until nothing is
    /// left, reports in the error queue included, and call it again.
    ///
    /// # Errors
    ///
    /// What the system says of the socket.
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
    /// What has been moved so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.snapshot()
    }

    /// The socket itself: for its options, or to wait until it is ready.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.socket
    }

    /// Gives the socket back. GRO stays as it is on it.
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

/// What an [`Offload`] is to turn on; both ways unless told otherwise.
#[derive(Clone, Copy, Debug)]
#[must_use = "`build` makes an Offload of a socket"]
pub struct OffloadBuilder {
    gso: bool,
    gro: bool,
}

impl OffloadBuilder {
    /// Whether sends are to be segmented by the kernel.
    pub const fn gso(mut self, on: bool) -> Self {
        self.gso = on;
        self
    }

    /// Whether coalesced messages are to be received. A socket with GRO on that holds anything keeps it:
    /// see [`set_gro`](Offload::set_gro).
    pub const fn gro(mut self, on: bool) -> Self {
        self.gro = on;
        self
    }

    /// Turns them on, as far as the kernel has them for this socket. The socket is left as it is
    /// in all else; `UDP_SEGMENT` is never set on it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else what the system says of
    /// it.
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
        self.check_room(flags, || msgs.iter().map(RecvMsg::capacity).min())?;
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
        self.check_room(flags, || Some(batch.slot_len()))?;
        let result = batch.recv_on(sys::borrow(&self.socket), flags);
        self.count_received(flags, batch.arrived(), batch.calls());
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
    /// Rejects a receive whose smallest room is too little for what the kernel may coalesce. A peek
    /// takes nothing, so that nothing can be lost by it.
    fn check_room(
        &self,
        flags: RecvFlags,
        smallest: impl FnOnce() -> Option<usize>,
    ) -> io::Result<()> {
        if flags.contains(RecvFlags::PEEK) {
            return Ok(());
        }
        match smallest() {
            // Another descriptor of the socket may have turned it on: only the socket knows.
            Some(room) if room < MAX_PAYLOAD && self.socket_has_gro() => {
                let reason = format!(
                    "GRO is on: every message needs a buffer of {MAX_PAYLOAD} bytes, this one has {room}"
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
        // What a peek shows is still to be received.
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

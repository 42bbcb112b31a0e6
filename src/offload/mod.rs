//! Segmentation offload: many datagrams in one pass through the kernel's network stack.

mod counters;
mod environment;
mod gso;
mod health;
mod partial;
mod release;
mod routes;

use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};

pub use counters::Counters;
pub use health::GsoStatus;

use crate::ancillary::{self, Ancillary};
use crate::engine::pool;
use crate::recv::batch::RecvBatch;
use crate::recv::datagram::{Message, Received};
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::socket::BatchSocket;
use crate::sys::{self, AsSocket, MAX_SEGMENTS, RecvFlags, SendFlags, numbers};
use counters::{ReceivedTotals, Running};
use environment::Switch;
use health::Health;
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
/// them and no path MTU is learned. With [`Fragmentation::Probe`](crate::Fragmentation::Probe) or
/// [`Never`](crate::Fragmentation::Never) all leave with the bit, with
/// [`Allow`](crate::Fragmentation::Allow) none does. QUIC sets `Probe`. IPv6 has no such bit.
///
/// # When GSO is off
///
/// [`gso_status`](Self::gso_status) gives the reason, [`counters`](Self::counters) how often.
///
/// - The program turns it off and on with [`OffloadBuilder::gso`] and [`set_gso`](Self::set_gso).
/// - The environment variable `MMSG_GSO` turns it off for the whole process if it is 0, whatever the
///   program says. If it is 1, the release of the kernel does not matter. `MMSG_GRO` turns GRO off if it
///   is 0. Any other value means nothing. Both are read once, when the first socket is wrapped.
/// - It is off on Linux 7.0.0 to 7.1.4, which damage GSO batches on many devices:
///   [`OffloadBuilder::force_gso`] turns it on there. A virtual machine does not see which kernel its
///   host runs: if throughput collapses there, try `MMSG_GSO=0`.
/// - A destination whose path rejects a GSO batch (`EIO`, `EOPNOTSUPP`) gets single datagrams for a minute;
///   other destinations stay as they are. The last 32 such addresses are remembered, in memory that is
///   allocated with the first. If four destinations reject, and no batch was accepted in between, or
///   if the socket is connected, it is off for the whole socket for a minute.
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
/// Linux and Android. Windows 10 2004 and later, with up to 512 segments a batch (`UDP_SEND_MSG_SIZE`), and with GRO
/// (`UDP_RECV_MAX_COALESCED_SIZE`) only if it is [asked for](OffloadBuilder::gro). Elsewhere it works like the plain
/// socket, and counts.
#[derive(Debug)]
pub struct Offload<S> {
    socket: S,
    health: Health,
    max_segments: usize,
    gro: AtomicBool,
    longest_datagram: usize,
    counters: Running,
    partial: PartialSends,
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

    /// Whether sends are segmented by the kernel: [`gso_status`](Self::gso_status) says why not.
    #[must_use]
    pub fn gso(&self) -> bool {
        self.gso_status() == GsoStatus::On
    }

    /// Whether sends are segmented by the kernel, or why not.
    #[must_use]
    pub fn gso_status(&self) -> GsoStatus {
        self.health.status()
    }

    /// Whether coalesced messages may be received.
    #[must_use]
    pub fn gro(&self) -> bool {
        self.gro.load(Ordering::Relaxed)
    }

    /// Turns GSO on or off, at any time, and returns whether it is on: [`gso_status`](Self::gso_status)
    /// says why not. Forgets which destinations rejected GSO batches.
    pub fn set_gso(&self, on: bool) -> bool {
        let socket = sys::borrow(&self.socket);
        ancillary::look_for_send_times(socket);
        self.health.set(on, || sys::has_segmentation(socket)) == GsoStatus::On
    }

    /// Turns GRO on or off, at any time, and returns whether it is on. It does not turn on if the
    /// environment variable `MMSG_GRO` is 0. Datagrams that were queued before it was turned on stay as
    /// they are.
    ///
    /// It stays on, and the result is `Ok(true)`, while the socket holds anything: without it the kernel
    /// no longer reports where the datagrams of a queued coalesced message end. Receive until nothing is
    /// left, reports in the error queue included, and call it again.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_gro(&self, on: bool) -> io::Result<bool> {
        let on = on && Switch::gro() != Switch::Off;
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
        let _ = Ancillary::GRO.disable(&self.socket)?;
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
        OffloadBuilder {
            gso: true,
            force_gso: false,
            max_segments: MAX_SEGMENTS,
            gro: numbers::GRO_BY_DEFAULT,
            longest_datagram: MAX_PAYLOAD,
        }
    }
}

/// What an [`Offload`] turns on: by default GSO, and GRO except on Windows.
#[derive(Clone, Copy, Debug)]
#[must_use = "`build` makes an Offload of a socket"]
pub struct OffloadBuilder {
    gso: bool,
    force_gso: bool,
    max_segments: usize,
    gro: bool,
    longest_datagram: usize,
}

impl OffloadBuilder {
    /// Sets whether the kernel segments sends.
    pub const fn gso(mut self, on: bool) -> Self {
        self.gso = on;
        self
    }

    /// Sets whether to use GSO also on the kernel releases that damage GSO batches, Linux 7.0.0 to 7.1.4.
    /// For a kernel that is known to have the mending commits: distributions add them to older releases.
    ///
    /// ```
    /// use mmsg::{GsoStatus, Offload};
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::builder().force_gso(true).build(socket)?;
    /// assert_ne!(socket.gso_status(), GsoStatus::OffByKernelRelease);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub const fn force_gso(mut self, on: bool) -> Self {
        self.force_gso = on;
        self
    }

    /// Sets how many messages form a GSO batch at most, 1 to 64, which is the default.
    ///
    /// A batch leaves the host as one burst at the speed of its link. Networks with short queues, mobile ones
    /// for example, drop the end of a long burst: 10 datagrams (RFC 9002, section 7.7) are safe almost
    /// everywhere. A message with a [segment size](crate::SendMeta::segment_size) of its own goes as it is.
    ///
    /// ```
    /// use mmsg::Offload;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::builder().max_segments(10).build(socket)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub const fn max_segments(mut self, most: usize) -> Self {
        self.max_segments = match most {
            0 => 1,
            1..=MAX_SEGMENTS => most,
            _ => MAX_SEGMENTS,
        };
        self
    }

    /// Sets whether the kernel coalesces received datagrams. A socket that has GRO on and holds anything
    /// keeps it: see [`set_gro`](Offload::set_gro).
    ///
    /// On Windows it is off by default, since some machines coalesce without saying where the datagrams end:
    /// set [`longest_datagram`](Self::longest_datagram), too.
    pub const fn gro(mut self, on: bool) -> Self {
        self.gro = on;
        self
    }

    /// Sets the length in bytes of the longest datagram that peers send (65,527 by default). If a longer one
    /// is received, the system has coalesced several without saying where they end, and GRO is turned off:
    /// [`gro`](Offload::gro) is false from then on. What was received until then stays joined, so a receiver must
    /// drop datagrams longer than this.
    ///
    /// ```
    /// use mmsg::Offload;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::builder().gro(true).longest_datagram(1500).build(socket)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub const fn longest_datagram(mut self, len: usize) -> Self {
        self.longest_datagram = len;
        self
    }

    /// Wraps the socket and turns the offloads on, as far as the kernel has them. `UDP_SEGMENT` is never
    /// set on the socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else the system's error.
    pub fn build<S: AsSocket>(self, socket: S) -> io::Result<Offload<S>> {
        if let Some((option, value)) = sys::conflicting_option(sys::borrow(&socket)) {
            let reason = format!("{option} is {value} on the socket: with Offload it must be 0");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let offload = Offload {
            socket,
            health: Health::new(self.force_gso),
            max_segments: self.max_segments,
            gro: AtomicBool::new(false),
            longest_datagram: self.longest_datagram,
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
        self.send_batch_with(msgs, SendFlags::NONE)
    }

    fn send_batch_with(&self, msgs: &[SendMsg<'_>], flags: SendFlags) -> io::Result<usize> {
        pool::with(|arena| self.send_slice(arena, msgs, flags))
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

    fn recv_slices_dyn(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        self.check_capacity(flags, || buffers.iter().map(|buffer| buffer.len()).min())?;
        let socket = sys::borrow(&self.socket);
        let mut totals = ReceivedTotals::default();
        let (result, calls) = pool::with(|arena| {
            let result = arena.recv_slices_on(socket, buffers, flags, &mut |i, message| {
                // A later receive counts what a peek shows.
                if !flags.contains(RecvFlags::PEEK) {
                    totals.add(message.received(), message.len());
                }
                each(i, message);
            });
            (result, arena.calls())
        });
        self.note_received(totals, calls);
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

impl<S: AsSocket> Offload<S> {
    fn count_received(
        &self,
        flags: RecvFlags,
        received: impl Iterator<Item = (Received, usize)>,
        calls: usize,
    ) {
        // A later receive counts what a peek shows.
        let most = if flags.contains(RecvFlags::PEEK) { 0 } else { usize::MAX };
        let mut totals = ReceivedTotals::default();
        received.take(most).for_each(|(received, len)| totals.add(received, len));
        self.note_received(totals, calls);
    }

    fn note_received(&self, totals: ReceivedTotals, calls: usize) {
        self.counters.received(totals, calls);
        if totals.longest > self.longest_datagram && self.gro() {
            self.distrust_gro();
        }
    }

    /// Turns GRO off, though messages that are queued lose their boundaries: they have none that are right.
    #[cold]
    fn distrust_gro(&self) {
        self.gro.store(false, Ordering::Relaxed);
        // Best effort: what fails here is left as it was.
        let _ = Ancillary::GRO.disable(&self.socket);
    }
}

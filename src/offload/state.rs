//! The state of an `Offload`'s socket, and the calls on a lent socket.

use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};

use super::counters::{Counters, Running};
use super::environment::Switch;
use super::health::{GsoStatus, Health};
use super::partial::PartialSends;
use crate::ancillary::{self, Ancillary};
use crate::engine::{self, pool};
use crate::recv::batch::RecvBatch;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::recv::received::ReceivedTotals;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::socket::BatchSocket;
use crate::sys::{self, AsSocket, BorrowedSocket, RawSocket, RecvFlags, SendFlags, numbers};

/// The longest UDP payload (RFC 768), and so the longest coalesced message.
pub(crate) const MAX_PAYLOAD: usize = 65_535 - 8;

/// The state of an [`Offload`](crate::Offload) without its socket, for programs that lend the socket for each call.
///
/// [`on`](Self::on) joins it with the socket. Threads may share a state.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch, SendMsg, offload::OffloadState};
/// # let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # receiver.set_read_timeout(Some(std::time::Duration::from_secs(60)))?;
/// # let to = receiver.local_addr()?;
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let state = OffloadState::new(&socket)?;
///
/// let sent = state.on(&socket).send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
/// assert_eq!((sent, state.counters().sent), (2, 2));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Another socket
///
/// A state is for the socket that it was made for, by any of its descriptors. On another socket the calls
/// work as on the plain socket: GSO is not used, since the state knows nothing of that socket. GRO is a
/// property of the socket, so the requirement on [buffers](crate::Offload#memory) is that of the socket at hand.
/// The counters are sums. After the first socket is closed, a new one with the same descriptor
/// number is taken for it: make a new state for a new socket. To distinguish them would take a system
/// call in each [`on`](Self::on), as long as sending half a datagram. With the old state, a new
/// socket still sends what it should: a GSO batch that its path rejects is sent as its datagrams.
#[derive(Debug)]
pub struct OffloadState {
    /// What the socket is known by: its number, which costs nothing to compare, and its cookie.
    number: RawSocket,
    cookie: Option<u64>,
    pub(super) health: Health,
    pub(super) max_segments: usize,
    gro: AtomicBool,
    longest_datagram: usize,
    pub(super) counters: Running,
    pub(super) partial: PartialSends,
}

impl OffloadState {
    /// Both offloads off.
    pub(super) fn off(
        socket: BorrowedSocket<'_>,
        force_gso: bool,
        max_segments: usize,
        longest_datagram: usize,
    ) -> Self {
        Self {
            number: sys::raw(socket),
            cookie: sys::socket_cookie(socket),
            health: Health::new(force_gso),
            max_segments,
            gro: AtomicBool::new(false),
            longest_datagram,
            counters: Running::default(),
            partial: PartialSends::default(),
        }
    }

    /// The socket with this state, for one call or several.
    #[must_use]
    pub fn on<'a>(&'a self, socket: &'a (impl AsSocket + ?Sized)) -> OffloadRef<'a> {
        let socket = sys::borrow(socket);
        let is_own = self.number == sys::raw(socket)
            || (self.cookie.is_some() && self.cookie == sys::socket_cookie(socket));
        OffloadRef { state: self, socket, is_own }
    }

    /// Like [`on`](Self::on), for the socket that the state was made for.
    #[inline]
    pub(super) fn on_own<'a>(&'a self, socket: BorrowedSocket<'a>) -> OffloadRef<'a> {
        OffloadRef { state: self, socket, is_own: true }
    }

    /// Whether sends are segmented by the kernel: [`gso_status`](Self::gso_status) says why not.
    ///
    /// ```
    /// use mmsg::offload::{GsoStatus, OffloadState};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = OffloadState::new(&socket)?;
    /// assert_eq!(state.gso(), state.gso_status() == GsoStatus::On);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gso(&self) -> bool {
        self.gso_status() == GsoStatus::On
    }

    /// Whether sends are segmented by the kernel, or why not.
    ///
    /// ```
    /// use mmsg::offload::{GsoStatus, OffloadState};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = OffloadState::new(&socket)?;
    /// state.on(&socket).set_gso(false);
    /// assert_eq!(state.gso_status(), GsoStatus::OffByChoice);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gso_status(&self) -> GsoStatus {
        self.health.status()
    }

    /// Whether coalesced messages may be received.
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = mmsg::offload::OffloadState::new(&socket)?;
    /// let buffer = vec![0; if state.gro() { 65_535 } else { 1500 }];
    /// # let _ = buffer;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gro(&self) -> bool {
        self.gro.load(Ordering::Relaxed)
    }

    /// The most datagrams that a GSO batch can have now: 64 (Windows: 512) or what
    /// [`OffloadBuilder::max_segments`](crate::offload::OffloadBuilder::max_segments) says, and 1 while GSO is off.
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = mmsg::offload::OffloadState::new(&socket)?;
    /// println!("a GSO batch has up to {} datagrams", state.max_segments());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn max_segments(&self) -> usize {
        if self.gso() { self.max_segments } else { 1 }
    }

    /// What has been sent and received so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.snapshot()
    }
}

/// A borrowed [`Offload`](crate::Offload): a socket that is lent, and the [state](OffloadState) that is kept for it.
///
/// It costs nothing to make one for each call.
///
/// ```
/// use mmsg::offload::OffloadState;
/// use mmsg::{BatchSocket, SendMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// let state = OffloadState::new(&socket)?;
/// assert_eq!(state.on(&socket).send_batch(&[SendMsg::to(to, b"hello")])?, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OffloadRef<'a> {
    pub(super) state: &'a OffloadState,
    pub(super) socket: BorrowedSocket<'a>,
    /// Whether the state was made for this socket.
    is_own: bool,
}

impl OffloadRef<'_> {
    /// Whether sends through this are segmented by the kernel.
    ///
    /// ```
    /// use mmsg::offload::OffloadState;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let other = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = OffloadState::new(&socket)?;
    /// assert_eq!(state.on(&socket).gso(), state.gso());
    /// assert!(!state.on(&other).gso()); // The state is not about this socket.
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gso(&self) -> bool {
        self.is_own && self.state.gso()
    }

    /// Whether a call may send with GSO, which it also does to try again what was rejected.
    pub(super) fn permits_gso(&self) -> bool {
        self.is_own && self.state.health.permits()
    }

    /// Turns GSO on or off: [`Offload::set_gso`](crate::Offload::set_gso). On another socket than the state's it stays as it is.
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = mmsg::offload::OffloadState::new(&socket)?;
    /// assert!(!state.on(&socket).set_gso(false));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_gso(&self, on: bool) -> bool {
        if self.is_own {
            ancillary::note_send_times(self.socket);
            self.state.health.set(on, || sys::has_segmentation(self.socket));
        }
        self.gso()
    }

    /// Turns GRO on or off: [`Offload::set_gro`](crate::Offload::set_gro).
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = mmsg::offload::OffloadState::new(&socket)?;
    /// let is_on = state.on(&socket).set_gro(false)?; // Still on only if the socket holds something.
    /// assert_eq!(state.gro(), is_on);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_gro(&self, on: bool) -> io::Result<bool> {
        let on = on && Switch::gro() != Switch::Off;
        let on = if on { self.enable_gro()? } else { self.disable_gro()? };
        if self.is_own {
            self.state.gro.store(on, Ordering::Relaxed);
        }
        Ok(on)
    }

    fn enable_gro(&self) -> io::Result<bool> {
        Ok(Ancillary::GRO.enable(&self.socket)?.contains(Ancillary::GRO))
    }

    /// Turns GRO off, unless queued messages could lose their boundaries. Returns whether GRO is on.
    fn disable_gro(&self) -> io::Result<bool> {
        let socket = self.socket;
        let was_on = self.socket_has_gro();
        if was_on && sys::has_queued_messages(socket) {
            return Ok(true);
        }
        let _ = Ancillary::GRO.disable(&self.socket)?;
        // A coalesced message may have come in between.
        if was_on && sys::has_queued_messages(socket) { self.enable_gro() } else { Ok(false) }
    }

    /// Whether GRO is on, whoever turned it on. Before Linux 5.12 the socket does not say.
    fn socket_has_gro(&self) -> bool {
        match sys::option(self.socket, numbers::RECV_GRO) {
            Ok(value) => value != 0,
            Err(_) => self.state.gro(),
        }
    }

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
                    "GRO is on: every message needs a buffer of {MAX_PAYLOAD} bytes, as RecvBatch::for_gro has; this one has {capacity}"
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
            }
            _ => Ok(()),
        }
    }

    fn count_received(&self, flags: RecvFlags, totals: &ReceivedTotals, calls: usize) {
        // A later receive counts what a peek shows.
        if flags.contains(RecvFlags::PEEK) {
            return self.state.counters.received(&ReceivedTotals::NONE, calls);
        }
        self.state.counters.received(totals, calls);
        // The system coalesces without reporting the boundaries.
        if totals.longest > self.state.longest_datagram && self.is_own && self.state.gro() {
            self.turn_gro_off();
        }
    }

    /// Turns GRO off even if messages are queued. Coalesced ones among them lose their boundaries.
    #[cold]
    pub(crate) fn turn_gro_off(&self) {
        self.state.gro.store(false, Ordering::Relaxed);
        // Best effort: what fails here is left as it was.
        let _ = Ancillary::GRO.disable(&self.socket);
    }
}

sys::lend_socket!(['a] OffloadRef<'a>, |lent| lent.socket);

impl BatchSocket for OffloadRef<'_> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        self.recv_batch_with(msgs, RecvFlags::NONE)
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        self.send_batch_with(msgs, SendFlags::NONE)
    }

    fn send_batch_with(&self, msgs: &[SendMsg<'_>], flags: SendFlags) -> io::Result<usize> {
        match self.send_single(msgs, flags) {
            Some(result) => result,
            None => pool::with(|arena| self.send_slice(arena, msgs, flags)),
        }
    }

    fn recv_batch_with(&self, msgs: &mut [RecvMsg<'_>], flags: RecvFlags) -> io::Result<usize> {
        self.check_capacity(flags, || msgs.iter().map(RecvMsg::capacity).min())?;
        let (result, calls) = pool::with(|arena| {
            let result = arena.recv_on(self.socket, msgs, flags);
            (result, arena.calls())
        });
        let mut totals = ReceivedTotals::NONE;
        let count = result.as_ref().map_or(0, |count| *count);
        msgs[..count].iter().for_each(|msg| totals.add(&msg.received(), msg.len()));
        self.count_received(flags, &totals, calls);
        result
    }

    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.recv_into_with(batch, RecvFlags::NONE)
    }

    fn recv_into_with(&self, batch: &mut RecvBatch, flags: RecvFlags) -> io::Result<usize> {
        if let Err(error) = self.check_capacity(flags, || Some(batch.slot_len())) {
            batch.clear();
            return Err(error);
        }
        let result = engine::batch::recv(batch, self.socket, flags);
        self.count_received(flags, batch.totals(), batch.calls());
        result
    }

    fn recv_slices_dyn(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        self.check_capacity(flags, || buffers.iter().map(|buffer| buffer.len()).min())?;
        let mut totals = ReceivedTotals::NONE;
        let (result, calls) = pool::with(|arena| {
            let result = arena.recv_slices_on(self.socket, buffers, flags, &mut totals, each);
            (result, arena.calls())
        });
        self.count_received(flags, &totals, calls);
        result
    }

    fn send_iter_dyn<'m>(&self, msgs: &mut dyn Iterator<Item = SendMsg<'m>>) -> io::Result<usize> {
        pool::with(|arena| self.send_from(arena, msgs))
    }

    fn flush(&self, queue: &mut SendQueue) -> io::Result<usize> {
        pool::with(|arena| self.send_queue(arena, queue))
    }
}

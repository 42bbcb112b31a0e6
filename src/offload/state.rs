//! The state of an `Offload`'s socket, and the calls on a borrowed socket.

use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};

use super::counters::{AtomicCounters, Counters};
use super::status::{GsoStatus, Status};
use crate::arena;
use crate::recv::batch::RecvBatch;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::socket::BatchSocket;
use crate::sys::{self, AsSocket, BorrowedSocket, Flags, MAX_BATCH, numbers};

/// The longest UDP payload (RFC 768), and so the longest coalesced message.
pub(super) const MAX_PAYLOAD: usize = 65_535 - 8;

/// The state of an [`Offload`](crate::Offload) without its socket, for programs that keep the socket themselves and lend
/// it to each call.
///
/// [`on`](Self::on) combines it with the socket. Threads may share a state. Use a state with the socket it was made for. With
/// another socket calls stay safe but may not use GSO.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch, SendMsg, offload::OffloadState};
/// # let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = receiver.local_addr()?;
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let state = OffloadState::new(&socket)?;
///
/// let sent = state.on(&socket).send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
/// assert_eq!((sent, state.counters().sent), (2, 2));
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "UdpSocketState")]
#[derive(Debug)]
pub struct OffloadState {
    pub(super) status: Status,
    pub(super) max_segments: usize,
    pub(super) gro: AtomicBool,
    pub(super) rejects_tos: AtomicBool,
    pub(super) counters: AtomicCounters,
}

impl OffloadState {
    /// The socket with this state, for one or more calls. Creating it is free.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let offload = Offload::new(socket)?;
    /// let socket = offload.state().on(offload.get_ref()); // What `offload` itself does in each call.
    /// assert_eq!(socket.send_batch(&[SendMsg::to(to, b"hello")])?, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn on<'a>(
        &'a self,
        socket: &'a (impl AsSocket + ?Sized),
    ) -> impl BatchSocket + AsSocket + 'a {
        SocketWithState { state: self, socket: sys::borrow(socket) }
    }

    /// Turns GSO on or off, at any time, and returns whether it is on. [`gso_status`](Self::gso_status) says why not.
    ///
    /// ```
    /// use mmsg::{Offload, offload::GsoStatus};
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let state = socket.state();
    /// assert!(!state.set_gso(false) && !state.gso());
    /// assert_eq!((state.gso_status(), state.max_segments()), (GsoStatus::OffByChoice, 1));
    /// if state.set_gso(true) {
    ///     println!("up to {} datagrams in a GSO batch", state.max_segments());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_gso(&self, on: bool) -> bool {
        self.status.set(on);
        self.gso()
    }

    /// Turns GRO off for good, so that receives accept short buffers.
    ///
    /// Without GRO the kernel does not report where the datagrams of a coalesced message end. So a message that is
    /// coalesced already, queued or on its way, arrives as one long datagram, or is truncated. Choose with
    /// [`OffloadBuilder::gro`](super::OffloadBuilder::gro) instead where you can, before datagrams arrive.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, RecvBatch};
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// # client.send_to(b"hello", socket.get_ref().local_addr()?)?;
    /// socket.state().disable_gro(socket.get_ref())?;
    /// socket.recv_into(&mut RecvBatch::new(64, 1500))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn disable_gro(&self, socket: &(impl AsSocket + ?Sized)) -> io::Result<()> {
        match sys::set_option(sys::borrow(socket), numbers::GRO, 0) {
            Err(error) if !sys::is_about_the_option(&error) => return Err(error),
            _ => {}
        }
        self.gro.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the kernel segments sends. [`gso_status`](Self::gso_status) says why not.
    ///
    /// ```
    /// let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// println!("GSO {}, GRO {}", socket.state().gso(), socket.state().gro());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gso(&self) -> bool {
        self.gso_status() == GsoStatus::On
    }

    /// Whether the kernel segments sends, or why not.
    ///
    /// ```
    /// use mmsg::{Offload, offload::GsoStatus};
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// if socket.state().gso_status() != GsoStatus::On {
    ///     eprintln!("slower than it could be: {:?}", socket.state().gso_status());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gso_status(&self) -> GsoStatus {
        self.status.get()
    }

    /// Whether receives may return coalesced messages.
    ///
    /// ```
    /// use mmsg::{Offload, RecvBatch};
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let batch = if socket.state().gro() { RecvBatch::for_gro(64) } else { RecvBatch::new(64, 1500) };
    /// # let _ = batch;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn gro(&self) -> bool {
        self.gro.load(Ordering::Relaxed)
    }

    /// The maximum number of datagrams in a GSO batch: 64 (Windows: 512), or less if
    /// [`OffloadBuilder::max_segments`](super::OffloadBuilder::max_segments) says so, and 1 while GSO is off.
    ///
    /// QUIC stacks ask for this number (`max_transmit_segments` in quinn).
    ///
    /// ```
    /// let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let bytes = socket.state().max_segments() * 1200; // Enough for one GSO batch.
    /// # assert!(bytes >= 1200);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn max_segments(&self) -> usize {
        if self.gso() { self.max_segments } else { 1 }
    }

    /// Whether messages are sent with their TOS and ECN bits. Some Android kernels reject a message for these
    /// (`EINVAL`, `EIO`): then this `Offload` sends it and all later messages without them, and a QUIC stack should not
    /// rely on ECN.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Ecn, Offload, SendMsg};
    /// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// let msg = SendMsg::to(socket.get_ref().local_addr()?, b"hello");
    /// socket.send_batch(&[msg.with_ecn(Ecn::Ect0)])?;
    /// assert!(socket.state().sends_tos());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn sends_tos(&self) -> bool {
        !self.rejects_tos.load(Ordering::Relaxed)
    }

    /// The counters of all sends and receives so far.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let socket = Offload::new(socket)?;
    /// socket.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
    /// assert_eq!(socket.state().counters().sent, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.snapshot()
    }

    /// Rejects a receive whose smallest buffer could truncate a coalesced message.
    fn check_capacity(&self, smallest: impl FnOnce() -> Option<usize>) -> io::Result<()> {
        match self.gro().then(smallest).flatten() {
            Some(capacity) if capacity < MAX_PAYLOAD => {
                let reason = format!(
                    "GRO is on: every message needs one buffer of {MAX_PAYLOAD} bytes, this one has {capacity}; use RecvBatch::for_gro, or wrap the socket with Offload::builder().gro(false)"
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
            }
            _ => Ok(()),
        }
    }
}

/// A borrowed socket with its state.
#[derive(Clone, Copy)]
struct SocketWithState<'a> {
    state: &'a OffloadState,
    socket: BorrowedSocket<'a>,
}

sys::impl_as_socket!(['a] SocketWithState<'a>, |both| both.socket);

impl SocketWithState<'_> {
    /// Receives into the free slots, and counts what came.
    fn add_to(&self, batch: &mut RecvBatch, flags: Flags) -> io::Result<usize> {
        self.state.check_capacity(|| (batch.slots() > 0).then(|| batch.slot_len()))?;
        let before = batch.message_count();
        let result = batch.recv(self.socket, flags);
        let mut totals = Counters::default();
        // `messages().skip(before)` would decode each message before.
        let added = (before..batch.message_count()).filter_map(|i| batch.message(i));
        added.for_each(|message| totals.count(&message, message.len()));
        self.state.counters.received(totals);
        result
    }
}

impl BatchSocket for SocketWithState<'_> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        let smallest = || msgs.iter().take(MAX_BATCH).map(RecvMsg::coalesced_capacity).min();
        self.state.check_capacity(smallest)?;
        let result = arena::with(|arena| arena.recv(self.socket, msgs, Flags::NONE));
        let mut totals = Counters::default();
        let received = msgs.iter().take(*result.as_ref().unwrap_or(&0));
        received.for_each(|msg| totals.count(&msg.message(), msg.len()));
        self.state.counters.received(totals);
        result
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        arena::with(|arena| self.state.send(arena, self.socket, msgs))
    }

    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.clear();
        self.add_to(batch, Flags::NONE)
    }

    fn recv_more(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.add_to(batch, Flags::DONT_WAIT)
    }

    fn recv_slices(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        let smallest = || buffers.iter().take(MAX_BATCH).map(|buffer| buffer.len()).min();
        self.state.check_capacity(smallest)?;
        let mut totals = Counters::default();
        let mut count = |i, message: Message<'_>| {
            totals.count(&message, message.len());
            each(i, message);
        };
        let result =
            arena::with(|arena| arena.recv_slices(self.socket, buffers, Flags::NONE, &mut count));
        self.state.counters.received(totals);
        result
    }
}

//! Which offloads to turn on for a socket.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counters::AtomicCounters;
use super::state::OffloadState;
use super::status::{Status, conflicting_option, switch};
use crate::ancillary::Ancillary;
use crate::sys::{self, AsSocket, MAX_SEGMENTS};

/// The offloads that an [`Offload`](crate::Offload) turns on: GSO and GRO by default.
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let socket = mmsg::Offload::builder().gso(false).gro(false).build(socket)?;
/// assert!(!socket.state().gso() && !socket.state().gro());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "call `build` to wrap a socket"]
pub struct OffloadBuilder {
    gso: bool,
    max_segments: usize,
    gro: bool,
}

impl OffloadBuilder {
    pub(super) const fn new() -> Self {
        Self { gso: true, max_segments: MAX_SEGMENTS, gro: true }
    }

    /// Sets whether the kernel segments sends.
    pub const fn gso(mut self, on: bool) -> Self {
        self.gso = on;
        self
    }

    /// Sets the maximum number of messages in a GSO batch, from 1 to 64 (Windows: 512). The default is the largest.
    ///
    /// A batch leaves the host as one burst at line rate. Networks with short queues, mobile ones for
    /// example, drop the end of a long burst: 10 datagrams (RFC 9002, section 7.7) are safe almost everywhere. The
    /// limit does not apply to a message with its own [segment size](crate::SendMsg::with_segment_size).
    ///
    /// ```
    /// use mmsg::Offload;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::builder().max_segments(10).build(socket)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub const fn max_segments(mut self, max: usize) -> Self {
        self.max_segments = match max {
            0 => 1,
            1..=MAX_SEGMENTS => max,
            _ => MAX_SEGMENTS,
        };
        self
    }

    /// Sets whether the kernel coalesces received datagrams. Off, it turns a socket's GRO off
    /// ([`disable_gro`](OffloadState::disable_gro)).
    pub const fn gro(mut self, on: bool) -> Self {
        self.gro = on;
        self
    }

    /// Turns the offloads on like [`build`](Self::build), and returns the state alone, for programs that keep the
    /// socket themselves and lend it to each call.
    ///
    /// ```
    /// use mmsg::{BatchSocket, Offload, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let state = Offload::builder().gro(false).build_state(&socket)?;
    /// assert_eq!(state.on(&socket).send_batch(&[SendMsg::to(to, b"hello")])?, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`build`](Self::build).
    pub fn build_state(self, socket: &(impl AsSocket + ?Sized)) -> io::Result<OffloadState> {
        let socket = sys::borrow(socket);
        if let Some((option, value)) = conflicting_option(socket) {
            let reason = format!("{option} is {value} on the socket: with Offload it must be 0");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let state = OffloadState {
            status: Status::new(socket),
            max_segments: self.max_segments,
            gro: AtomicBool::new(false),
            rejects_tos: AtomicBool::new(false),
            counters: AtomicCounters::default(),
        };
        state.set_gso(self.gso);
        if self.gro && switch() != Some(false) && !sys::has_filter(socket) {
            let is_on = Ancillary::GRO.enable(&socket)?.contains(Ancillary::GRO);
            state.gro.store(is_on, Ordering::Relaxed);
        } else {
            state.disable_gro(&socket)?;
        }
        Ok(state)
    }
}

impl OffloadState {
    /// Turns on GSO and GRO where the kernel supports them for this socket. To choose, use
    /// [`OffloadBuilder::build_state`].
    ///
    /// # Errors
    ///
    /// The errors of [`Offload::new`](crate::Offload::new).
    pub fn new(socket: &(impl AsSocket + ?Sized)) -> io::Result<Self> {
        OffloadBuilder::new().build_state(socket)
    }
}

//! Which offloads to turn on for a socket.

use std::io;

use super::Offload;
use super::state::OffloadState;
use super::status::conflicting_option;
use crate::sys::{self, AsSocket, MAX_SEGMENTS};

/// The offloads that an [`Offload`] turns on: GSO and GRO by default.
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let socket = mmsg::Offload::builder().gso(false).gro(false).build(socket)?;
/// assert!(!socket.gso() && !socket.gro());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "call `build` to wrap a socket"]
pub struct OffloadBuilder {
    gso: bool,
    force_gso: bool,
    max_segments: usize,
    gro: bool,
}

impl OffloadBuilder {
    pub(super) const fn new() -> Self {
        Self { gso: true, force_gso: false, max_segments: MAX_SEGMENTS, gro: true }
    }

    /// Sets whether the kernel segments sends.
    pub const fn gso(mut self, on: bool) -> Self {
        self.gso = on;
        self
    }

    /// Sets whether to use GSO even on the kernel releases that damage GSO batches, Linux 7.0.0 to 7.1.4. Use it if
    /// your kernel has the fix: distributions add it to older releases.
    ///
    /// ```
    /// use mmsg::offload::GsoStatus;
    /// use mmsg::Offload;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = Offload::builder().force_gso(true).build(socket)?;
    /// assert_ne!(socket.gso_status(), GsoStatus::OffByKernelRelease);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub const fn force_gso(mut self, on: bool) -> Self {
        self.force_gso = on;
        self
    }

    /// Sets the maximum number of messages in a GSO batch, from 1 to 64 (Windows: 512). The default is the largest.
    ///
    /// A batch leaves the host as one burst at the speed of its link. Networks with short queues, mobile ones for
    /// example, drop the end of a long burst: 10 datagrams (RFC 9002, section 7.7) are safe almost everywhere. The
    /// limit does not apply to a message with its own [segment size](crate::SendMeta::segment_size).
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

    /// Sets whether the kernel coalesces received datagrams. A socket with GRO on keeps it while messages wait in it:
    /// see [`set_gro`](Offload::set_gro).
    pub const fn gro(mut self, on: bool) -> Self {
        self.gro = on;
        self
    }

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
        if let Some((option, value)) = conflicting_option(sys::borrow(socket)) {
            let reason = format!("{option} is {value} on the socket: with Offload it must be 0");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let state = OffloadState::off(self.force_gso, self.max_segments);
        state.set_gso(socket, self.gso);
        state.set_gro(socket, self.gro)?;
        Ok(state)
    }
}

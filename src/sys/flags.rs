//! Flags of one call: the system's bits.

use std::ops::BitOr;

use super::numbers;

/// Flags of one call of an [`MmsgBuf`](crate::MmsgBuf), in addition to the socket's own settings.
///
/// ```
/// # #[cfg(unix)] {
/// use mmsg::{Flags, MmsgBuf, RecvMsg};
/// use std::os::fd::AsFd;
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?; // Blocking.
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let (mut arena, mut buffer) = (MmsgBuf::new(), [0; 1500]);
/// let mut msgs = [RecvMsg::new(&mut buffer)];
/// let look = Flags::PEEK | Flags::DONT_WAIT;
/// if arena.recv(socket.as_fd(), &mut msgs, look)? == 1 {
///     println!("{} bytes are there, and stay there", msgs[0].data().len());
/// }
/// # assert_eq!(arena.recv(socket.as_fd(), &mut msgs, Flags::NONE)?, 1);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("MSG_DONTWAIT", "MSG_PEEK"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub(super) i32);

impl Flags {
    /// No flags: wait as the socket is set to.
    pub const NONE: Self = Self(0);

    /// Does not wait, even on a blocking socket (`MSG_DONTWAIT`): the call returns
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) instead.
    ///
    /// Windows has no such flag, so `WSAPoll` is called first: on a blocking socket the call still waits if another thread
    /// takes the datagram, or fills the socket, in between.
    #[doc(alias = "MSG_DONTWAIT")]
    pub const DONT_WAIT: Self = Self(numbers::MSG_DONTWAIT);

    /// Receives the first waiting message and leaves it in the socket (`MSG_PEEK`). Fills one message at most, since the next
    /// one would be the same.
    #[doc(alias = "MSG_PEEK")]
    pub const PEEK: Self = Self(numbers::MSG_PEEK);

    /// Reads the error queue (`MSG_ERRQUEUE`).
    pub(crate) const ERROR_QUEUE: Self = Self(numbers::MSG_ERRQUEUE);

    /// Whether all of `other` is in `self`.
    #[must_use]
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The maximum number of messages in one receive.
    #[inline]
    pub(crate) fn max_recv(self) -> usize {
        if self.contains(Self::PEEK) { 1 } else { numbers::MAX_RECV }
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

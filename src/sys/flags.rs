//! Flags of one call: the system's bits.

use std::ops::BitOr;

use super::numbers;

/// Flags of one call, in addition to the socket's own settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags(pub(super) i32);

impl Flags {
    /// No flags: wait as the socket is set to.
    pub(crate) const NONE: Self = Self(0);

    /// Does not wait, even on a blocking socket (`MSG_DONTWAIT`).
    ///
    /// Windows has no such flag, so `WSAPoll` is called first: on a blocking socket the call still waits if another thread
    /// takes the datagram, or fills the socket, in between.
    pub(crate) const DONT_WAIT: Self = Self(numbers::MSG_DONTWAIT);

    /// Reads the error queue (`MSG_ERRQUEUE`).
    pub(crate) const ERROR_QUEUE: Self = Self(numbers::MSG_ERRQUEUE);

    #[inline]
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

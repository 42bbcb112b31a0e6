//! Flags of one receive call.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// How one receive call is to behave, beyond what the socket itself is set to.
///
/// ```
/// use mmsg::RecvFlags;
/// let flags = RecvFlags::PEEK | RecvFlags::DONT_WAIT;
/// assert!(flags.contains(RecvFlags::PEEK));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RecvFlags(u8);

impl RecvFlags {
    /// Nothing special: wait as the socket says, take what arrives.
    pub const NONE: Self = Self(0);

    /// Look at the first waiting datagram and leave it in the socket (`MSG_PEEK`).
    ///
    /// A peek fills at most one message: a further look would see the same datagram again.
    pub const PEEK: Self = Self(1);

    /// Do not wait, even on a blocking socket (`MSG_DONTWAIT`).
    ///
    /// With nothing waiting the call gives [`WouldBlock`](std::io::ErrorKind::WouldBlock).
    /// Windows has no such flag: the call gives [`Unsupported`](std::io::ErrorKind::Unsupported).
    pub const DONT_WAIT: Self = Self(1 << 1);

    /// Ask for the own length of a datagram that is longer than its buffer (`MSG_TRUNC` as an
    /// input flag), for [`RecvMsg::full_len`](crate::RecvMsg::full_len).
    ///
    /// Linux and Android; elsewhere the flag is accepted and the full length stays unknown.
    pub const FULL_LEN: Self = Self(1 << 2);

    /// Read the error queue (`MSG_ERRQUEUE`): for [`drain_errors`](crate::drain_errors) alone,
    /// since what comes is no message.
    pub(crate) const ERROR_QUEUE: Self = Self(1 << 7);

    /// Whether all flags of `other` are in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// How many of `messages` a receive may fill: further ones would see the same datagram as a peek
    /// that came first.
    pub(crate) fn most(self, messages: usize) -> usize {
        if self.contains(Self::PEEK) { messages.min(1) } else { messages }
    }

    /// Whether no flag is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for RecvFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for RecvFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for RecvFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            [(Self::PEEK, "PEEK"), (Self::DONT_WAIT, "DONT_WAIT"), (Self::FULL_LEN, "FULL_LEN")];
        let mut set = f.debug_set();
        for (_, name) in names.iter().filter(|(flag, _)| self.contains(*flag)) {
            set.entry(&format_args!("{name}"));
        }
        set.finish()
    }
}

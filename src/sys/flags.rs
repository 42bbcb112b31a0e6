//! Flags of one call: the system's bits.

use super::numbers::{self, MAX_RECV};

/// Implements what every set of flags has. `Debug` shows the flags listed.
macro_rules! flag_set {
    ($set:ident: $($name:ident),* $(,)?) => {
        impl $set {
            pub(crate) const NAMES: &[(Self, &str)] = &[$((Self::$name, stringify!($name))),*];

            /// Whether all of `other` is in `self`.
            #[must_use]
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether nothing is in the set.
            #[must_use]
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl std::ops::BitOr for $set {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $set {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::fmt::Debug for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut set = f.debug_set();
                for (_, name) in Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag)) {
                    set.entry(&format_args!("{name}"));
                }
                set.finish()
            }
        }
    };
}
pub(crate) use flag_set;

/// Flags of one receive call, in addition to the socket's own settings.
///
/// ```
/// use mmsg::RecvFlags;
/// let flags = RecvFlags::PEEK | RecvFlags::DONT_WAIT;
/// assert!(flags.contains(RecvFlags::PEEK));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RecvFlags(pub(super) i32);

impl RecvFlags {
    /// No flags: wait as the socket is set to, and take the datagrams.
    pub const NONE: Self = Self(0);

    /// Reads the first waiting datagram and leaves it in the socket (`MSG_PEEK`).
    ///
    /// A peek fills one message at most, since every further message would show the same datagram. On Windows it has no
    /// metadata.
    #[doc(alias = "MSG_PEEK")]
    pub const PEEK: Self = Self(numbers::MSG_PEEK);

    /// Does not wait, even on a blocking socket (`MSG_DONTWAIT`).
    ///
    /// If nothing is waiting, the call returns [`WouldBlock`](std::io::ErrorKind::WouldBlock).
    /// Windows has no such flag, so the crate calls `WSAPoll` first: on a blocking socket the call still waits if another
    /// thread takes the datagram in between.
    #[doc(alias = "MSG_DONTWAIT")]
    pub const DONT_WAIT: Self = Self(numbers::MSG_DONTWAIT);

    /// Reads the error queue (`MSG_ERRQUEUE`). Only for [`drain_errors`](crate::error_queue::drain_errors).
    pub(crate) const ERROR_QUEUE: Self = Self(numbers::MSG_ERRQUEUE);

    /// How many of `messages` a receive may fill.
    #[inline]
    pub(crate) fn max_messages(self, messages: usize) -> usize {
        messages.min(if self.contains(Self::PEEK) { 1 } else { MAX_RECV })
    }
}

flag_set!(RecvFlags: PEEK, DONT_WAIT);

/// Flags of one send call, in addition to the socket's own settings.
///
/// ```
/// use mmsg::SendFlags;
/// let flags = SendFlags::DONT_WAIT;
/// assert!(flags.contains(SendFlags::DONT_WAIT));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SendFlags(pub(super) i32);

impl SendFlags {
    /// No flags: wait as the socket is set to.
    pub const NONE: Self = Self(0);

    /// Does not wait, even on a blocking socket (`MSG_DONTWAIT`).
    ///
    /// If the socket is full, the call returns [`WouldBlock`](std::io::ErrorKind::WouldBlock).
    /// Windows has no such flag, so the crate calls `WSAPoll` first: on a blocking socket the call still waits if another
    /// thread fills the socket in between.
    #[doc(alias = "MSG_DONTWAIT")]
    pub const DONT_WAIT: Self = Self(numbers::MSG_DONTWAIT);
}

flag_set!(SendFlags: DONT_WAIT);

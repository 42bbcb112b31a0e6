//! What depends on the target.

mod socket;

/// Whether a socket may refuse a datagram and stay writable, so that no event follows. Linux and Windows do not.
pub(crate) const STAYS_WRITABLE: bool =
    !cfg!(any(target_os = "linux", target_os = "android", windows));

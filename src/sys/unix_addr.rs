//! [`UnixAddr`], the address of a Unix socket in the public API.

use std::path::Path;

/// The address of a Unix socket: the source of a received datagram, or the destination of a message.
///
/// The source of a received datagram borrows the memory it was received into.
///
/// ```
/// # #[cfg(unix)] {
/// use mmsg::UnixAddr;
/// use std::path::Path;
/// let addr = UnixAddr::Path(Path::new("/run/metrics.sock"));
/// assert_ne!(addr, UnixAddr::Unnamed);
/// # }
/// ```
#[doc(alias = "sockaddr_un")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnixAddr<'a> {
    /// No name: nobody can send to this socket.
    Unnamed,
    /// A path in the file system.
    Path(&'a Path),
    /// A name in Linux's abstract namespace, without the leading zero byte. Any bytes are valid.
    Abstract(&'a [u8]),
}

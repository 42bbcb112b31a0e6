//! The address of a Unix socket, as a caller reads and writes it.

use std::path::Path;

/// The address of a Unix socket: the source of a received datagram, or where one is sent to.
///
/// The address of a received datagram borrows the memory that the source is in.
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
    /// The sender's socket has no name, so nobody can send to it.
    Unnamed,
    /// A path in the file system.
    Path(&'a Path),
    /// A name in Linux's abstract namespace, without the leading zero byte. It may have any bytes.
    Abstract(&'a [u8]),
}

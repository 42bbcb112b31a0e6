//! Socket addresses: `sockaddr` bytes, decoded lazily.

mod codec;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

pub(super) use codec::NAME_LEN;
use codec::decode;
pub(crate) use codec::{Name, decode_addr, decode_unix, encode as encode_addr, encode_unix};

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

/// The bytes of an address, or none.
#[derive(Clone, Copy)]
pub(crate) struct RawAddr<'a> {
    name: &'a Name,
    /// The length of the address in bytes: 0 for none. An address has a few hundred bytes at most.
    len: u32,
}

impl<'a> RawAddr<'a> {
    /// Memory for an address.
    pub(crate) const NO_NAME: Name = [0; NAME_LEN];
    pub(crate) const NONE: Self = Self { name: &Self::NO_NAME, len: 0 };

    /// The address in the first `len` bytes of `name`.
    #[inline]
    pub(crate) fn new(name: &'a Name, len: usize) -> Self {
        Self { name, len: len as u32 }
    }

    /// The Internet address, if it is one.
    #[inline]
    pub(crate) fn get(self) -> Option<SocketAddr> {
        decode(self.name, self.len as usize)
    }

    /// The Unix address, if it is one. Linux reports an unnamed socket as no address at all.
    pub(crate) fn unix(self) -> Option<UnixAddr<'a>> {
        decode_unix(self.name.get(..self.len as usize)?)
    }
}

impl fmt::Debug for RawAddr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(addr) => addr.fmt(f),
            None => self.unix().fmt(f),
        }
    }
}

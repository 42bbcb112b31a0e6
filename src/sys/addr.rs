//! Memory for socket addresses in the system's own form, owned and borrowed, which are decoded on request.

mod codec;

use std::cmp::Ordering;
use std::fmt;
use std::net::SocketAddr;

use crate::sys::UnixAddr;
pub(super) use codec::{NAME_LEN, Name, UNIX_NAME_LEN, UnixName, encode_dest, encode_unix};
use codec::{V4_LEN, V6_LEN, decode, encode};
pub(crate) use codec::{socket_addr, unix_addr};

/// An address in the system's form, or none; decoded on request.
///
/// Generic over its size, [`NAME_LEN`] or [`UNIX_NAME_LEN`].
#[derive(Clone, Copy)]
pub(crate) struct RawName<const N: usize> {
    name: [u8; N],
    /// Bytes that the address has; 0 for none. More than `N` if it is truncated.
    len: u32,
}

/// An Internet address, or none.
pub(crate) type RawAddr = RawName<NAME_LEN>;

/// Memory for an address that a receive or a caller writes.
pub(crate) struct AddrSpace<'a> {
    name: &'a mut [u8],
    len: &'a mut u32,
}

/// A borrowed address in the system's form, whose name and length may be in different places.
///
/// Invariant: `name` is a [`Name`] or a [`UnixName`].
#[derive(Clone, Copy)]
pub(crate) struct RawAddrRef<'a> {
    name: &'a [u8],
    /// Bytes that the address has: more than `name` if it is truncated.
    len: u32,
}

/// Memory for the source of a datagram from a Unix socket.
///
/// A [`RecvMsg`](crate::RecvMsg) has space for Internet addresses only: lend it this memory by
/// [`with_unix_addr`](crate::RecvMsg::with_unix_addr). A [`RecvBatch`](crate::RecvBatch) has its own.
///
/// ```
/// # #[cfg(unix)] {
/// use mmsg::{BatchSocket, RecvMsg, UnixAddrBuf};
/// let (a, b) = std::os::unix::net::UnixDatagram::pair()?;
/// a.send(b"hello")?;
/// let (mut buffer, mut source) = ([0; 16], UnixAddrBuf::new());
/// let mut msgs = [RecvMsg::new(&mut buffer).with_unix_addr(&mut source)];
/// b.recv_batch(&mut msgs)?;
/// println!("{:?} from {:?}", msgs[0].data(), msgs[0].unix_addr());
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "sockaddr_un")]
#[derive(Clone)]
pub struct UnixAddrBuf(RawName<UNIX_NAME_LEN>);

impl UnixAddrBuf {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Self(RawName::NONE)
    }

    /// The address; `None` if it is an Internet address.
    #[must_use]
    pub fn addr(&self) -> Option<UnixAddr<'_>> {
        self.lend().unix()
    }

    /// The address in the system's form, if it has one (see [`encode_unix`]).
    pub(crate) fn encode(addr: UnixAddr<'_>) -> Option<Self> {
        let mut encoded = Self::new();
        encoded.0.len = encode_unix(addr, &mut encoded.0.name)? as u32;
        Some(encoded)
    }

    /// The bytes of an address that was encoded.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0.name[..(self.0.len as usize).min(UNIX_NAME_LEN)]
    }

    #[inline]
    pub(crate) fn lend(&self) -> RawAddrRef<'_> {
        self.0.lend()
    }

    #[inline]
    pub(crate) fn space(&mut self) -> AddrSpace<'_> {
        self.0.space()
    }

    /// The name, and how many bytes the address has.
    pub(super) fn name(&self) -> (&UnixName, u32) {
        (&self.0.name, self.0.len)
    }
}

impl Default for UnixAddrBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for UnixAddrBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnixAddrBuf").field(&self.lend()).finish()
    }
}

impl<const N: usize> RawName<N> {
    pub(crate) const NONE: Self = Self { name: [0; N], len: 0 };

    #[inline]
    pub(crate) fn new(addr: Option<&SocketAddr>) -> Self {
        let mut raw = Self::NONE;
        raw.space().set(addr);
        raw
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        self.lend().get()
    }

    /// Whether it is this Internet address, or none, as [`new`](Self::new) makes it. Compares in pieces: to read
    /// what was just written in smaller ones takes 7 ns.
    #[inline]
    pub(crate) fn is(&self, addr: Option<&SocketAddr>) -> bool {
        let (name, len) = (self.lend().start(), self.len as usize);
        let has_port = |port: u16| name[2..4] == port.to_be_bytes();
        match addr {
            None => len == 0,
            Some(SocketAddr::V4(v4)) => {
                len == V4_LEN && name[4..8] == v4.ip().octets() && has_port(v4.port())
            }
            Some(SocketAddr::V6(v6)) => {
                len == V6_LEN
                    && name[8..24] == v6.ip().octets()
                    && has_port(v6.port())
                    && name[4..8] == v6.flowinfo().to_ne_bytes()
                    && name[24..28] == v6.scope_id().to_ne_bytes()
            }
        }
    }

    #[inline]
    pub(crate) fn lend(&self) -> RawAddrRef<'_> {
        RawAddrRef { len: self.len, ..RawAddrRef::new(&self.name, 0) }
    }

    #[inline]
    pub(crate) fn space(&mut self) -> AddrSpace<'_> {
        AddrSpace { name: &mut self.name, len: &mut self.len }
    }
}

impl<'a> AddrSpace<'a> {
    /// Writes an address, or none.
    #[inline]
    pub(crate) fn set(&mut self, addr: Option<&SocketAddr>) {
        let name = self.name.first_chunk_mut().expect("every name has as many bytes");
        let len = addr.map_or(0, |addr| encode(addr, name));
        self.set_len(len);
    }

    /// Sets how many bytes the address has that was received here.
    #[inline]
    pub(crate) fn set_len(&mut self, len: usize) {
        // At most that of a sockaddr_un, which is a few hundred bytes.
        *self.len = len as u32;
    }

    /// The bytes, for the kernel to write; then call [`set_len`](Self::set_len).
    #[inline]
    pub(super) fn into_name(self) -> &'a mut [u8] {
        self.name
    }
}

impl<'a> RawAddrRef<'a> {
    /// The address in the first `len` bytes of `name`.
    #[inline]
    pub(super) fn new<const N: usize>(name: &'a [u8; N], len: usize) -> Self {
        const { assert!(N == NAME_LEN || N == UNIX_NAME_LEN) }
        // It fits, as in `set_len`.
        Self { name, len: len as u32 }
    }

    /// The Internet address, if it is one.
    #[inline]
    pub(crate) fn get(self) -> Option<SocketAddr> {
        decode(self.start(), self.len as usize)
    }

    /// The Unix address, if it is one and whole. No address at all is that of an unnamed socket:
    /// Linux reports none for it.
    pub(crate) fn unix(self) -> Option<UnixAddr<'a>> {
        unix_addr(self.name.get(..self.len as usize)?)
    }

    /// Whether both are the same Internet address. The bytes after a name's length are zero.
    #[inline]
    pub(crate) fn same(self, other: RawAddrRef<'_>) -> bool {
        self.len == other.len
            && (self.name.as_ptr() == other.name.as_ptr() || self.start() == other.start())
    }

    /// A key that is equal for equal Internet addresses, and different for most others: for IPv4 the whole address.
    #[inline]
    pub(crate) fn key(self) -> u64 {
        u64::from_ne_bytes(*self.start().first_chunk().expect("a name is longer"))
    }

    /// Some order of Internet addresses.
    pub(crate) fn compare(self, other: RawAddrRef<'_>) -> Ordering {
        self.start().cmp(other.start())
    }

    /// Copies the name of an Internet address for a header, and returns its length.
    #[inline]
    pub(super) fn copy_to(self, name: &mut Name) -> usize {
        *name = *self.start();
        (self.len as usize).min(NAME_LEN)
    }

    #[inline]
    fn start(self) -> &'a Name {
        self.name.first_chunk().expect("the invariant")
    }
}

impl<const N: usize> fmt::Debug for RawName<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl fmt::Debug for RawAddrRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(addr) => addr.fmt(f),
            None => self.unix().fmt(f),
        }
    }
}

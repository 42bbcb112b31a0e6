//! Internet socket addresses to and from the bytes of a `sockaddr`, without a cast.
//!
//! | bytes  | `sockaddr_in`            | `sockaddr_in6`                  |
//! |--------|--------------------------|---------------------------------|
//! | 0..2   | family                   | family                          |
//! | 2..4   | port, big-endian         | port, big-endian                |
//! | 4..8   | address                  | flow information, as std has it |
//! | 8..24  | zero up to 16, the end   | address                         |
//! | 24..28 |                          | scope, native byte order        |

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Bytes of `struct sockaddr_in` (RFC 3493 and every system's netinet/in.h).
const V4_LEN: usize = 16;
/// Bytes of `struct sockaddr_in6`.
const V6_LEN: usize = 28;

/// Memory for one address: it holds any Internet address and truncates others.
///
/// A quarter of a `sockaddr_storage`. The kernel writes no more than `msg_namelen`, and needs no
/// alignment.
pub(super) type Name = [u8; NAME_LEN];
pub(super) const NAME_LEN: usize = 32;

/// An address in the system's form, or none; decoded on request.
#[derive(Clone, Copy)]
pub(crate) struct RawAddr {
    name: Name,
    /// Bytes of `name` that are in use; 0 for none.
    len: u32,
}

/// A borrowed [`RawAddr`], whose name and length may be in different places.
#[derive(Clone, Copy)]
pub(crate) struct RawAddrRef<'a> {
    name: &'a Name,
    len: u32,
}

impl RawAddr {
    pub(crate) const NONE: Self = Self { name: [0; NAME_LEN], len: 0 };

    #[inline]
    pub(crate) fn new(addr: Option<&SocketAddr>) -> Self {
        let mut raw = Self::NONE;
        let len = addr.map_or(0, |addr| encode(addr, &mut raw.name));
        raw.set_len(len);
        raw
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        self.lend().get()
    }

    #[inline]
    pub(crate) fn lend(&self) -> RawAddrRef<'_> {
        RawAddrRef { name: &self.name, len: self.len }
    }

    /// Memory for the kernel to write an address; then call [`set_len`](Self::set_len).
    #[inline]
    pub(super) fn space_mut(&mut self) -> &mut Name {
        &mut self.name
    }

    #[inline]
    pub(super) fn set_len(&mut self, len: usize) {
        // At most that of a sockaddr_un, which is a few hundred bytes.
        self.len = len as u32;
    }
}

impl<'a> RawAddrRef<'a> {
    /// The address in the first `len` bytes of `name`.
    #[inline]
    pub(super) fn new(name: &'a Name, len: usize) -> Self {
        // As above.
        Self { name, len: len as u32 }
    }

    #[inline]
    pub(crate) fn get(self) -> Option<SocketAddr> {
        decode(self.name, self.len as usize)
    }

    /// Whether both are the same address. The bytes after a name's length are zero.
    #[inline]
    pub(crate) fn same(self, other: RawAddrRef<'_>) -> bool {
        self.len == other.len && self.name == other.name
    }

    /// Name and length for a header.
    #[inline]
    pub(super) fn parts(self) -> Option<(&'a Name, usize)> {
        (self.len > 0).then_some((self.name, self.len as usize))
    }
}

impl fmt::Debug for RawAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl fmt::Debug for RawAddrRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(not(sa_len))]
#[inline]
fn family_bytes(family: i32, _len: usize) -> [u8; 2] {
    // Families are small numbers: the cast loses nothing.
    (family as u16).to_ne_bytes()
}

#[cfg(sa_len)]
#[inline]
fn family_bytes(family: i32, len: usize) -> [u8; 2] {
    [len as u8, family as u8]
}

#[cfg(not(sa_len))]
#[inline]
fn family_of(bytes: [u8; 2]) -> i32 {
    u16::from_ne_bytes(bytes).into()
}

#[cfg(sa_len)]
#[inline]
fn family_of(bytes: [u8; 2]) -> i32 {
    bytes[1].into()
}

/// Writes an address and returns its length in bytes.
#[inline]
pub(super) fn encode(addr: &SocketAddr, out: &mut Name) -> usize {
    out[2..4].copy_from_slice(&addr.port().to_be_bytes());
    match addr {
        SocketAddr::V4(v4) => {
            out[..2].copy_from_slice(&family_bytes(libc::AF_INET, V4_LEN));
            out[4..8].copy_from_slice(&v4.ip().octets());
            out[8..16].fill(0);
            V4_LEN
        }
        SocketAddr::V6(v6) => {
            out[..2].copy_from_slice(&family_bytes(libc::AF_INET6, V6_LEN));
            out[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            out[8..24].copy_from_slice(&v6.ip().octets());
            out[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            V6_LEN
        }
    }
}

/// Reads an address of which the system gave `len` bytes; `None` for any other family, and for
/// one that is shorter than its family's.
#[inline]
pub(super) fn decode(bytes: &Name, len: usize) -> Option<SocketAddr> {
    let [f0, f1, p0, p1, ..] = *bytes;
    let port = u16::from_be_bytes([p0, p1]);
    match family_of([f0, f1]) {
        libc::AF_INET if len >= V4_LEN => {
            let ip = Ipv4Addr::from([bytes[4], bytes[5], bytes[6], bytes[7]]);
            Some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
        }
        libc::AF_INET6 if len >= V6_LEN => {
            let ip: [u8; 16] = *bytes[8..].first_chunk().expect("24 bytes are left");
            let word =
                |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("within 32"));
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, word(4), word(24))))
        }
        _ => None,
    }
}

/// Reads an address out of a control message: `None` if it is none, or not whole.
pub(crate) fn socket_addr(bytes: &[u8]) -> Option<SocketAddr> {
    let mut name = [0; NAME_LEN];
    let len = bytes.len().min(NAME_LEN);
    name[..len].copy_from_slice(&bytes[..len]);
    decode(&name, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use socket2::SockAddr;

    fn addrs() -> impl Strategy<Value = SocketAddr> {
        let v4 = (any::<u32>(), any::<u16>())
            .prop_map(|(ip, port)| SocketAddrV4::new(ip.into(), port).into());
        let v6 = (any::<u128>(), any::<u16>(), any::<u32>(), any::<u32>()).prop_map(
            |(ip, port, flow, scope)| SocketAddrV6::new(ip.into(), port, flow, scope).into(),
        );
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn an_address_survives_whatever_was_there_before(addr in addrs(), stale in any::<u8>()) {
            let mut name = [stale; NAME_LEN];
            let len = encode(&addr, &mut name);
            prop_assert_eq!(decode(&name, len), Some(addr));
            prop_assert_eq!(decode(&name, len - 1), None);
            // socket2's own encoding is the independent twin.
            prop_assert_eq!(len, SockAddr::from(addr).len() as usize);
        }

        #[test]
        fn any_bytes_are_survived(bytes in any::<Name>(), len in 0usize..200) {
            let _ = decode(&bytes, len);
        }
    }

    #[test]
    fn another_family_is_no_address() {
        let mut name = [0; NAME_LEN];
        name[..2].copy_from_slice(&family_bytes(libc::AF_UNIX, 110));
        assert_eq!(decode(&name, 110), None);
    }
}

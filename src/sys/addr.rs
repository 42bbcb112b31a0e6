//! Socket addresses: `sockaddr` bytes, written and lazily decoded without a cast.
//!
//! | bytes  | `sockaddr_in`            | `sockaddr_in6`                  |
//! |--------|--------------------------|---------------------------------|
//! | 0..2   | family                   | family                          |
//! | 2..4   | port, big-endian         | port, big-endian                |
//! | 4..8   | address                  | flow information, as std has it |
//! | 8..24  | zero up to 16, the end   | address                         |
//! | 24..28 |                          | scope, native byte order        |
//!
//! A `sockaddr_un` is the family and a path, which may end with a zero byte. An abstract name on Linux begins with a zero
//! byte, and ends where the address ends (unix(7)).

#[cfg(unix)]
use std::ffi::OsStr;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::Path;

use super::numbers;

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

/// Memory for one address of any datagram socket. A `sockaddr_un` has 110 bytes, and Linux returns one more for a path that
/// fills it (unix(7), BUGS). The kernel writes at most `msg_namelen` bytes, and needs no alignment.
pub(crate) type Name = [u8; NAME_LEN];
pub(super) const NAME_LEN: usize = 112;

/// Bytes of `struct sockaddr_in` (RFC 3493 and every system's netinet/in.h).
const V4_LEN: usize = 16;
/// Bytes of `struct sockaddr_in6`.
const V6_LEN: usize = 28;
/// Where the path begins: after the family.
const PATH: usize = 2;
/// The maximum length of a path, without a zero byte at its end. An abstract name is a byte shorter.
const MAX_PATH: usize = numbers::UNIX_ADDR_LEN - PATH;

/// Whether an address begins with its length, and the family is one byte.
const HAS_LEN: bool = cfg!(sa_len);

#[inline]
fn family_bytes(has_len: bool, family: i32, len: usize) -> [u8; 2] {
    // Families are small numbers, so the casts lose nothing.
    if has_len { [len as u8, family as u8] } else { (family as u16).to_ne_bytes() }
}

#[inline]
fn family_of(has_len: bool, bytes: [u8; 2]) -> i32 {
    if has_len { bytes[1].into() } else { u16::from_ne_bytes(bytes).into() }
}

/// Writes an Internet address and returns its length in bytes.
#[inline]
pub(crate) fn encode_addr(addr: &SocketAddr, out: &mut Name) -> usize {
    out[2..4].copy_from_slice(&addr.port().to_be_bytes());
    match addr {
        SocketAddr::V4(v4) => {
            out[..2].copy_from_slice(&family_bytes(HAS_LEN, numbers::AF_INET, V4_LEN));
            out[4..8].copy_from_slice(&v4.ip().octets());
            out[8..16].fill(0);
            V4_LEN
        }
        SocketAddr::V6(v6) => {
            out[..2].copy_from_slice(&family_bytes(HAS_LEN, numbers::AF_INET6, V6_LEN));
            out[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            out[8..24].copy_from_slice(&v6.ip().octets());
            out[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            V6_LEN
        }
    }
}

/// Decodes an Internet address of `len` bytes. `None` for another family, and for an address that is too short.
#[inline]
fn decode(bytes: &Name, len: usize) -> Option<SocketAddr> {
    let [f0, f1, p0, p1, ..] = *bytes;
    let port = u16::from_be_bytes([p0, p1]);
    match family_of(HAS_LEN, [f0, f1]) {
        numbers::AF_INET if len >= V4_LEN => {
            let ip = Ipv4Addr::from([bytes[4], bytes[5], bytes[6], bytes[7]]);
            Some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
        }
        numbers::AF_INET6 if len >= V6_LEN => {
            let ip: [u8; 16] = *bytes[8..].first_chunk().expect("24 bytes are left");
            let word = |at: usize| {
                u32::from_ne_bytes(*bytes[at..].first_chunk().expect("4 bytes are left"))
            };
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, word(4), word(24))))
        }
        _ => None,
    }
}

/// Writes the address of a Unix socket and returns its length in bytes. `None` for an unnamed socket; for a path that is
/// empty, too long or has a zero byte; and for an abstract name that is too long or on a system without such names.
pub(crate) fn encode_unix(addr: UnixAddr<'_>, out: &mut Name) -> Option<usize> {
    let (lead, name) = match addr {
        // Windows has no Unix datagram sockets.
        UnixAddr::Path(path) if cfg!(has_descriptors) => {
            (&[][..], path.as_os_str().as_encoded_bytes())
        }
        UnixAddr::Abstract(name) if cfg!(linux_like) => (&[0][..], name),
        _ => return None,
    };
    let is_path = lead.is_empty();
    if lead.len() + name.len() > MAX_PATH || (is_path && (name.is_empty() || name.contains(&0))) {
        return None;
    }
    let end = PATH + lead.len() + name.len();
    let len = (end + usize::from(is_path)).min(numbers::UNIX_ADDR_LEN);
    out[..PATH].copy_from_slice(&family_bytes(HAS_LEN, numbers::AF_UNIX, len));
    out[PATH..end - name.len()].copy_from_slice(lead);
    out[end - name.len()..end].copy_from_slice(name);
    out[end..].fill(0);
    Some(len)
}

/// Decodes the address of a Unix socket. `None` for another family.
pub(crate) fn decode_unix(bytes: &[u8]) -> Option<UnixAddr<'_>> {
    let Some((family, path)) = bytes.split_first_chunk::<PATH>() else {
        return bytes.is_empty().then_some(UnixAddr::Unnamed);
    };
    if family_of(HAS_LEN, *family) != numbers::AF_UNIX {
        return None;
    }
    if let (true, Some((0, name))) = (cfg!(linux_like), path.split_first()) {
        return Some(UnixAddr::Abstract(name));
    }
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    Some(match &path[..end] {
        [] => UnixAddr::Unnamed,
        path => UnixAddr::Path(bytes_path(path)?),
    })
}

/// The path of the bytes. Any bytes are a path on Unix, but not on Windows.
fn bytes_path(bytes: &[u8]) -> Option<&Path> {
    #[cfg(unix)]
    return Some(Path::new(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes)));
    #[cfg(windows)]
    std::str::from_utf8(bytes).ok().map(Path::new)
}

/// Decodes an Internet address in a control message. `None` for another family, and for an incomplete address.
pub(crate) fn decode_addr(bytes: &[u8]) -> Option<SocketAddr> {
    let mut name = [0; NAME_LEN];
    let len = bytes.len().min(NAME_LEN);
    name[..len].copy_from_slice(&bytes[..len]);
    decode(&name, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{Dest, RawAddr};
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
            let len = encode_addr(&addr, &mut name);
            prop_assert_eq!(decode(&name, len), Some(addr));
            let mut clean = [0; NAME_LEN];
            encode_addr(&addr, &mut clean);
            prop_assert_eq!(&name[..len], &clean[..len]);
            prop_assert_eq!(decode(&name, len - 1), None);
            // socket2 encodes independently of this crate.
            prop_assert_eq!(len, SockAddr::from(addr).len() as usize);
        }

        #[test]
        fn any_bytes_are_survived(bytes in any::<Name>(), len in 0usize..200) {
            let _ = decode(&bytes, len);
            let mut unix = bytes;
            unix[..PATH].copy_from_slice(&family_bytes(HAS_LEN, numbers::AF_UNIX, len % 100));
            let _ = RawAddr::new(&unix, len).unix();
        }
    }

    #[test]
    fn the_family_follows_the_length_where_an_address_has_one() {
        for family in [numbers::AF_INET, numbers::AF_INET6, numbers::AF_UNIX] {
            for (has_len, expected) in
                [(true, [V6_LEN as u8, family as u8]), (false, (family as u16).to_ne_bytes())]
            {
                let bytes = family_bytes(has_len, family, V6_LEN);
                assert_eq!((bytes, family_of(has_len, bytes)), (expected, family));
            }
        }
        // The length that a system reports for an unnamed or a received address may be any.
        assert_eq!(family_of(true, [0, 30]), 30);
    }

    #[test]
    fn an_ipv4_destination_has_the_bytes_of_an_ipv6_one() {
        let to = SocketAddr::from(([192, 0, 2, 7], 9));
        let Some(Dest::Addr(mapped)) = Dest::Addr(to).mapped() else { panic!("it is IPv4") };
        let mut name = [0xEE; NAME_LEN];
        assert_eq!(encode_addr(&mapped, &mut name), V6_LEN);
        let family = family_bytes(HAS_LEN, numbers::AF_INET6, V6_LEN);
        let address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 7];
        assert_eq!(name[..V6_LEN], [&family[..], &[0, 9], &[0; 4], &address, &[0; 4]].concat());
        assert_eq!(Dest::Addr(mapped).mapped(), None);
        for (ip, expected) in [("127.0.0.1:0", None), ("[::1]:0", Some(Dest::Addr(mapped)))] {
            let Ok(socket) = std::net::UdpSocket::bind(ip) else { continue };
            let socket = crate::sys::borrow(&socket);
            assert_eq!(crate::sys::mapped(socket, &Dest::Addr(to), &mut None), expected);
        }
    }

    #[cfg(has_descriptors)]
    #[test]
    fn a_unix_address_survives_whatever_was_there_before() {
        let longest = [b'x'; MAX_PATH];
        let (short, long) = (Path::new("a"), bytes_path(&longest).expect("ASCII"));
        let mut addrs = vec![UnixAddr::Path(short), UnixAddr::Path(long)];
        if cfg!(linux_like) {
            addrs.extend([&b""[..], b"a", b"\0\0", &longest[1..]].map(UnixAddr::Abstract));
        }
        for addr in addrs {
            let mut name = [0xEE; NAME_LEN];
            let len = encode_unix(addr, &mut name).expect("it has bytes");
            let raw = RawAddr::new(&name, len);
            assert_eq!((raw.unix(), raw.get()), (Some(addr), None));
        }
    }

    #[test]
    fn what_is_no_unix_address_has_no_bytes() {
        let too_long = [b'x'; MAX_PATH + 1];
        let path = |bytes| UnixAddr::Path(bytes_path(bytes).expect("ASCII"));
        let long_name = UnixAddr::Abstract(&too_long[1..]);
        let none = [path(&too_long), path(b""), path(b"a\0"), long_name];
        for addr in none.into_iter().chain([UnixAddr::Unnamed]) {
            assert_eq!(encode_unix(addr, &mut [0; NAME_LEN]), None, "{addr:?}");
        }
    }

    #[test]
    fn an_unnamed_unix_address_takes_several_forms() {
        let mut name = [0; NAME_LEN];
        assert_eq!(RawAddr::new(&name, 0).unix(), Some(UnixAddr::Unnamed));
        name[..PATH].copy_from_slice(&family_bytes(HAS_LEN, numbers::AF_UNIX, PATH));
        assert_eq!(RawAddr::new(&name, PATH).unix(), Some(UnixAddr::Unnamed));
        // A path that fills all the memory has no zero byte.
        name[PATH..].fill(b'x');
        let all = bytes_path(&name[PATH..]).expect("ASCII");
        assert_eq!(RawAddr::new(&name, NAME_LEN).unix(), Some(UnixAddr::Path(all)));
        name[..PATH].copy_from_slice(&family_bytes(HAS_LEN, numbers::AF_INET, V4_LEN));
        assert_eq!(RawAddr::new(&name, V4_LEN).unix(), None);
    }
}
